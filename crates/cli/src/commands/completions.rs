//! `completions SHELL`.

use clap_complete::Shell;

use crate::args::command;
use crate::failure::{During, Failure};

pub(crate) fn run(shell: Shell) -> Result<(), Failure> {
    // Into memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "windlass", &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script).during("cannot write the script")
}
