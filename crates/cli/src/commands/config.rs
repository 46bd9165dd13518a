//! `config show|init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use windlass_pack::api::ApiRequest;

use super::Session;
use crate::api::answer::{items, text};
use crate::compose::Address;
use crate::config::{Keys, template};
use crate::failure::{During, Failure};
use crate::output::Output;
use crate::output::table::Table;

#[derive(Serialize)]
struct Listed<'a> {
    items: Vec<Item<'a>>,
    /// Live values that override the configuration.
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
        let item = |of| LiveItem {
            key: text(of, "key"),
            value: text(of, "live"),
            configured: text(of, "configured"),
        };
        let live = live.iter().map(item);
        return output.json(&Listed { items: items.collect(), live: live.collect() });
    }
    let mut table = Table::new(&["key", "value", "from"]);
    for shown in &config.shown {
        table.row(vec![shown.path.clone(), shown.value.clone(), shown.origin.clone()]);
    }
    for of in &live {
        let instead = format!("set live instead of {}", text(of, "configured"));
        table.row(vec![text(of, "key").to_owned(), text(of, "live").to_owned(), instead]);
    }
    table.print(output)
}

/// The configuration is shown even if there is no database.
async fn live(session: &Session) -> Vec<Value> {
    if let Address::Sqlite(path) = &session.config.database.address
        && !path.exists()
    {
        return Vec::new();
    }
    let read = async {
        let api = session.api().await?;
        api.call(ApiRequest::get("/v1/overrides", &[])).await.during("cannot ask the database")
    };
    match read.await {
        Ok(live) => items(&live).to_vec(),
        Err(failure) => {
            session.output.note(format_args!("live values are not shown: {}", failure.text(false).trim()));
            Vec::new()
        }
    }
}

pub(crate) fn init(file: &Path, keys: &Keys, output: &Output) -> Result<(), Failure> {
    let what = format!("cannot write {}", file.display());
    // `create_new` checks and creates in one step, so a file that appears meanwhile is not overwritten.
    let mut created = match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(created) => created,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::new(what, "it exists").hint("name another file, or move this one away"));
        }
        Err(error) => return Err(Failure::new(what, error).hint("check the folder and its permissions")),
    };
    created.write_all(template(keys).as_bytes()).during(what)?;
    output.line(format_args!("wrote {}; every line that is commented out shows a default", file.display()))
}
