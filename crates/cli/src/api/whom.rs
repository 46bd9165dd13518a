//! Whom a verb asks: a server that was named, or the database itself.

use super::Remote;
use crate::args::{Typed, Verb, What};
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::Output;

/// Names a server for data verbs.
const VARIABLE: &str = "WINDLASS_SERVER";

/// What a verb makes of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its routes answer as well as those of this process.
    Asks,
    /// It is about this process, which cannot be taken for another: a variable of the shell does no harm.
    Stays,
    /// It changes or copies the database it finds, which must not be another one than is meant.
    Opens,
}

fn way(what: &What) -> Way {
    let What::Own(verb) = what else { return Way::Asks };
    match verb.as_ref() {
        Verb::Serve(_) | Verb::Worker(_) | Verb::Demo(_) | Verb::Config(_) => Way::Stays,
        Verb::Migrate(_) | Verb::Restore(_) | Verb::Bench(_) => Way::Opens,
        Verb::Backup(args) if !args.is_list() => Way::Opens,
        _ => Way::Asks,
    }
}

/// The server to ask. Verbs that work on the database itself cannot be sent there, and say so.
pub(crate) fn remote(
    typed: &Typed,
    environment: &Environment,
    output: &Output,
) -> Result<Option<Remote>, Failure> {
    let (way, flag) = (way(&typed.what), typed.global.server.clone());
    let variable = environment.get(VARIABLE).filter(|server| !server.trim().is_empty());
    let named = typed.global.database.is_some();
    let itself = "this verb works on the database itself";
    match (way, &flag, &variable) {
        (Way::Stays | Way::Opens, Some(_), _) => {
            Err(Failure::usage("--server cannot be followed", itself)
                .hint("name the database with --database"))
        }
        (Way::Opens, None, Some(_)) if !named => {
            let hint = format!("name the database with --database, or unset {VARIABLE}");
            Err(Failure::usage(format!("{VARIABLE} cannot be followed"), itself).hint(hint))
        }
        (Way::Stays, None, Some(_)) => {
            output.note(format_args!("{VARIABLE} is not followed: {itself}"));
            Ok(None)
        }
        (Way::Opens | Way::Stays, None, _) => Ok(None),
        (Way::Asks, Some(_), _) if named => {
            let why = "--server and --database name two places";
            Err(Failure::usage("it is not clear whom to ask", why).hint("give one of them"))
        }
        (Way::Asks, ..) => {
            let server = flag.or(variable.filter(|_| !named));
            let token = environment.get("WINDLASS_TOKEN");
            Ok(server.map(|server| Remote { server, token }))
        }
    }
}
