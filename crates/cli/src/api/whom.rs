//! Which target a verb uses: a named server, or the database itself.

use super::Remote;
use crate::args::{Typed, Verb, What};
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::Output;

/// Names a server for data verbs.
const VARIABLE: &str = "WINDLASS_SERVER";

/// How a verb treats a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Calls the routes of the server instead of those of this process.
    Asks,
    /// Is about this process only; the variable is ignored.
    Stays,
    /// Changes or copies the database directly, and must not do so to the wrong one.
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

/// The server to call. Verbs that work on the database itself refuse one.
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
            Err(Failure::usage("the target is ambiguous", why).hint("give one of them"))
        }
        (Way::Asks, ..) => {
            let server = flag.or(variable.filter(|_| !named));
            let token = environment.get("WINDLASS_TOKEN");
            Ok(server.map(|server| Remote { server, token }))
        }
    }
}
