//! Leasing due jobs.
//!
//! Owns: the move from ready to claims. The order (priority, run_at, id) is that of the primary key and is read as
//! one range per priority, so jobs due later are never scanned. Jobs with the same attempt number and suspicion share
//! one claims row and one token. Lane checks are followed first, so that the jobs they make ready can be claimed too.
//! Never leases a level that was not asked for, or more jobs of a queue than its global concurrency allows.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use windlass_core::lane::Lane;
use windlass_core::queue::{MAX_PRIORITY, room};
use windlass_core::store::Claim;
use windlass_core::sweep::{Level, Suspicion};
use windlass_core::{JobId, KindId, LaneId, LeasedJob, QueueId, Time, Token, WorkflowId};

use crate::error::{Answer, Fault};
use crate::lane::follow_checks;
use crate::lease::{pack, pack_places};
use crate::row::duration;
use crate::scope::Scope;

/// A due row of `ready`.
pub(crate) struct Due {
    pub(crate) priority: u8,
    pub(crate) run_at: Time,
    id: i64,
    kind: KindId,
    attempt: u16,
    suspicion: Suspicion,
    lane: Option<LaneId>,
}

impl Due {
    fn read(row: &Row<'_>) -> rusqlite::Result<Due> {
        let (priority, run_at, id, kind, attempt, level, lane): (_, _, _, _, _, _, Option<i64>) =
            row.try_into()?;
        let (run_at, kind, lane) = (Time(run_at), KindId(kind), lane.map(LaneId));
        Ok(Due { priority, run_at, id, kind, attempt, suspicion: Suspicion::new(level), lane })
    }

    /// Jobs that share it share a claims row.
    fn group(&self) -> (u16, Suspicion) {
        (self.attempt, self.suspicion)
    }
}

pub(crate) fn claim(scope: &mut Scope<'_>, claim: &Claim) -> Answer<Vec<LeasedJob>> {
    let Some(ClaimLimits { limit, limited, checks }) = claim_limits(scope.connection, claim)? else {
        return Ok(Vec::new());
    };
    let claim = &Claim { limit, ..claim.clone() };
    let due = match claim.level {
        Level::Ordinary => {
            if checks {
                follow_checks(scope, &claim.kinds)?;
            }
            due(scope.connection, claim, scope.now)?
        }
        Level::Second => suspects(scope.connection, claim, scope.now, limit as usize)?,
        Level::Trial => suspects(scope.connection, claim, scope.now, 1)?,
    };
    let mut jobs = take_all(scope, claim, limited, &due)?;
    jobs.sort_unstable_by_key(|job| (job.priority, job.run_at, job.id));
    Ok(jobs)
}

pub(crate) fn take_all(
    scope: &mut Scope<'_>,
    claim: &Claim,
    limited: bool,
    due: &[Due],
) -> Answer<Vec<LeasedJob>> {
    let mut jobs = Vec::with_capacity(due.len());
    let mut groups: Vec<(u16, Suspicion)> = due.iter().map(Due::group).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut takes = Takes::new(scope.connection)?;
    for of in groups {
        let group: Vec<&Due> = due.iter().filter(|row| row.group() == of).collect();
        let token = lease(scope, claim, of, limited, &group)?;
        for row in group {
            jobs.push(take(&mut takes, claim.queue, (token, scope.now), row)?);
        }
    }
    Ok(jobs)
}

/// What a claim may take.
pub(crate) struct ClaimLimits {
    pub(crate) limit: u32,
    /// The queue has a global concurrency.
    pub(crate) limited: bool,
    /// There are lane checks, of any kind.
    pub(crate) checks: bool,
}

/// `None` when the queue is paused or full, or the worker was declared dead. One statement checks all of it.
pub(crate) fn claim_limits(connection: &Connection, claim: &Claim) -> Answer<Option<ClaimLimits>> {
    let limits: Option<(Option<u32>, bool)> = connection
        .prepare_cached(
            "select q.global_concurrency, exists (select 1 from windlass_lane_checks)
             from windlass_queues q, windlass_workers w where q.id = ?1 and not q.paused and w.id = ?2",
        )?
        .query_row((claim.queue.0, claim.worker.0), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((most, checks)) = limits else { return Ok(None) };
    let limit = match most {
        None => claim.limit,
        Some(most) => room(most, leased(connection, claim.queue)?, claim.limit),
    };
    Ok((limit > 0).then_some(ClaimLimits { limit, limited: most.is_some(), checks }))
}

fn leased(connection: &Connection, queue: QueueId) -> Answer<u64> {
    let leased: i64 = connection
        .prepare_cached(
            "select coalesce(sum(json_array_length(ids)), 0) from windlass_claims where queue = ?1",
        )?
        .query_row([queue.0], |row| row.get(0))?;
    Ok(leased.unsigned_abs())
}

fn due(connection: &Connection, claim: &Claim, now: Time) -> Answer<Vec<Due>> {
    let limit = claim.limit as usize;
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() < limit
        && let Some(priority) = next_priority(connection, claim.queue, from)?
    {
        found.append(&mut walk(connection, claim, priority, now, limit - found.len())?);
        from = priority + 1;
    }
    Ok(found)
}

pub(crate) const NEXT_PRIORITY: &str =
    "select priority from windlass_ready where queue = ?1 and priority >= ?2 order by priority limit 1";

/// The most urgent priority at or after `from` that has a waiting job. Most queues use one or two of the eleven,
/// and scanning a priority without due jobs costs as much as this lookup.
pub(crate) fn next_priority(connection: &Connection, queue: QueueId, from: u8) -> Answer<Option<u8>> {
    if from > MAX_PRIORITY {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(NEXT_PRIORITY)?;
    Ok(statement.query_row((queue.0, from), |row| row.get(0)).optional()?)
}

pub(crate) const OF_PRIORITY: &str =
    "select priority, run_at, id, kind, attempt, suspicion, lane from windlass_ready
     where queue = ?1 and priority = ?2 and run_at <= ?3 and suspicion <= 1 order by run_at, id";

/// Due jobs of one priority, at most `limit`.
// Differs from Postgres: scans the index, skips other kinds and higher levels, then deletes by key. With one writer
// SKIP LOCKED is not needed.
pub(crate) fn walk(
    connection: &Connection,
    claim: &Claim,
    priority: u8,
    before: Time,
    most: usize,
) -> Answer<Vec<Due>> {
    let mut statement = connection.prepare_cached(OF_PRIORITY)?;
    let mut rows = statement.query((claim.queue.0, priority, before.0))?;
    let mut found = Vec::new();
    while found.len() < most {
        let Some(row) = rows.next()? else { break };
        let row = Due::read(row)?;
        if claim.kinds.contains(&row.kind) {
            found.push(row);
        }
    }
    Ok(found)
}

/// Due jobs of the levels that an ordinary claim leaves out.
fn suspects(connection: &Connection, claim: &Claim, now: Time, most: usize) -> Answer<Vec<Due>> {
    let mut statement = connection.prepare_cached(
        "select priority, run_at, id, kind, attempt, suspicion, lane from windlass_ready
         where queue = ?1 and suspicion between max(1, ?2) and ?3 and run_at <= ?4 order by priority, run_at, id",
    )?;
    let (low, high) = claim.level.range();
    let mut rows = statement.query((claim.queue.0, low, high, now.0))?;
    let mut found = Vec::new();
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        let row = Due::read(row)?;
        if claim.kinds.contains(&row.kind) {
            found.push(row);
        }
    }
    Ok(found)
}

/// One claims row for jobs with the same attempt number and suspicion.
fn lease(
    scope: &Scope<'_>,
    claim: &Claim,
    (used, suspicion): (u16, Suspicion),
    limited: bool,
    group: &[&Due],
) -> Answer<Token> {
    let mut jobs: Vec<(i64, i64)> = group.iter().map(|row| (row.id, row.run_at.0)).collect();
    jobs.sort_unstable();
    let (ids, places): (Vec<i64>, Vec<i64>) = jobs.into_iter().unzip();
    let ((first_id, ids), (place, places)) = (pack(&ids), pack_places(&places));
    scope
        .connection
        .prepare_cached(
            "insert into windlass_claims (worker, queue, attempt, suspicion, alone, claimed_at, place, first_id, ids,
                 places, limited)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute((
            claim.worker.0,
            claim.queue.0,
            used.saturating_add(1),
            suspicion.level(),
            claim.level == Level::Trial,
            scope.now.0,
            place,
            first_id,
            ids,
            places,
            limited,
        ))?;
    Ok(Token(scope.connection.last_insert_rowid()))
}

const OUT: &str = "delete from windlass_ready where queue = ?1 and priority = ?2 and run_at = ?3 and id = ?4";

/// Statements prepared once per claim instead of once per job.
struct Takes<'c> {
    out: CachedStatement<'c>,
    job: CachedStatement<'c>,
}

impl<'c> Takes<'c> {
    fn new(connection: &'c Connection) -> Answer<Takes<'c>> {
        let job = "select payload, max_attempts, timeout_us, created_at, parent_id,
                          unique_until is 'finished' as holds_key from windlass_jobs where id = ?1";
        Ok(Takes { out: connection.prepare_cached(OUT)?, job: connection.prepare_cached(job)? })
    }
}

fn take(takes: &mut Takes<'_>, queue: QueueId, (token, now): (Token, Time), due: &Due) -> Answer<LeasedJob> {
    if takes.out.execute((queue.0, due.priority, due.run_at.0, due.id))? != 1 {
        return Err(Fault::corrupt(format!(
            "job {} was removed from its queue while it was being leased",
            due.id
        )));
    }
    type Columns = (Vec<u8>, u16, Option<i64>, i64, Option<i64>, bool);
    let job = takes.job.query_row([due.id], |row| {
        let (payload, max_attempts, timeout, created_at, workflow, holds_key): Columns = row.try_into()?;
        Ok(LeasedJob {
            id: JobId(due.id),
            token,
            kind: due.kind,
            queue,
            priority: due.priority,
            payload,
            attempt: due.attempt.saturating_add(1),
            max_attempts,
            timeout: timeout.map(duration),
            run_at: due.run_at,
            created_at: Time(created_at),
            claimed_at: now,
            workflow: workflow.map(WorkflowId),
            lane: due.lane.map(|id| Lane { id, kind: due.kind }),
            holds_key,
            suspicion: due.suspicion,
        })
    });
    job.optional()?
        .ok_or_else(|| Fault::corrupt(format!("job {} is in its queue but has no row in jobs", due.id)))
}

/// The job on trial no longer runs alone, so a death from now on proves nothing against it.
pub(crate) fn clear_alone(scope: &mut Scope<'_>, token: Token) -> Answer<bool> {
    let there = scope
        .connection
        .prepare_cached("update windlass_claims set alone = 0 where token = ?1")?
        .execute([token.0])?;
    Ok(there > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims read the first entries of an index range, urgent or late, without a sort.
    #[test]
    fn nothing_is_sorted_at_a_million_rows() {
        let connection = Connection::open_in_memory().unwrap();
        for step in crate::migrate::STEPS {
            connection.execute_batch(step.up).unwrap();
        }
        connection
            .execute_batch(
                "with recursive n (n) as (select 1 union all select n + 1 from n where n < 1000000)
                 insert into windlass_ready (queue, priority, run_at, id, kind) select 1, n % 11, n * 7919 % 1000003, n, 1 from n;
                 analyze;",
            )
            .unwrap();
        let plan = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| -> Vec<String> {
            let mut explain = connection.prepare(&format!("explain query plan {sql}")).unwrap();
            explain.query_map(parameters, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let by_key = |bounds: &str| vec![format!("SEARCH windlass_ready USING PRIMARY KEY ({bounds})")];
        assert_eq!(plan(OF_PRIORITY, &[&1, &5, &1_000_000]), by_key("queue=? AND priority=? AND run_at<?"));
        assert_eq!(plan(NEXT_PRIORITY, &[&1, &5]), by_key("queue=? AND priority>?"));
    }
}
