//! The `windlass` command with the built-in parts.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::run(Vec::new())
}
