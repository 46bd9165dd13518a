//! CLI verbs: load a file, search, show entities and types.
//!
//! Each verb sends requests to this pack's routes and prints the answers. Never opens a database.

mod entities;
mod filter;
mod load;
mod report;
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
