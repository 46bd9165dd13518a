//! The `windlass` command with the parts that come with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::run(Vec::new())
}
