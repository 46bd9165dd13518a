//! Retry, cancel, delete and change: one job by its id, many by a filter.

use windlass_core::audit::Actor;
use windlass_core::store::{Action, Bulk, Change, JobDetail, JobFilter};
use windlass_core::{Invalid, JobId, JobState, Time};

use super::{FilterWords, OperateError};
use crate::Client;
use crate::bulk::{act_on_all, fitting, touched, why_unchanged};

/// The result of an action on one job.
#[derive(Clone, Debug)]
pub enum Acted {
    /// The job as it is now.
    Done(Box<JobDetail>),
    /// It runs; its worker was asked to stop it.
    Requested(Box<JobDetail>),
    Deleted,
}

/// Changes of a waiting job; `None` leaves a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobChange {
    pub priority: Option<i64>,
    pub run_at: Option<Time>,
}

impl Client {
    /// `only` lists the states that are allowed, empty allows all; a job in another state is reported as missing.
    pub async fn act_on_job(
        &self,
        id: JobId,
        only: &[JobState],
        action: Action,
        actor: &Actor,
    ) -> Result<Acted, OperateError> {
        let just = JobFilter { ids: vec![id], states: only.to_vec(), ..JobFilter::default() };
        let done = self.store().act(&just, action, 1, Some(actor)).await?;
        if touched(&done) == 1 && action == Action::Delete {
            return Ok(Acted::Deleted);
        }
        let detail = self.store().job(id).await?;
        let meant = |state| only.is_empty() || only.contains(&state);
        let detail = detail.filter(|detail| touched(&done) == 1 || meant(detail.job.state));
        let detail = Box::new(detail.ok_or_else(|| missing(id))?);
        match (touched(&done), done.requested) {
            (0, _) => Err(OperateError::Conflict { code: "wrong_state", why: why_not(&detail, action) }),
            (_, 1) => Ok(Acted::Requested(detail)),
            _ => Ok(Acted::Done(detail)),
        }
    }

    /// One action on every job that matches. Also returns how many of the given ids do not exist. Field names are under
    /// `filter.`.
    pub async fn act_on_jobs(
        &self,
        action: Option<Action>,
        meant: &FilterWords,
        mut found: Invalid,
        actor: &Actor,
    ) -> Result<(Bulk, u64), OperateError> {
        let named = !meant.ids.is_empty();
        let only = action.filter(|_| !named).map(fitting).unwrap_or_default();
        let (filter, invalid) = self.job_filter(meant, &only, "filter.").await?;
        if meant.is_empty() && !found.problems.iter().any(|problem| problem.field.starts_with("filter")) {
            found.add("filter", "needs at least one condition: ids, state, queue, kind, entity or tag");
        }
        let Some(action) = action else {
            let missing = Invalid::one("action", "is required");
            return Err(found.and(missing).and(invalid).into());
        };
        found.and(invalid).into_result()?;
        if named {
            let ids = filter.ids.len() as u64;
            let done = self.store().act(&filter, action, u32::MAX, Some(actor)).await?;
            return Ok((done, ids.saturating_sub(touched(&done) + done.skipped)));
        }
        let total = self.store().count(&filter).await?;
        let store = self.store().as_ref();
        Ok((act_on_all(store, filter, action, total, Some(actor), |_| {}).await?, 0))
    }

    /// Changes when and with which priority a waiting job runs.
    pub async fn change_job(
        &self,
        id: JobId,
        change: &JobChange,
        mut found: Invalid,
        actor: &Actor,
    ) -> Result<JobDetail, OperateError> {
        if let Some(priority) = change.priority {
            found.check_priority("priority", priority);
        }
        if change.priority.is_none() && change.run_at.is_none() && found.problems.is_empty() {
            found.add("body", "must change something: priority or run_at");
        }
        found.into_result()?;
        let priority = change.priority.and_then(|priority| u8::try_from(priority).ok());
        let change = Change { priority, run_at: change.run_at };
        let changed = self.store().change(id, &change, Some(actor)).await?;
        let detail = self.store().job(id).await?.ok_or_else(|| missing(id))?;
        match changed {
            true => Ok(detail),
            false => Err(OperateError::Conflict { code: "not_waiting", why: why_unchanged(&detail.job) }),
        }
    }
}

fn missing(id: JobId) -> OperateError {
    OperateError::Missing(format!("there is no job {id} here; it may have been cleaned up"))
}

fn why_not(detail: &JobDetail, action: Action) -> String {
    let (id, state, word) = (detail.job.id, detail.job.state, action.word());
    match (detail.job.workflow, action.fits(state)) {
        (Some(workflow), true) => format!(
            "job {id} is {state} because of others in its workflow; {word} those, or workflow {workflow}"
        ),
        _ => {
            let needs: Vec<&str> = fitting(action).into_iter().map(JobState::name).collect();
            format!("job {id} is {state}; {word} needs one that is {}", needs.join(", "))
        }
    }
}
