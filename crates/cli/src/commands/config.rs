//! `config show|init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use windlass_core::StoreError;
use windlass_core::store::Overruled;

use super::Session;
use crate::compose::{self, Address};
use crate::config::template;
use crate::failure::{During, Failure};
use crate::output::table::Table;
use crate::output::{Output, visible};

#[derive(Serialize)]
struct Listed<'a> {
    items: Vec<Item<'a>>,
    /// What an operator set live and the configuration does not say.
    live: Vec<LiveItem<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    key: &'a str,
    value: &'a str,
    from: &'a str,
}

#[derive(Serialize)]
struct LiveItem<'a> {
    key: &'a str,
    value: &'a str,
    configured: &'a str,
}

pub(crate) async fn show(session: &Session, json: bool) -> Result<(), Failure> {
    let (config, output) = (&session.config, &session.output);
    let live = live(session).await;
    if json {
        let items = config.shown.iter();
        let items = items.map(|shown| Item { key: &shown.path, value: &shown.value, from: &shown.origin });
        let live =
            live.iter().map(|of| LiveItem { key: &of.key, value: &of.live, configured: &of.configured });
        return output.json(&Listed { items: items.collect(), live: live.collect() });
    }
    let mut table = Table::new(&["key", "value", "from"]);
    for shown in &config.shown {
        table.row(vec![shown.path.clone(), shown.value.clone(), shown.origin.clone()]);
    }
    for of in live {
        table.row(vec![of.key, of.live, format!("set live instead of {}", of.configured)]);
    }
    table.print(output)
}

/// The configuration is shown whether or not there is a database to ask.
async fn live(session: &Session) -> Vec<Overruled> {
    let database = &session.config.database;
    if let Address::Sqlite(path) = &database.address
        && !path.exists()
    {
        return Vec::new();
    }
    let read = async {
        let store = compose::open(database, false).await?;
        let live = match store.check_schema().await {
            Ok(()) => store.overruled().await,
            Err(error) => Err(error),
        };
        store.close().await;
        live
    };
    read.await.unwrap_or_else(|error: StoreError| {
        session.output.note(format_args!("what was set live is not shown: {}", visible(&error.chain())));
        Vec::new()
    })
}

pub(crate) fn init(file: &Path, output: &Output) -> Result<(), Failure> {
    let what = format!("cannot write {}", file.display());
    // `create_new` decides and creates in one step: a file that appears meanwhile is not overwritten.
    let mut created = match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(created) => created,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(what, "it exists").hint("name another file, or move this one away"));
        }
        Err(error) => return Err(Failure::new(what, error).hint("check the folder and its permissions")),
    };
    created.write_all(template().as_bytes()).during(what)?;
    output.line(format_args!("wrote {}; every line that is commented out shows a default", file.display()))
}
