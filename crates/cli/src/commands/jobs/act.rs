//! Retry, cancel and delete: by id at once, by filter only with `--yes`.
//!
//! Asks before a bulk action and prints its result. The route does the action.

use std::time::Duration;

use serde_json::{Map, Value, json};
use windlass_core::JobState;
use windlass_core::store::Action;
use windlass_engine::bulk::fitting;
use windlass_pack::api::{Api, ApiRequest};

use super::super::Session;
use super::{entity, filtered};
use crate::api::answer::{Answered, ask, number};
use crate::args::{Filter, Selection};
use crate::failure::{During, Failure};
use crate::output::plural;
use crate::output::progress::Progress;

/// Interval for checking the progress of a long action.
const LOOK: Duration = Duration::from_secs(1);

/// `verb` is the word on the command line; `only` limits the states the noun is about.
pub(crate) async fn run(
    session: &Session,
    selection: &Selection,
    action: Action,
    verb: &'static str,
    only: &[JobState],
) -> Result<(), Failure> {
    let Filter { state, queue, kind, entity, tag } = &selection.filter;
    let filtered =
        !state.is_empty() || queue.is_some() || kind.is_some() || entity.is_some() || tag.is_some();
    match (selection.ids.is_empty(), filtered) {
        (true, false) if only.is_empty() => {
            Err(Failure::usage(format!("nothing to {verb}"), "name ids or a filter")
                .hint("for all jobs of a state write --state STATE --yes"))
        }
        (false, true) => Err(Failure::usage(format!("cannot {verb}"), "name ids or a filter, not both")),
        (false, false) => by_id(session, selection, action, verb, only).await,
        (true, _) => by_filter(session, selection, action, verb, only).await,
    }
}

fn names(states: &[JobState]) -> Vec<&'static str> {
    states.iter().map(|state| state.name()).collect()
}

fn request(action: Action, filter: Map<String, Value>) -> ApiRequest {
    let word = match action {
        Action::Retry => "retry",
        Action::Cancel => "cancel",
        Action::Delete => "delete",
    };
    ApiRequest::post("/v1/jobs/bulk", &[]).json(&json!({ "action": word, "filter": filter }))
}

async fn by_id(
    session: &Session,
    selection: &Selection,
    action: Action,
    verb: &str,
    only: &[JobState],
) -> Result<(), Failure> {
    let mut ids = selection.ids.clone();
    ids.sort_unstable();
    ids.dedup();
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    let mut filter = Map::new();
    filter.insert("ids".to_owned(), json!(ids));
    if !only.is_empty() {
        filter.insert("state".to_owned(), json!(names(only)));
    }
    let api = session.api().await?;
    let done = ask(api.as_ref(), request(action, filter)).await.during(format!("cannot {verb}"))?;
    let [skipped, missing] = ["skipped", "missing"].map(|field| number(&done.value, field));
    if selection.json.json || skipped + missing == 0 || touched(&done.value) > 0 {
        tell(session, &done, verb, selection.json.json)?;
    }
    if skipped + missing == 0 {
        return Ok(());
    }
    let mut why = Vec::new();
    if missing > 0 {
        why.push(format!("{} not found", plural(missing, "job")));
    }
    if skipped > 0 {
        why.push(format!("{} in a state that does not allow it", plural(skipped, "job")));
    }
    Err(Failure::new(format!("not everything could be done: {verb}"), why.join(", "))
        .hint("`windlass jobs show ID` shows the state of each"))
}

async fn by_filter(
    session: &Session,
    selection: &Selection,
    action: Action,
    verb: &'static str,
    only: &[JobState],
) -> Result<(), Failure> {
    let states = meant(&selection.filter, action, only)?;
    let api = session.api().await?;
    let counted = || filtered(ApiRequest::get("/v1/jobs/count", &[]), &selection.filter, &states);
    let total = api.call(counted()).await.during("cannot count jobs")?;
    let total = number(&total, "count");
    if !selection.yes {
        let why = format!("{verb} would touch {}", plural(total, "job"));
        return Err(Failure::new("nothing was changed", why).hint("add --yes to do it"));
    }
    let Filter { queue, kind, tag, .. } = &selection.filter;
    let mut filter = Map::new();
    filter.insert("state".to_owned(), json!(names(&states)));
    for (name, value) in
        [("queue", queue), ("kind", kind), ("tag", tag), ("entity", &entity(&selection.filter))]
    {
        filter.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    let mut progress = Progress::new(session.output, "jobs", total);
    let acting = ask(api.as_ref(), request(action, filter));
    let done = watched(acting, api.as_ref(), counted, total, &mut progress).await;
    let done = done.during(format!("cannot {verb}"))?;
    progress.finish(touched(&done.value));
    tell(session, &done, verb, selection.json.json)
}

/// The states to act on: those in the filter that the action applies to.
fn meant(filter: &Filter, action: Action, only: &[JobState]) -> Result<Vec<JobState>, Failure> {
    let mut states = fitting(action);
    states.retain(|state| only.is_empty() || only.contains(state));
    let named = &filter.state;
    if named.is_empty() {
        return Ok(states);
    }
    let known = names(&states).join(", ");
    states.retain(|state| named.contains(state));
    if states.is_empty() {
        let why = format!("only these can be meant here: {known}");
        return Err(Failure::usage("--state fits nothing", why));
    }
    Ok(states)
}

/// Progress is measured by jobs that no longer match.
async fn watched<T>(
    acting: impl Future<Output = T>,
    api: &dyn Api,
    counted: impl Fn() -> ApiRequest,
    total: u64,
    progress: &mut Progress,
) -> T {
    let looking = async {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Ok(left) = api.call(counted()).await {
                progress.set(total.saturating_sub(number(&left, "count")));
            }
        }
    };
    tokio::select! {
        done = acting => done,
        never = looking => never,
    }
}

fn touched(done: &Value) -> u64 {
    ["done", "requested", "superseded"].iter().map(|field| number(done, field)).sum()
}

fn tell(session: &Session, answer: &Answered, verb: &str, json: bool) -> Result<(), Failure> {
    if json {
        return answer.print(&session.output);
    }
    let [done, requested, superseded] =
        ["done", "requested", "superseded"].map(|field| number(&answer.value, field));
    let mut parts = vec![format!("{verb}: {} done", plural(done, "job"))];
    if requested > 0 {
        parts.push(format!("{} asked to stop", plural(requested, "running job")));
    }
    if superseded > 0 {
        parts.push(format!("{superseded} superseded by a waiting job with the same unique key"));
    }
    session.output.line(parts.join(", "))
}
