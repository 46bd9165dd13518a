//! `jobs list|count|show|retry|cancel|delete|set`.

pub(crate) mod act;
mod set;

pub(super) use set::now;

use windlass_core::JobState;
use windlass_core::store::Action;
use windlass_pack::api::ApiRequest;

use super::Session;
use crate::api::answer::{Answered, ask, items, number};
use crate::args::{Count, Filter, Jobs, JobsVerb, List, One};
use crate::failure::{During, Failure};
use crate::output::{job, more};

pub(crate) async fn run(session: &Session, args: Jobs) -> Result<(), Failure> {
    match args.verb.unwrap_or(JobsVerb::List(args.list)) {
        JobsVerb::List(list) => self::list(session, "/v1/jobs", &list).await,
        JobsVerb::Count(count) => self::count(session, &count).await,
        JobsVerb::Show(one) => show(session, "/v1/jobs/{id}", &one).await,
        JobsVerb::Retry(selection) => act::run(session, &selection, Action::Retry, "retry", &[]).await,
        JobsVerb::Cancel(selection) => act::run(session, &selection, Action::Cancel, "cancel", &[]).await,
        JobsVerb::Delete(selection) => act::run(session, &selection, Action::Delete, "delete", &[]).await,
        JobsVerb::Set(args) => set::run(session, &args).await,
    }
}

/// A filter's conditions as query parameters, with these states instead of its own.
fn filtered(request: ApiRequest, filter: &Filter, states: &[JobState]) -> ApiRequest {
    let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    request
        .query("state", (!names.is_empty()).then(|| names.join(",")))
        .query("queue", filter.queue.as_ref())
        .query("kind", filter.kind.as_ref())
        .query("entity", entity(filter))
        .query("tag", filter.tag.as_ref())
}

fn entity(filter: &Filter) -> Option<String> {
    filter.entity.as_ref().map(|entity| format!("{}:{}", entity.entity_type, entity.entity_id))
}

/// `path` is that of all jobs or of dead letters.
pub(crate) async fn list(session: &Session, path: &str, args: &List) -> Result<(), Failure> {
    let api = session.api().await?;
    let request = filtered(ApiRequest::get(path, &[]), &args.filter, &args.filter.state);
    let answer = ask(api.as_ref(), args.paging.of(request)).await.during("cannot list jobs")?;
    if args.json.json {
        return answer.print(&session.output);
    }
    let table = job::table(items(&answer.value));
    if table.is_empty() {
        return session.output.line("no jobs match");
    }
    table.print(&session.output)?;
    more(&session.output, &answer.value);
    Ok(())
}

async fn count(session: &Session, args: &Count) -> Result<(), Failure> {
    let api = session.api().await?;
    let request = filtered(ApiRequest::get("/v1/jobs/count", &[]), &args.filter, &args.filter.state);
    let answer = ask(api.as_ref(), request).await.during("cannot count jobs")?;
    match args.json.json {
        true => answer.print(&session.output),
        false => session.output.line(number(&answer.value, "count")),
    }
}

pub(crate) async fn show(session: &Session, path: &str, args: &One) -> Result<(), Failure> {
    let api = session.api().await?;
    let id = args.id.to_string();
    let answer = ask(api.as_ref(), ApiRequest::get(path, &[&id])).await;
    print(session, &answer.during(format!("cannot show job {id}")).map_err(elsewhere)?, args.json.json)
}

fn print(session: &Session, answer: &Answered, json: bool) -> Result<(), Failure> {
    match json {
        true => answer.print(&session.output),
        false => job::page(answer, &session.output),
    }
}

fn elsewhere(failure: Failure) -> Failure {
    failure.or_hint("`windlass jobs` lists them")
}
