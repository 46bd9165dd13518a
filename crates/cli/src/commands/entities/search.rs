//! `search` and `similar`.

use serde_json::{Map, Value};
use windlass_http::view::SearchView;
use windlass_index::filter::Filter;
use windlass_index::{SearchAnswer, SearchRequest};

use super::Desk;
use crate::args;
use crate::commands::Session;
use crate::failure::{During, Failure};
use crate::output::{short, visible};

pub(crate) async fn search(session: &Session, args: &args::Search) -> Result<(), Failure> {
    let what = "cannot search";
    let filter = filter(&args.filter)?;
    let desk = Desk::open(session).await?;
    let request = SearchRequest {
        limit: args.limit,
        offset: args.offset,
        mode: args.mode.into(),
        filter,
        ..SearchRequest::new(&args.entity_type, &args.words)
    };
    let answer = desk.entities.search(request).await.during(what)?;
    tell(session, answer, args.json.json)
}

pub(crate) async fn similar(session: &Session, args: &args::Similar) -> Result<(), Failure> {
    let desk = Desk::open(session).await?;
    let similar = desk.entities.similar(&args.entity_type, &args.id, args.limit).await;
    tell(session, similar.during("cannot look for similar entities")?, args.json.json)
}

/// `name=value`: a number, true or false where it reads as one, else text.
fn filter(pairs: &[String]) -> Result<Option<Filter>, Failure> {
    let mut all = Vec::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            let why = format!("--filter {} is not NAME=VALUE", visible(pair));
            return Err(Failure::usage("cannot search", why));
        };
        let value = serde_json::from_str(value)
            .ok()
            .filter(|value| matches!(value, Value::Number(_) | Value::Bool(_)))
            .unwrap_or_else(|| Value::String(value.to_owned()));
        all.push(Value::Object(Map::from_iter([(name.to_owned(), value)])));
    }
    if all.is_empty() {
        return Ok(None);
    }
    let json = Value::Object(Map::from_iter([("all".to_owned(), Value::Array(all))]));
    Filter::parse(&json).map(Some).map_err(|invalid| Failure::usage("cannot search", invalid))
}

fn tell(session: &Session, answer: SearchAnswer, json: bool) -> Result<(), Failure> {
    if json {
        return session.output.json(&SearchView::from(answer));
    }
    let output = &session.output;
    if answer.hits.is_empty() {
        return output.line("nothing found");
    }
    for (n, hit) in answer.hits.iter().enumerate() {
        let stale = if hit.stale { "  (not yet embedded)" } else { "" };
        output.line(format_args!(
            "{:>3}. {:.3}  {} {}{stale}",
            n + 1,
            hit.score,
            visible(&hit.entity_type),
            visible(&hit.id)
        ))?;
        output.line(format_args!("     {}", short(&visible(&hit.snippet), 160)))?;
    }
    let at_least = if answer.exact { "" } else { "at least " };
    let took = answer.took.as_secs_f64() * 1e3;
    output.line(format_args!("{} of {at_least}{} in {took:.1} ms", answer.hits.len(), answer.total))
}
