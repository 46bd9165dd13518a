//! `windlass` with a guest book: every verb, route and page of the command, and those of this part.

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    windlass_cli::run(vec![Arc::new(guestbook::Guestbook)])
}
