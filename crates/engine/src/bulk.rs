//! One action on every job that matches, in short transactions.
//!
//! Works in chunks, so that acting on a million jobs does not block the workers. Never touches more jobs than matched
//! when it began.

use windlass_core::audit::Actor;
use windlass_core::store::{Action, Bulk, JobFilter};
use windlass_core::{JobRecord, JobState, Store, StoreError};

const CHUNK: u32 = 5_000;

/// The states in which `action` applies.
pub fn fitting(action: Action) -> Vec<JobState> {
    JobState::ALL.into_iter().filter(|state| action.fits(*state)).collect()
}

/// Jobs that were changed.
pub fn touched(bulk: &Bulk) -> u64 {
    bulk.done + bulk.requested + bulk.superseded
}

/// Why a change of a job's priority or time changed nothing.
pub fn why_unchanged(job: &JobRecord) -> String {
    match job.state {
        JobState::Scheduled => {
            format!("job {} waits for others of its workflow; it has no time yet", job.id)
        }
        state => format!("job {} is {state}; only a waiting job can be changed", job.id),
    }
}

/// `filter` names states out of [`fitting`]; `total` is how many jobs matched. Waiting jobs are acted on first, in
/// chunks. Running ones come last and in one call, because they still match after they were asked to stop. Each
/// transaction leaves an audit line.
pub async fn act_on_all(
    store: &dyn Store,
    filter: JobFilter,
    action: Action,
    total: u64,
    actor: Option<&Actor>,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Bulk, StoreError> {
    let (running, waiting): (Vec<JobState>, Vec<JobState>) =
        filter.states.iter().partition(|state| **state == JobState::Running);
    let mut sum = Bulk::default();
    if !waiting.is_empty() {
        let filter = JobFilter { states: waiting, ..filter.clone() };
        while touched(&sum) < total {
            let left = u32::try_from(total - touched(&sum)).unwrap_or(CHUNK).min(CHUNK);
            let bulk = store.act(&filter, action, left, actor).await?;
            add(&mut sum, bulk);
            progress(touched(&sum));
            if touched(&bulk) == 0 {
                break;
            }
        }
    }
    if !running.is_empty() {
        let filter = JobFilter { states: running, ..filter };
        add(&mut sum, store.act(&filter, action, u32::MAX, actor).await?);
        progress(touched(&sum));
    }
    Ok(sum)
}

fn add(sum: &mut Bulk, bulk: Bulk) {
    sum.done += bulk.done;
    sum.requested += bulk.requested;
    sum.superseded += bulk.superseded;
    sum.skipped += bulk.skipped;
}
