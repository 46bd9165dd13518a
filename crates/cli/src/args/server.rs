//! Which verbs offer `--server`.

use clap::{Arg, Command};

/// Verbs that work on a database or process of this machine.
const DIRECT: [&str; 7] = ["serve", "worker", "demo", "migrate", "restore", "bench", "config"];

/// Hides `--server` in the help of verbs that refuse it. It is still parsed there, so that the error can give the
/// reason.
pub(super) fn offered(mut command: Command) -> Command {
    for noun in DIRECT {
        command = command.mut_subcommand(noun, |noun| every(noun, &hidden()));
    }
    command.mut_subcommand("backup", |backup| {
        let of_list = "Without a file, and for `list`: list the backups of this server; also WINDLASS_SERVER";
        let backup = backup.mut_subcommand("verify", |verify| verify.arg(hidden()));
        backup.arg(hidden().hide(false).help(of_list))
    })
}

/// A verb that already has the option does not get the global one.
fn hidden() -> Arg {
    Arg::new("server").long("server").global(true).value_name("URL").help_heading("Everywhere").hide(true)
}

fn every(command: Command, arg: &Arg) -> Command {
    command.arg(arg.clone()).mut_subcommands(|verb| every(verb, arg))
}
