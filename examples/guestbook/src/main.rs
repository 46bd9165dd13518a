//! The whole `windlass` command with this pack added.

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    windlass_cli::run(vec![Arc::new(guestbook::Guestbook)])
}
