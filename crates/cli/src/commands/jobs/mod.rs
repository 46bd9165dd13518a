//! `jobs list|count|show|retry|cancel|delete|set`.

pub(crate) mod act;
mod set;

use serde::Serialize;
use windlass_core::input::shown;
use windlass_core::store::{Action, JobDetail, JobFilter, Page};
use windlass_core::{JobId, JobState};
use windlass_engine::{Catalog, Client};
use windlass_http::view::{DetailView, JobView, ListView};

use super::Session;
use crate::args::{Count, Filter, Jobs, JobsVerb, List, One};
use crate::failure::{During, Failure};
use crate::output::job;

pub(crate) async fn run(session: &Session, args: Jobs) -> Result<(), Failure> {
    match args.verb.unwrap_or(JobsVerb::List(args.list)) {
        JobsVerb::List(list) => self::list(session, list, &[]).await,
        JobsVerb::Count(count) => self::count(session, count).await,
        JobsVerb::Show(one) => show(session, &one, &[]).await,
        JobsVerb::Retry(selection) => act::run(session, selection, Action::Retry, "retry", &[]).await,
        JobsVerb::Cancel(selection) => act::run(session, selection, Action::Cancel, "cancel", &[]).await,
        JobsVerb::Delete(selection) => act::run(session, selection, Action::Delete, "delete", &[]).await,
        JobsVerb::Set(args) => set::run(session, &args).await,
    }
}

/// Names resolved against the registry. `only` narrows the states a noun is about; empty means any.
pub(crate) fn filter(args: Filter, catalog: &Catalog, only: &[JobState]) -> Result<JobFilter, Failure> {
    let queue = match &args.queue {
        None => None,
        Some(name) => match catalog.queue_named(name) {
            Some(queue) => Some(queue.id),
            None => return Err(unknown("queue", name, &catalog.queue_names())),
        },
    };
    let kind = match &args.kind {
        None => None,
        Some(name) => match catalog.kind_named(name) {
            Some(kind) => Some(kind.id),
            None => return Err(unknown("kind", name, &catalog.kind_names())),
        },
    };
    let states = match (args.state.is_empty(), only.is_empty()) {
        (true, _) => only.to_vec(),
        (false, true) => args.state,
        (false, false) => {
            let fits: Vec<JobState> = args.state.into_iter().filter(|state| only.contains(state)).collect();
            if fits.is_empty() {
                let known: Vec<&str> = only.iter().map(|state| state.name()).collect();
                let why = format!("only these can be meant here: {}", known.join(", "));
                return Err(Failure::usage("--state fits nothing", why));
            }
            fits
        }
    };
    Ok(JobFilter { ids: Vec::new(), states, queue, kind, entity: args.entity, tag: args.tag })
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    Failure::new(format!("there is no {what} `{}`", shown(name)), format!("known: {}", known.join(", ")))
        .hint(format!("`windlass {what}s` tells more about each"))
}

pub(crate) async fn list(session: &Session, args: List, only: &[JobState]) -> Result<(), Failure> {
    let client = session.client().await?;
    let filter = filter(args.filter, &client.catalog(), only)?;
    let page = Page { before: args.paging.cursor.map(JobId), limit: args.paging.asked() };
    let mut jobs = client.store().list(&filter, &page).await.during("cannot list jobs")?;
    let next_cursor = args.paging.cut(&mut jobs, |job| job.id.to_string());
    if args.json.json {
        return session
            .output
            .json(&ListView { items: jobs.iter().map(JobView::from).collect(), next_cursor });
    }
    let table = job::table(&jobs);
    if table.is_empty() {
        return session.output.line("no jobs match");
    }
    table.print(&session.output)?;
    if let Some(cursor) = next_cursor {
        session.output.note(format_args!("more with --cursor {cursor}"));
    }
    Ok(())
}

#[derive(Serialize)]
struct Counted {
    count: u64,
}

async fn count(session: &Session, args: Count) -> Result<(), Failure> {
    let client = session.client().await?;
    let filter = filter(args.filter, &client.catalog(), &[])?;
    let count = client.store().count(&filter).await.during("cannot count jobs")?;
    match args.json.json || session.output.to_program() {
        true => session.output.json(&Counted { count }),
        false => session.output.line(count),
    }
}

/// `only` as in [`filter`]: a job in another state is not shown under a noun that is not about it.
pub(crate) async fn show(session: &Session, args: &One, only: &[JobState]) -> Result<(), Failure> {
    let client = session.client().await?;
    let detail = find(&client, JobId(args.id)).await?;
    let detail = detail.filter(|detail| only.is_empty() || only.contains(&detail.job.state));
    let detail = detail.ok_or_else(|| missing(format!("cannot show job {}", args.id)))?;
    print(session, &client, &detail, args.json.json).await
}

async fn print(session: &Session, client: &Client, detail: &JobDetail, json: bool) -> Result<(), Failure> {
    let workflow = match detail.job.workflow {
        Some(id) => client.store().workflow(id).await.during("cannot read the job's workflow")?,
        None => None,
    };
    match json {
        true => session.output.json(&DetailView::new(detail, workflow.as_ref())),
        false => job::page(detail, workflow.as_ref(), &session.output),
    }
}

fn missing(what: String) -> Failure {
    Failure::new(what, "there is no such job here")
        .hint("it may have been cleaned up; `windlass jobs` lists what is there")
}

async fn find(client: &Client, id: JobId) -> Result<Option<JobDetail>, Failure> {
    client.store().job(id).await.during(format!("cannot read job {id}"))
}
