//! What the demo says: searches, a price change, a deletion, and what to try next.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use windlass_core::entity::{Change, Fields};
use windlass_index::filter::Filter;
use windlass_index::{Entities, Hit, SaveRequest, SearchRequest};

use super::catalogue;
use crate::commands::Session;
use crate::config::Database;
use crate::failure::{During, Failure};
use crate::output::{short, visible};

const SHOWN: usize = 3;
/// The flask, whose price changes and comes back.
const PRICED: &str = "p003";
const SALE: f64 = 19.99;
/// The order that is deleted; the next demo brings it back.
const DELETED: &str = "o1002";

pub(super) async fn searches(session: &Session, entities: &Entities) -> Result<(), Failure> {
    let output = &session.output;
    let searches =
        catalogue::searches().map_err(|error| Failure::new("the sample searches are broken", error))?;
    for search in searches {
        let request =
            SearchRequest { limit: SHOWN, ..SearchRequest::new(&search.entity_type, &search.query) };
        let answer = entities.search(request).await.during("cannot search")?;
        let took = answer.took.as_secs_f64() * 1e3;
        output.line(format_args!("\n{} “{}”   {took:.1} ms", search.entity_type, search.query))?;
        for hit in &answer.hits {
            let mark = if search.expect.contains(&hit.id) { "✓" } else { " " };
            output.line(format_args!("  {mark} {:.2}  {:<6} {}", hit.score, visible(&hit.id), title(hit)))?;
        }
        output.line(format_args!("         ({})", search.why))?;
    }
    output.line("\n✓ marks what the person who wrote the catalogue had in mind.")
}

/// The name, the title, or the beginning of the text.
fn title(hit: &Hit) -> String {
    let named = ["name", "title", "note"].into_iter().find_map(|name| hit.fields.get(name)?.as_str());
    short(&visible(named.unwrap_or(&hit.snippet)), 90)
}

/// A price is no text: the change is seen by the next search, and nothing is embedded again.
pub(super) async fn price(session: &Session, entities: &Entities) -> Result<(), Failure> {
    let output = &session.output;
    let patch: Fields = Map::from_iter([("price".to_owned(), json!(SALE))]);
    let written = entities.save(SaveRequest::new("product", PRICED, Change::Patch(patch))).await;
    let written = written.during("cannot change the price")?;
    let filter =
        Filter::parse(&json!({ "price": { "lte": SALE } })).map_err(|e| Failure::new("cannot filter", e))?;
    let request =
        SearchRequest { filter: Some(filter), limit: 1, ..SearchRequest::new("product", "vacuum flask") };
    let answer = entities.search(request).await.during("cannot search")?;
    let found = answer.hits.first().filter(|hit| hit.id == PRICED);
    let price = found.and_then(|hit| hit.fields.get("price")).and_then(Value::as_f64);
    let seen = if price == Some(SALE) { "the next search has it" } else { "the next search has NOT got it" };
    output.line(format_args!(
        "\nPrice of {PRICED} changed to {SALE} (version {}): {seen}, and nothing was embedded again.",
        written.version
    ))
}

pub(super) async fn deletion(session: &Session, entities: &Entities) -> Result<(), Failure> {
    let output = &session.output;
    entities.save(SaveRequest::new("order", DELETED, Change::Delete)).await.during("cannot delete")?;
    let query = "leave it with the people next door";
    let answer = entities.search(SearchRequest::new("order", query)).await.during("cannot search")?;
    let gone = answer.hits.iter().all(|hit| hit.id != DELETED);
    let seen = if gone { "the next search is without it" } else { "the next search STILL has it" };
    output.line(format_args!("Order {DELETED} deleted: {seen}."))
}

/// Commands that work as they stand while the server is up.
pub(super) fn next(session: &Session, address: SocketAddr, database: &Database) -> Result<(), Failure> {
    let output = &session.output;
    let json = "-H 'content-type: application/json'";
    let binary = visible(&std::env::args().next().unwrap_or_else(|| "windlass".to_owned()));
    output.line(format_args!("\nThe dashboard is at http://{address}/ and the API beside it. Try:"))?;
    output.line(format_args!(
        "  curl -s http://{address}/v1/search {json} -d '{{\"type\": \"product\", \"query\": \"quiet gift for a musician\"}}'"
    ))?;
    output.line(format_args!(
        "  curl -s -X PUT http://{address}/v1/entities/document/hello {json} -d '{{\"title\": \"Hello\", \"text\": \"Written a moment ago\"}}'"
    ))?;
    output.line(format_args!("  curl -s http://{address}/v1/entities/document/hello"))?;
    output.line(format_args!("  curl -s http://{address}/v1/entities/product/p001/similar"))?;
    output.line(format_args!("  curl -s http://{address}/v1/stats"))?;
    output
        .line(format_args!("  {binary} search article \"better sleep\" --database {}", database.address))?;
    output.line("Stop it with Ctrl-C.")
}
