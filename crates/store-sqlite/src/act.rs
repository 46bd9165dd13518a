//! Operator actions on jobs.
//!
//! Owns: cancel, retry, delete and change. A bulk action handles matching jobs in ascending id order, a few hundred
//! per transaction, so that workers can write in between. Never stops a running job: it only records the request.

use rusqlite::OptionalExtension;
use serde_json::{Map, Value};
use windlass_core::audit::{Actor, NewAudit, filter_words, job_figures, named_jobs, on_job, on_jobs};
use windlass_core::lane::Lane;
use windlass_core::store::{Action, Bulk, Change, JobFilter, Wake};
use windlass_core::{JobId, JobState, KindId, LaneId, QueueId, StoreError, Time, UniqueUntil};

use crate::SqliteStore;
use crate::end::{End, finish};
use crate::enqueue::{INSERT_READY, waiting_with};
use crate::entity::box_waits_again;
use crate::error::Answer;
use crate::lane::{check, release, stored_queue};
use crate::prune::erase;
use crate::query::Selection;
use crate::scope::Scope;
use crate::settle::{Waiting, waiting_columns};
use crate::{audit, query, unique, workflow};

/// Jobs per transaction.
const CHUNK: usize = 250;

impl SqliteStore {
    pub(crate) async fn act(
        &self,
        filter: &JobFilter,
        action: Action,
        limit: u32,
        actor: Option<&Actor>,
    ) -> Result<Bulk, StoreError> {
        let asked = actor.map(|actor| ActRequest { actor: actor.clone(), filter: filter.clone() });
        let wanted = if filter.states.is_empty() { JobState::ALL.to_vec() } else { filter.states.clone() };
        let (fitting, unfit): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|state| action.fits(*state));
        let mut bulk = Bulk::default();
        if !unfit.is_empty() {
            let (filter, now) = (JobFilter { states: unfit, ..filter.clone() }, self.now_here());
            bulk.skipped = self.read("count jobs", move |c| Selection::new(&filter, now).count(c)).await?;
        }
        if fitting.is_empty() {
            return Ok(bulk);
        }
        let filter = JobFilter { states: fitting, ..filter.clone() };
        let mut left = limit as usize;
        let mut after = JobId(0);
        while left > 0 {
            let (filter, room, asked) = (filter.clone(), left.min(CHUNK), asked.clone());
            let (ids, part) = self
                .write("change jobs", room, move |scope| {
                    let named = asked.as_ref().map_or(&[][..], |asked| named_jobs(&asked.filter));
                    let before = named.iter().map(|id| Ok((*id, snapshot(scope, *id)?)));
                    let before = before.collect::<Answer<Snapshots>>()?;
                    let (ids, part) = chunk(scope, &filter, action, after, room)?;
                    if let Some(asked) = &asked {
                        asked.note(scope, action, &before, &ids, &part)?;
                    }
                    Ok((ids, part))
                })
                .await?;
            bulk.done += part.done;
            bulk.requested += part.requested;
            bulk.superseded += part.superseded;
            bulk.skipped += part.skipped;
            left -= ids.len().min(left);
            match ids.last() {
                Some(last) if ids.len() == room => after = *last,
                _ => break,
            }
        }
        Ok(bulk)
    }
}

/// Who asked for the action and with which filter, for the audit record.
#[derive(Clone)]
struct ActRequest {
    actor: Actor,
    filter: JobFilter,
}

/// The state of each named job, for the audit record.
type Snapshots = Vec<(JobId, Map<String, Value>)>;

impl ActRequest {
    fn note(
        &self,
        scope: &Scope<'_>,
        action: Action,
        before: &Snapshots,
        picked: &[JobId],
        bulk: &Bulk,
    ) -> Answer<()> {
        if before.is_empty() {
            return self.note_all(scope, action, picked, bulk);
        }
        for (id, before) in before.iter().filter(|(id, _)| picked.contains(id)) {
            let line = on_job(&self.filter, action, *id, before, &snapshot(scope, *id)?);
            audit::note(scope, Some(&self.actor), line.as_ref())?;
        }
        Ok(())
    }

    fn note_all(&self, scope: &Scope<'_>, action: Action, picked: &[JobId], bulk: &Bulk) -> Answer<()> {
        let name = |table: &str, id: Option<i32>| -> Answer<Option<String>> {
            let sql = format!("select name from windlass_{table} where id = ?1");
            Ok(scope.connection.prepare_cached(&sql)?.query_row([id], |row| row.get(0)).optional()?)
        };
        let queue = name("queues", self.filter.queue.map(|queue| queue.0))?;
        let kind = name("kinds", self.filter.kind.map(|kind| kind.0))?;
        let line = on_jobs(&self.filter, filter_words(&self.filter, picked, queue, kind), action, bulk);
        audit::note(scope, Some(&self.actor), line.as_ref())
    }
}

/// Empty when there is no such job.
fn snapshot(scope: &Scope<'_>, id: JobId) -> Answer<Map<String, Value>> {
    let detail = query::job(scope.connection, id, scope.now)?;
    Ok(detail.map(|detail| job_figures(&detail.job, detail.cancel_requested)).unwrap_or_default())
}

fn chunk(
    scope: &mut Scope<'_>,
    filter: &JobFilter,
    action: Action,
    after: JobId,
    room: usize,
) -> Answer<(Vec<JobId>, Bulk)> {
    let mut selection = Selection::new(filter, scope.now);
    let condition = format!("{} > ?", selection.id);
    selection.bind(&condition, after.0);
    let ids = selection.ids(scope.connection, room)?;
    let mut bulk = Bulk::default();
    let wanted = match action {
        Action::Retry => workflow::retry_members(scope, &ids, &mut bulk)?,
        _ => ids.clone(),
    };
    for id in &wanted {
        match action {
            Action::Cancel => cancel(scope, *id, &mut bulk)?,
            Action::Retry => retry(scope, *id, &mut bulk)?,
            Action::Delete => {
                erase(scope, *id, true)?;
                bulk.done += 1;
            }
        }
    }
    workflow::follow(scope)?;
    Ok((ids, bulk))
}

/// The job is waiting or running: it was selected in this transaction.
pub(crate) fn cancel(scope: &mut Scope<'_>, id: JobId, bulk: &mut Bulk) -> Answer<()> {
    let row = waiting_row(scope, id)?;
    let waited: Option<u16> = scope
        .connection
        .prepare_cached("delete from windlass_ready where id = ?1 returning attempt")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    if let (Some(attempt), Some(row)) = (waited, row) {
        finish(scope, &End::waiting(id, JobState::Cancelled, attempt))?;
        if let Some(lane) = row.lane.filter(|_| row.number > 0) {
            release(scope, lane)?;
        }
        scope.wake(Wake::Any);
        bulk.done += 1;
        return Ok(());
    }
    scope
        .connection
        .prepare_cached(
            "insert into windlass_cancels (job_id, requested_at) values (?1, ?2) on conflict (job_id) do nothing",
        )?
        .execute((id.0, scope.now.0))?;
    scope.wake(Wake::Cancel);
    bulk.requested += 1;
    Ok(())
}

fn retry(scope: &mut Scope<'_>, id: JobId, bulk: &mut Bulk) -> Answer<()> {
    let Waiting { kind, queue, priority, unique_key, until, lane } = waiting_columns(scope.connection, id)?;
    scope.wake(Wake::Queue(QueueId(queue)));
    if let Some(lane) = lane {
        check(scope, lane, scope.now)?;
    }
    if waiting_row(scope, id)?.is_some() {
        move_to(scope, id, None, Some(scope.now))?;
        bulk.done += 1;
        return Ok(());
    }
    if let Some(key) = &unique_key {
        let holds = until == Some(UniqueUntil::Finished);
        if waiting_with(scope.connection, key)?.is_some() || holds && unique::holder(scope, key)?.is_some() {
            supersede_finished(scope, id)?;
            bulk.superseded += 1;
            return Ok(());
        }
        if holds {
            unique::hold_key(scope, key, id)?;
        }
    }
    keep_last_attempt(scope, id)?;
    scope.connection.prepare_cached("delete from windlass_progress where job_id = ?1")?.execute([id.0])?;
    scope.connection.prepare_cached(INSERT_READY)?.execute((
        stored_queue(queue, lane.is_some()),
        priority,
        scope.now.0,
        id.0,
        kind,
        0,
        0,
        unique_key,
        lane.map(|lane| lane.id.0),
    ))?;
    box_waits_again(scope, id)?;
    bulk.done += 1;
    Ok(())
}

/// A retried job whose unique key is already held by a waiting job. Its record of the last run is kept.
fn supersede_finished(scope: &Scope<'_>, id: JobId) -> Answer<()> {
    copy_last_attempt(scope, id)?;
    scope
        .connection
        .prepare_cached(
            "update windlass_finished set state = ?2, finished_at = ?3, token = null, worker = null where id = ?1",
        )?
        .execute((id.0, JobState::Superseded.code(), scope.now.0))?;
    Ok(())
}

/// The finished row is the record of the last attempt. A job that is retried keeps that record in `attempts`.
pub(crate) fn keep_last_attempt(scope: &Scope<'_>, id: JobId) -> Answer<()> {
    copy_last_attempt(scope, id)?;
    scope.connection.prepare_cached("delete from windlass_finished where id = ?1")?.execute([id.0])?;
    Ok(())
}

fn copy_last_attempt(scope: &Scope<'_>, id: JobId) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
             select id, token, attempt, worker, started_at, finished_at,
                    case state when 4 then 'failed' when 5 then 'dead_letter' else 'cancelled' end, error
             from windlass_finished where id = ?1 and token is not null",
        )?
        .execute([id.0])?;
    Ok(())
}

/// The row of a waiting job.
pub(crate) struct WaitingRow {
    /// The id of its queue, negated while the job is blocked.
    number: i32,
    priority: u8,
    run_at: Time,
    lane: Option<Lane>,
}

fn waiting_row(scope: &Scope<'_>, id: JobId) -> Answer<Option<WaitingRow>> {
    let row = scope
        .connection
        .prepare_cached("select queue, priority, run_at, lane, kind from windlass_ready where id = ?1")?
        .query_row([id.0], |row| {
            let kind = KindId(row.get(4)?);
            let lane = row.get::<_, Option<i64>>(3)?.map(|id| Lane { id: LaneId(id), kind });
            Ok(WaitingRow { number: row.get(0)?, priority: row.get(1)?, run_at: Time(row.get(2)?), lane })
        })
        .optional()?;
    Ok(row)
}

/// Changes the priority or the time of a waiting job. `None` when there is no such job, or when it waits for its
/// workflow and has no time to change.
pub(crate) fn move_to(
    scope: &Scope<'_>,
    id: JobId,
    priority: Option<u8>,
    run_at: Option<Time>,
) -> Answer<Option<(WaitingRow, WaitingRow)>> {
    let Some(before) = waiting_row(scope, id)? else { return Ok(None) };
    if before.number == 0 && run_at.is_some() {
        return Ok(None);
    }
    let (priority, run_at) = (priority.unwrap_or(before.priority), run_at.unwrap_or(before.run_at));
    // A job that holds a slot and is moved into the future is blocked again.
    let blocked = before.number < 0 || before.lane.is_some() && run_at > scope.now;
    let number = stored_queue(before.number.abs(), blocked);
    scope
        .connection
        .prepare_cached("update windlass_ready set queue = ?2, priority = ?3, run_at = ?4 where id = ?1")?
        .execute((id.0, number, priority, run_at.0))?;
    let after = WaitingRow { number, priority, run_at, lane: before.lane };
    Ok(Some((before, after)))
}

pub(crate) fn change(
    scope: &mut Scope<'_>,
    id: JobId,
    change: &Change,
    actor: Option<&Actor>,
) -> Answer<bool> {
    let run_at = change.run_at.map(|at: Time| at.max(scope.now));
    let was = actor.map(|_| snapshot(scope, id)).transpose()?;
    let Some((before, after)) = move_to(scope, id, change.priority, run_at)? else { return Ok(false) };
    let queue = QueueId(after.number.abs());
    if let Some(lane) = after.lane.filter(|_| after.number < 0) {
        if before.number > 0 {
            release(scope, lane)?;
        }
        check(scope, lane, after.run_at)?;
    }
    if let Some(priority) = change.priority {
        // A retried job takes its priority from its row in jobs.
        scope
            .connection
            .prepare_cached("update windlass_jobs set priority = ?2 where id = ?1")?
            .execute((id.0, priority))?;
    }
    if let Some(was) = was {
        let line = NewAudit::job_changed(id, &was, &snapshot(scope, id)?);
        audit::note(scope, actor, line.as_ref())?;
    }
    scope.wake(Wake::Queue(queue));
    Ok(true)
}
