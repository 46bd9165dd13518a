//! A guest book as a pack for Windlass: visitors sign it, and a job thanks each of them and makes the entry searchable.
//!
//! Copy this folder to start your own pack; `docs/packs.md` explains it.

#![forbid(unsafe_code)]

mod entries;
mod jobs;
mod routes;
mod search;
mod settings;
mod watch;

use std::time::Duration;

use windlass::TypeSpec;
use windlass::pack::page::{Column, Filter, Page, PageAct};
use windlass::pack::settings::Setting;
use windlass::pack::verb::{Arg, Goes, Verb};
use windlass::pack::{Method, Pack, Registry};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Columns of the page and of the terminal output.
const COLUMNS: [Column; 4] = [
    Column::text("name", "name"),
    Column::text("message", "message"),
    Column::time("signed_at", "signed"),
    Column::time("thanked_at", "thanked"),
];

pub struct Guestbook;

impl Pack for Guestbook {
    fn name(&self) -> &'static str {
        "guestbook"
    }

    fn settings(&self) -> Vec<Setting> {
        settings::declared()
    }

    fn register(&self, registry: &mut Registry) {
        let host = registry.host();
        registry.migration(entries::STEP).table(&entries::TABLE);
        registry.entity_type(TypeSpec { text: vec![], ..TypeSpec::named(search::ENTITY) });
        routes::register(registry);
        jobs::register(registry);
        watch::register(registry);
        registry.cleanup("guestbook", "entries of the guest book", YEAR, move |run| {
            let host = host.clone();
            async move { Ok(entries::remove_old(&host, &run).await?) }
        });
        registry.page(page());
        for verb in verbs() {
            registry.verb(verb);
        }
    }
}

fn page() -> Page {
    let mut page = Page::new("guestbook", "Guest book", "/v1/guestbook")
        .filter(Filter::text("name", "name"))
        .act(PageAct::new("Sign", "POST", "/v1/guestbook").fields(&["name", "message"]))
        .act(PageAct::new("Remove", "DELETE", "/v1/guestbook/{id}").confirm("Remove this entry for good?"))
        .empty("Nobody has signed yet.")
        .paged();
    for column in COLUMNS {
        page = page.column(column);
    }
    page
}

fn verbs() -> Vec<Verb> {
    let name = Arg::option("name", "Who signs", Goes::Field);
    let id = Arg::positional("ID", "Id of the entry, as `guestbook list --json` shows it", Goes::Path);
    vec![
        Verb::call("guestbook", "list", "Entries, newest first", Method::GET, "/v1/guestbook")
            .of("The guest book: look at it, sign it")
            .arg(Arg::option("name", "Only entries of this name", Goes::Query))
            .arg(Arg::option("limit", "Most entries on a page", Goes::Query))
            .arg(Arg::option("cursor", "The next_cursor of the page before", Goes::Query))
            .columns(&COLUMNS)
            .empty("nobody has signed yet"),
        Verb::call("guestbook", "sign", "Leave an entry", Method::POST, "/v1/guestbook")
            .arg(name.required())
            .arg(Arg::option("message", "What to say", Goes::Field).required())
            .columns(&COLUMNS),
        Verb::call("guestbook", "remove", "Remove an entry", Method::DELETE, "/v1/guestbook/{id}").arg(id),
    ]
}
