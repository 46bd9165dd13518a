//! TOML files: a calendar that core validates, or a schedule as the object for HTTP.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use toml_edit::{Document, Item, TableLike, Value};
use windlass_core::Invalid;
use windlass_core::input::shown;
use windlass_core::schedule::CalendarSpec;

const KEYS: &str = "zone, sessions, closed, half_days";

fn read(path: &str) -> Result<Document<String>, Invalid> {
    let in_file = |rule: String| Invalid::one(shown(path), rule);
    let text = std::fs::read_to_string(path).map_err(|error| in_file(format!("cannot be read: {error}")))?;
    Document::parse(text.clone()).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        in_file(format!("is not TOML in line {line}: {}", error.message().trim()))
    })
}

/// Named after its file.
pub(super) fn calendar(path: &str) -> Result<CalendarSpec, Invalid> {
    let document = read(path)?;
    let mut invalid = Invalid::default();
    let mut spec = describe(document.as_table(), &mut invalid);
    spec.name =
        Path::new(path).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    invalid.into_result()?;
    Ok(spec)
}

/// The same content as JSON; dates and times become text.
pub(super) fn json(path: &str) -> Result<Json, Invalid> {
    Ok(object(read(path)?.as_table()))
}

fn object(table: &dyn TableLike) -> Json {
    Json::Object(table.iter().map(|(key, item)| (key.to_owned(), of_item(item))).collect())
}

fn of_item(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => object(table),
        Item::ArrayOfTables(tables) => Json::Array(tables.iter().map(|table| object(table)).collect()),
    }
}

fn of_value(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(flag) => Json::from(*flag.value()),
        Value::Datetime(time) => Json::from(time.value().to_string()),
        Value::Array(items) => Json::Array(items.iter().map(of_value).collect()),
        Value::InlineTable(table) => object(table),
    }
}

fn describe(root: &dyn TableLike, invalid: &mut Invalid) -> CalendarSpec {
    let mut spec = CalendarSpec::default();
    for (key, item) in root.iter() {
        match key {
            "zone" => match item.as_str() {
                Some(zone) => spec.zone = zone.to_owned(),
                None => invalid.add("zone", "must be text"),
            },
            "closed" => spec.closed = texts("closed", item, invalid),
            "sessions" => spec.sessions = lists("sessions", item, invalid),
            "half_days" => spec.half_days = lists("half_days", item, invalid),
            other => invalid.add(shown(other), format!("is not a key of a calendar; known: {KEYS}")),
        }
    }
    spec
}

fn lists(key: &str, item: &Item, invalid: &mut Invalid) -> BTreeMap<String, Vec<String>> {
    let Some(table) = item.as_table_like() else {
        invalid.add(key, format!("must be a table; write it as [{key}]"));
        return BTreeMap::new();
    };
    let list = |(name, item): (&str, &Item)| {
        (name.to_owned(), texts(&format!("{key}.{}", shown(name)), item, invalid))
    };
    table.iter().map(list).collect()
}

/// A date may be a TOML date or text.
fn texts(key: &str, item: &Item, invalid: &mut Invalid) -> Vec<String> {
    let Some(array) = item.as_array() else {
        invalid.add(key, "must be a list");
        return Vec::new();
    };
    let mut texts = Vec::new();
    for value in array {
        match value.as_str().map(str::to_owned).or_else(|| value.as_datetime().map(|date| date.to_string())) {
            Some(text) => texts.push(text),
            None => invalid.add(key, "must be a list of texts"),
        }
    }
    texts
}
