//! The output of the demo: searches, a price change, a deletion, and what to try next.

use serde_json::{Map, Value, json};
use windlass_core::entity::{Change, Fields};
use windlass_index::filter::Filter;
use windlass_index::{Entities, Hit, SaveRequest, SearchRequest};

use super::catalogue;
use crate::commands::Session;
use crate::commands::serve::Site;
use crate::failure::{During, Failure};
use crate::output::{quoted, short, visible};

const SHOWN: usize = 3;
/// Leaves room for the rest of eighty columns.
const TITLE: usize = 62;
/// The flask, whose price changes and is changed back.
const PRICED: &str = "p003";
const SALE: f64 = 19.99;
/// The order that is deleted; the next demo restores it.
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
        output.line(format_args!("{:17}({})", "", search.why))?;
    }
    output.line(
        "\n✓ marks what the person who wrote the catalogue had in mind.\n\
         A score of 1 is every word of the query found and the same meaning; by meaning\n\
         alone 0.24 is the most there is.",
    )
}

/// The name, the title, or the beginning of the text.
fn title(hit: &Hit) -> String {
    let named = ["name", "title", "note"].into_iter().find_map(|name| hit.fields.get(name)?.as_str());
    short(&visible(named.unwrap_or(&hit.snippet)), TITLE)
}

/// A price is not text: the next search sees the change, and nothing is embedded again.
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
        "\nPrice of {PRICED} changed to {SALE} (version {}): {seen},\nand nothing was embedded again.",
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

/// Commands that work as shown while the server is running, each within eighty columns.
pub(super) fn next(session: &Session, site: &Site) -> Result<(), Failure> {
    let output = &session.output;
    let url = quoted(&format!("http://{}", site.address()));
    let binary = quoted(&visible(&std::env::args().next().unwrap_or_else(|| "windlass".to_owned())));
    output.line("")?;
    site.announce(output)?;
    output.line(format_args!("Try, in another terminal in this folder:\n"))?;
    output.line(format_args!("  U={url} J='content-type: application/json'"))?;
    output.line(
        r#"  curl -s $U/v1/search -H "$J" \
       -d '{"type": "product", "query": "relief for back pain"}'
  curl -s -X PUT $U/v1/entities/document/hello -H "$J" \
       -d '{"title": "Hello", "text": "Written a moment ago"}'
  curl -s $U/v1/entities/document/hello
  curl -s $U/v1/entities/product/p001/similar
  curl -s $U/v1/stats"#,
    )?;
    output.line(format_args!("  {binary} search article \"better sleep\"\n"))?;
    output.line("Stop it with Ctrl-C.")
}
