//! Retry, cancel and delete: by id at once, by filter only with `--yes`.
//!
//! Owns the question before a bulk act and the words after it. The act itself is the engine's.

use windlass_core::store::{Action, Bulk, JobFilter};
use windlass_core::{JobId, JobState};
use windlass_engine::bulk::{act_on_all, fitting, touched};
use windlass_http::view::BulkView;

use super::super::Session;
use super::filter;
use crate::args::Selection;
use crate::failure::{During, Failure};
use crate::output::plural;
use crate::output::progress::Progress;

/// `verb` is the word on the command line; `only` narrows what the noun is about.
pub(crate) async fn run(
    session: &Session,
    selection: Selection,
    action: Action,
    verb: &'static str,
    only: &[JobState],
) -> Result<(), Failure> {
    let named = &selection.filter;
    let filtered = !named.state.is_empty()
        || named.queue.is_some()
        || named.kind.is_some()
        || named.entity.is_some()
        || named.tag.is_some();
    let ids: Vec<JobId> = selection.ids.iter().copied().map(JobId).collect();
    match (ids.is_empty(), filtered) {
        (true, false) if only.is_empty() => {
            Err(Failure::usage(format!("nothing to {verb}"), "name ids or a filter")
                .hint("for all jobs of a state write --state STATE --yes"))
        }
        (false, true) => Err(Failure::usage(format!("cannot {verb}"), "name ids or a filter, not both")),
        (false, false) => by_id(session, ids, action, verb, only, selection.json.json).await,
        (true, _) => by_filter(session, selection, action, verb, only).await,
    }
}

async fn by_id(
    session: &Session,
    mut ids: Vec<JobId>,
    action: Action,
    verb: &str,
    only: &[JobState],
    json: bool,
) -> Result<(), Failure> {
    ids.sort_unstable();
    ids.dedup();
    let client = session.client().await?;
    let wanted = ids.len() as u64;
    let filter = JobFilter { ids, states: only.to_vec(), ..JobFilter::default() };
    let limit = u32::try_from(wanted).unwrap_or(u32::MAX);
    let bulk = client.store().act(&filter, action, limit).await.during(format!("cannot {verb}"))?;
    let missing = wanted.saturating_sub(bulk.done + bulk.requested + bulk.superseded + bulk.skipped);
    let left = bulk.skipped + missing;
    if json || left == 0 || touched(&bulk) > 0 {
        tell(session, bulk, missing, verb, json)?;
    }
    if left == 0 {
        return Ok(());
    }
    let mut why = Vec::new();
    if missing > 0 {
        why.push(format!("{} not found", plural(missing, "job")));
    }
    if bulk.skipped > 0 {
        why.push(format!("{} in a state that does not allow it", plural(bulk.skipped, "job")));
    }
    Err(Failure::new(format!("not everything could be done: {verb}"), why.join(", "))
        .hint("`windlass jobs show ID` tells the state of each"))
}

async fn by_filter(
    session: &Session,
    selection: Selection,
    action: Action,
    verb: &'static str,
    only: &[JobState],
) -> Result<(), Failure> {
    let client = session.client().await?;
    let mut fits = fitting(action);
    fits.retain(|state| only.is_empty() || only.contains(state));
    let filter = filter(selection.filter, &client.catalog(), &fits)?;
    let store = client.store().as_ref();
    let total = store.count(&filter).await.during("cannot count jobs")?;
    if !selection.yes {
        let why = format!("{verb} would touch {}", plural(total, "job"));
        return Err(Failure::new("nothing was changed", why).hint("add --yes to do it"));
    }
    let mut progress = Progress::new(session.output, "jobs", total);
    let bulk = act_on_all(store, filter, action, total, |done| progress.set(done)).await;
    let bulk = bulk.during(format!("cannot {verb}"))?;
    progress.finish(touched(&bulk));
    tell(session, bulk, 0, verb, selection.json.json)
}

fn tell(session: &Session, bulk: Bulk, missing: u64, verb: &str, json: bool) -> Result<(), Failure> {
    if json {
        return session.output.json(&BulkView::new(&bulk, missing));
    }
    let Bulk { done, requested, superseded, skipped: _ } = bulk;
    let mut parts = vec![format!("{verb}: {} done", plural(done, "job"))];
    if requested > 0 {
        parts.push(format!("{} asked to stop", plural(requested, "running job")));
    }
    if superseded > 0 {
        parts.push(format!("{superseded} met a waiting twin and ended superseded"));
    }
    session.output.line(parts.join(", "))
}
