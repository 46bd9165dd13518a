//! `search` and `similar`.

use windlass_http::view::SearchView;
use windlass_index::{Facet, FacetValue, SearchAnswer, SearchRequest};

use super::Desk;
use super::filter::filter;
use crate::args;
use crate::commands::Session;
use crate::failure::{During, Failure};
use crate::output::{short, visible};

pub(crate) async fn search(session: &Session, args: &args::Search) -> Result<(), Failure> {
    let filter = filter(&args.filter)?;
    let desk = Desk::open(session).await?;
    let request = SearchRequest {
        limit: args.limit as usize,
        offset: args.offset as usize,
        mode: args.mode.into(),
        filter,
        facets: args.facet.clone(),
        ..SearchRequest::new(&args.entity_type, &args.words)
    };
    let answer = desk.entities.search(request).await.during("cannot search")?;
    tell(session, answer, args.json.json)
}

pub(crate) async fn similar(session: &Session, args: &args::Similar) -> Result<(), Failure> {
    let desk = Desk::open(session).await?;
    let similar = desk.entities.similar(&args.entity_type, &args.id, args.limit as usize).await;
    tell(session, similar.during("cannot look for similar entities")?, args.json.json)
}

fn tell(session: &Session, answer: SearchAnswer, json: bool) -> Result<(), Failure> {
    if json {
        return session.output.json(&SearchView::from(answer));
    }
    let output = &session.output;
    if answer.hits.is_empty() {
        output.line("nothing found")?;
        return tell_facets(session, &answer.facets);
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
    output.line(format_args!("{} of {at_least}{} in {took:.1} ms", answer.hits.len(), answer.total))?;
    tell_facets(session, &answer.facets)
}

fn tell_facets(session: &Session, facets: &[Facet]) -> Result<(), Failure> {
    for facet in facets {
        session.output.line(format_args!("{}", visible(&facet.field)))?;
        for FacetValue { value, count } in &facet.values {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            session.output.line(format_args!("{count:>8}  {}", visible(&value)))?;
        }
        if facet.more {
            session.output.line("       …  and more")?;
        }
    }
    Ok(())
}
