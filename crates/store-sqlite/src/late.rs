//! Leasing jobs that have been due too long, whatever their priority.
//!
//! Owns: the look for them, and their way ahead in the line of a lane. Who of them comes first is decided by `windlass_core::order`. Never follows looks at lanes: a
//! claim of all priorities comes right after.

use std::time::Duration;

use rusqlite::Connection;
use windlass_core::order::{Passed, Waiting, late_after, longest_due};
use windlass_core::store::{Boosted, Claim, LateJobs};
use windlass_core::{LaneId, QueueId, Time};

use crate::act::move_to;
use crate::claim::{May, may_claim, next_priority, take_all, walk};
use crate::error::Answer;
use crate::line::{Line, less_urgent, mixed, next_line};
use crate::row::duration;
use crate::scope::Scope;

/// Lines in one look: the writer is held for a few milliseconds.
pub(crate) const MOST: usize = 200;

/// Those that have been due for longer than `after`, the longest first.
pub(crate) fn claim_late(scope: &mut Scope<'_>, claim: &Claim, after: Duration) -> Answer<LateJobs> {
    let Some(May { limit, limited, turns, .. }) = may_claim(scope.connection, claim)? else {
        return Ok(LateJobs { jobs: Vec::new(), waiting: true });
    };
    let cut = limit < claim.limit;
    let claim = &Claim { limit, ..claim.clone() };
    let before = scope.now.minus(after);
    let mut next = Vec::new();
    let mut from = 0;
    while let Some(priority) = next_priority(scope.connection, claim.queue, from, turns)? {
        next.append(&mut walk(scope.connection, claim, priority, (before, turns), limit as usize)?);
        from = priority + 1;
    }
    let places: Vec<(u8, Time)> = next.iter().map(|next| (next.priority(), next.place())).collect();
    let mut shares = longest_due(&places, limit);
    next.retain(|next| match shares.iter_mut().find(|(priority, _)| *priority == next.priority()) {
        Some((_, left)) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    });
    let mut jobs = take_all(scope, claim, limited, next)?;
    jobs.sort_unstable_by_key(|job| (job.run_at, job.priority, job.id));
    let waiting = cut && jobs.len() == limit as usize;
    Ok(LateJobs { jobs, waiting })
}

/// Lines of the lanes after `after`, as long as there are some and one look may take.
pub(crate) fn boost_lines(
    scope: &mut Scope<'_>,
    after: Option<LaneId>,
    passed: &mut Passed,
) -> Answer<Boosted> {
    let mut boosted = Boosted { jobs: 0, last: after };
    for _ in 0..MOST {
        let Some(lane) = next_line(scope.connection, boosted.last)? else {
            passed.round_ended();
            return Ok(Boosted { last: None, ..boosted });
        };
        boosted.last = Some(lane);
        if let Some(queue) = mixed(scope.connection, lane)?
            && boost_line(scope, (queue, lane), passed)?
        {
            boosted.jobs += 1;
        }
    }
    Ok(boosted)
}

/// A slot is handed to who stands right behind the job that had it, as long as nobody is more urgent: one who went ahead
/// under the most urgent priority gets his when the line is next read from its beginning, which is one time in 32.
fn boost_line(scope: &mut Scope<'_>, (queue, lane): (QueueId, LaneId), passed: &mut Passed) -> Answer<bool> {
    let Some(after) = patience(scope.connection, queue)? else { return Ok(false) };
    let Ok(first) = Line::new(scope.connection)?.first(scope, queue, lane)? else { return Ok(false) };
    let behind = less_urgent(scope.connection, queue, lane, first.priority)?;
    let line = Waiting { first: (first.priority, first.run_at, first.id), behind };
    let Some((job, priority)) = passed.lets_ahead(lane, &line, Some(scope.now.minus(after))) else {
        return Ok(false);
    };
    Ok(move_to(scope, job, Some(priority), None)?.is_some())
}

/// When a job of the queue is late, if it ever is.
fn patience(connection: &Connection, queue: QueueId) -> Answer<Option<Duration>> {
    let (boost_after, sla) = connection
        .prepare_cached(
            "select nullif(coalesce(live_boost_after_us, boost_after_us), 0), sla_us from windlass_queues where id = ?1",
        )?
        .query_row([queue.0], |row| {
            Ok((row.get::<_, Option<i64>>(0)?.map(duration), row.get::<_, Option<i64>>(1)?.map(duration)))
        })?;
    Ok(late_after(boost_after, sla))
}
