//! `search` and `similar`.

use serde_json::{Map, Value, json};
use windlass_pack::api::ApiRequest;
use windlass_pack::verb::{Arg, Goes, Verb, VerbCall, VerbError};

use super::filter::filter;
use super::{ID, TYPE};

/// Characters of a snippet that are printed.
const SNIPPET: usize = 160;

const SEARCH: &str = "Examples:
  windlass search product \"a quiet gift for a musician\"
  windlass search product kettle --filter category=kitchen --filter 'price<=40'
  windlass search product kettle --filter 'zip=\"8001\"' --facet colour --limit 3
  windlass search article \"better sleep\" --mode vector --json

A filter is NAME=VALUE, or != < <= > >= between them; all given ones hold. A name with dots is a
field inside an object. A bare value that reads as a number also matches the same text; in double
quotes it is text and nothing else.";

const SIMILAR: &str = "Example:
  windlass similar product p001 --limit 3";

pub(super) fn verbs() -> Vec<Verb> {
    let words = "What to look for, in quotes when it is more than one word";
    let conditions = "Only entities for which this holds, such as colour=red or 'price>=8'; may be repeated";
    let facets = "Count the values of this field over everything that matches words and filter (in mode vector: the \
                  filter); may be repeated";
    let mode =
        "What decides the order: hybrid (words and meaning), vector (meaning alone) or keyword (words alone)";
    vec![
        Verb::run("search", "", "Search entities by words and meaning", search)
            .arg(Arg { goes: Goes::Code, ..TYPE })
            .arg(Arg::positional("WORDS", words, Goes::Code))
            .arg(Arg::option("limit", "Most hits to print [default: 10]", Goes::Code).value("N"))
            .arg(
                Arg::option("offset", "Hits to leave out before the first that is printed", Goes::Code)
                    .value("N"),
            )
            .arg(Arg::option("filter", conditions, Goes::Code).value("NAME=VALUE").many())
            .arg(Arg::option("facet", facets, Goes::Code).value("FIELD").many())
            .arg(Arg::option("mode", mode, Goes::Code).value("MODE"))
            .examples(SEARCH),
        Verb::run("similar", "", "Entities like this one", similar)
            .arg(TYPE)
            .arg(ID)
            .arg(Arg::option("limit", "Most entities to print [default: 10]", Goes::Query).value("N"))
            .examples(SIMILAR),
    ]
}

async fn search(call: VerbCall) -> Result<(), VerbError> {
    let mut body = Map::new();
    body.insert("type".to_owned(), json!(call.get("TYPE")));
    body.insert("query".to_owned(), json!(call.get("WORDS")));
    for name in ["limit", "offset"] {
        if let Some(text) = call.get(name) {
            let number = text.parse::<u64>().map_err(|_| {
                VerbError::usage("cannot search", format!("--{name} must be a whole number, not `{text}`"))
            })?;
            body.insert(name.to_owned(), json!(number));
        }
    }
    if let Some(mode) = call.get("mode") {
        body.insert("mode".to_owned(), json!(mode));
    }
    if let Some(filter) = filter(call.all("filter"))? {
        body.insert("filter".to_owned(), filter);
    }
    if !call.all("facet").is_empty() {
        body.insert("facets".to_owned(), json!(call.all("facet")));
    }
    let request = ApiRequest::post("/v1/search", &[]).json(&Value::Object(body));
    let answer = call.ask("cannot search", request).await?;
    tell(&call, &answer)
}

async fn similar(call: VerbCall) -> Result<(), VerbError> {
    let holes = [call.get("TYPE").unwrap_or_default(), call.get("ID").unwrap_or_default()];
    let request =
        ApiRequest::get("/v1/entities/{type}/{id}/similar", &holes).query("limit", call.get("limit"));
    let answer = call.ask("cannot look for similar entities", request).await?;
    tell(&call, &answer)
}

fn tell(call: &VerbCall, answer: &Value) -> Result<(), VerbError> {
    if call.json {
        return call.console.json(answer);
    }
    let hits = answer["hits"].as_array().map_or(&[][..], Vec::as_slice);
    if hits.is_empty() {
        call.console.line("nothing found")?;
        return facets(call, answer);
    }
    for (n, hit) in hits.iter().enumerate() {
        let text = |field: &str| hit[field].as_str().unwrap_or_default();
        let stale = if hit["stale"] == true { "  (not yet embedded)" } else { "" };
        let score = hit["score"].as_f64().unwrap_or_default();
        call.console.line(&format!("{:>3}. {score:.3}  {} {}{stale}", n + 1, text("type"), text("id")))?;
        call.console.line(&format!("     {}", short(text("snippet"))))?;
    }
    let at_least = if answer["total_relation"] == "eq" { "" } else { "at least " };
    let took = answer["took_ms"].as_f64().unwrap_or_default();
    call.console.line(&format!("{} of {at_least}{} in {took:.1} ms", hits.len(), answer["total"]))?;
    facets(call, answer)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SNIPPET) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

fn facets(call: &VerbCall, answer: &Value) -> Result<(), VerbError> {
    for (field, values) in answer["facets"].as_object().into_iter().flatten() {
        call.console.line(field)?;
        for value in values.as_array().map_or(&[][..], Vec::as_slice) {
            let shown = value["value"].as_str().map_or_else(|| value["value"].to_string(), str::to_owned);
            call.console.line(&format!("{:>8}  {shown}", value["count"].as_u64().unwrap_or_default()))?;
        }
        if answer["facets_more"].as_array().is_some_and(|more| more.iter().any(|one| one == field)) {
            call.console.line("       …  and more")?;
        }
    }
    Ok(())
}
