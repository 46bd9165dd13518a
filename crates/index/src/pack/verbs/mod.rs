//! Verbs of the command line: load a file, search, look at entities and types.
//!
//! Each builds requests for this part's routes and shows the answers. Never opens a database.

mod answer;
mod entities;
mod filter;
mod load;
mod search;
mod types;

use windlass_pack::Registry;
use windlass_pack::verb::{Arg, Goes};

const TYPE: Arg = Arg::positional("TYPE", "Type of the entity; `windlass types` lists them", Goes::Path);
const ID: Arg = Arg::positional("ID", "Id of the entity, as it was written", Goes::Path);

pub(super) fn register(registry: &mut Registry) {
    let verbs = [load::verbs(), search::verbs(), types::verbs(), entities::verbs()];
    for verb in verbs.into_iter().flatten() {
        registry.verb(verb);
    }
}
