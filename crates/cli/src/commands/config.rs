//! `config show|init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::config::{Config, template};
use crate::failure::{During, Failure};
use crate::output::Output;
use crate::output::table::Table;

#[derive(Serialize)]
struct Listed<'a> {
    items: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    key: &'a str,
    value: &'a str,
    from: &'a str,
}

pub(crate) fn show(config: &Config, output: &Output, json: bool) -> Result<(), Failure> {
    if json {
        let items = config.shown.iter();
        let items = items.map(|shown| Item { key: &shown.path, value: &shown.value, from: &shown.origin });
        return output.json(&Listed { items: items.collect() });
    }
    let mut table = Table::new(&["key", "value", "from"]);
    for shown in &config.shown {
        table.row(vec![shown.path.clone(), shown.value.clone(), shown.origin.clone()]);
    }
    table.print(output)
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
