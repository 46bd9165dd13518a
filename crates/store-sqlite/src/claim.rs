//! Leasing due jobs.
//!
//! Owns: the move from ready to claims. Order is (priority, run_at, id) straight from the primary key, one range per
//! priority, so jobs whose time lies ahead are never walked over. Jobs with the same attempt number share one claims
//! row and one token. Looks at lanes first, so that their turns are among the rest. Never leases a suspect in company, or
//! more of a queue than its global concurrency leaves.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use windlass_core::lane::{Lane, Slot};
use windlass_core::queue::{MAX_PRIORITY, room};
use windlass_core::store::Claim;
use windlass_core::{JobId, KindId, LaneId, LeasedJob, QueueId, Time, Token, WorkflowId};

use crate::error::{Answer, Fault};
use crate::lane::{lanes, promote};
use crate::lease::{pack, pack_places};
use crate::row::{duration, small};
use crate::scope::Scope;
use crate::turn::{self, Turn};

/// A due row of ready; one that stood in line is gone from there already.
pub(crate) struct Due {
    pub(crate) priority: u8,
    pub(crate) run_at: i64,
    id: i64,
    kind: i32,
    attempt: u16,
    crashes: Option<u16>,
    slot: Option<Slot>,
    in_line: bool,
}

impl Due {
    pub(crate) fn of_lane((priority, place, id): (u8, Time, JobId), attempt: u16, slot: Slot) -> Due {
        let kind = slot.lane.kind.0;
        let (run_at, id, slot) = (place.0, id.0, Some(slot));
        Due { priority, run_at, id, kind, attempt, crashes: None, slot, in_line: true }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Due> {
        let (kind, lane) = (KindId(row.get(3)?), row.get::<_, Option<i64>>(6)?);
        Ok(Due {
            priority: row.get(0)?,
            run_at: row.get(1)?,
            id: row.get(2)?,
            kind: kind.0,
            attempt: small(row, 4)?,
            crashes: row.get::<_, Option<u16>>(5)?,
            slot: lane.map(|id| Slot { lane: Lane { id: LaneId(id), kind }, stood: None }),
            in_line: false,
        })
    }
}

/// What a claim may come to next.
pub(crate) enum Next {
    Ready(Due),
    Turn(Turn),
}

impl Next {
    pub(crate) fn priority(&self) -> u8 {
        match self {
            Next::Ready(due) => due.priority,
            Next::Turn(turn) => turn.priority,
        }
    }

    fn turn(&self) -> Option<&Turn> {
        match self {
            Next::Ready(_) => None,
            Next::Turn(turn) => Some(turn),
        }
    }

    pub(crate) fn place(&self) -> Time {
        match self {
            Next::Ready(due) => Time(due.run_at),
            Next::Turn(turn) => turn.place,
        }
    }

    fn id(&self) -> i64 {
        match self {
            Next::Ready(due) => due.id,
            Next::Turn(turn) => turn.id().0,
        }
    }
}

pub(crate) fn claim(scope: &mut Scope<'_>, claim: &Claim) -> Answer<Vec<LeasedJob>> {
    let Some(May { limit, limited, looks, mut turns }) = may_claim(scope.connection, claim)? else {
        return Ok(Vec::new());
    };
    let claim = &Claim { limit, ..claim.clone() };
    let next = if claim.suspect {
        suspect(scope.connection, claim, scope.now)?.into_iter().map(Next::Ready).collect()
    } else {
        if looks {
            promote(scope, &claim.kinds)?;
            turns = turn::any(scope.connection, claim.queue)?;
        }
        due(scope.connection, claim, (scope.now, turns))?
    };
    let mut jobs = take_all(scope, claim, limited, next)?;
    jobs.sort_unstable_by_key(|job| (job.priority, job.run_at, job.id));
    Ok(jobs)
}

pub(crate) fn take_all(
    scope: &mut Scope<'_>,
    claim: &Claim,
    limited: bool,
    next: Vec<Next>,
) -> Answer<Vec<LeasedJob>> {
    let due = serve_turns(scope, claim, next)?;
    let mut jobs = Vec::with_capacity(due.len());
    let mut attempts: Vec<u16> = due.iter().map(|row| row.attempt).collect();
    attempts.sort_unstable();
    attempts.dedup();
    let mut takes = Takes::new(scope.connection)?;
    for attempt in attempts {
        let group: Vec<&Due> = due.iter().filter(|row| row.attempt == attempt).collect();
        let token = lease(scope, claim, attempt, limited, &group)?;
        for row in group {
            jobs.push(take(&mut takes, claim.queue, (token, scope.now), row)?);
        }
    }
    Ok(jobs)
}

/// Each turn is taken by who it was offered to, or stands first in its line now.
fn serve_turns(scope: &mut Scope<'_>, claim: &Claim, next: Vec<Next>) -> Answer<Vec<Due>> {
    let turns: Vec<&Turn> = next.iter().filter_map(Next::turn).collect();
    turn::serve(scope.connection, &turns)?;
    let mut known = None;
    let mut due = Vec::with_capacity(next.len());
    for next in next {
        match next {
            Next::Ready(row) => due.push(row),
            Next::Turn(turn) => {
                let lanes = lanes(&mut known, scope.connection)?;
                due.extend(turn::take(scope, lanes, claim.queue, &turn)?);
            }
        }
    }
    Ok(due)
}

/// What a claim may take, and where it has to look.
pub(crate) struct May {
    pub(crate) limit: u32,
    /// The queue has a global concurrency.
    pub(crate) limited: bool,
    /// There are looks to follow, of whatever kind.
    pub(crate) looks: bool,
    /// The queue has turns.
    pub(crate) turns: bool,
}

/// Something, when the queue runs and has room and the worker was not declared dead. Asks all that a claim has to know in one
/// statement: where nobody uses lanes, they cost it nothing more.
pub(crate) fn may_claim(connection: &Connection, claim: &Claim) -> Answer<Option<May>> {
    let may: Option<(Option<u32>, bool, bool)> = connection
        .prepare_cached(
            "select case when q.live_global_concurrency_set then q.live_global_concurrency
                         else q.global_concurrency end,
                    exists (select 1 from windlass_looks), exists (select 1 from windlass_turns where queue = ?1)
             from windlass_queues q, windlass_workers w where q.id = ?1 and not q.paused and w.id = ?2",
        )?
        .query_row((claim.queue.0, claim.worker.0), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((most, looks, turns)) = may else { return Ok(None) };
    let limit = match most {
        None => claim.limit,
        Some(most) => room(most, leased(connection, claim.queue)?, claim.limit),
    };
    Ok((limit > 0).then_some(May { limit, limited: most.is_some(), looks, turns }))
}

fn leased(connection: &Connection, queue: QueueId) -> Answer<u64> {
    let leased: i64 = connection
        .prepare_cached(
            "select coalesce(sum(json_array_length(ids)), 0) from windlass_claims where queue = ?1",
        )?
        .query_row([queue.0], |row| row.get(0))?;
    Ok(leased.unsigned_abs())
}

fn due(connection: &Connection, claim: &Claim, (now, turns): (Time, bool)) -> Answer<Vec<Next>> {
    let limit = claim.limit as usize;
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() < limit
        && let Some(priority) = next_priority(connection, claim.queue, from, turns)?
    {
        found.append(&mut walk(connection, claim, priority, (now, turns), limit - found.len())?);
        from = priority + 1;
    }
    Ok(found)
}

pub(crate) const NEXT_PRIORITY: &str =
    "select priority from windlass_ready where queue = ?1 and priority >= ?2 order by priority limit 1";

/// The most urgent one from there on that something may wait with. Most queues use one or two of the eleven, and a walk
/// that finds nothing costs as much as this look.
pub(crate) fn next_priority(
    connection: &Connection,
    queue: QueueId,
    from: u8,
    turns: bool,
) -> Answer<Option<u8>> {
    if from > MAX_PRIORITY {
        return Ok(None);
    }
    // Turns stand in a table of their own.
    if turns {
        return Ok(Some(from));
    }
    let mut statement = connection.prepare_cached(NEXT_PRIORITY)?;
    Ok(statement.query_row((queue.0, from), |row| row.get(0)).optional()?)
}

pub(crate) const OF_PRIORITY: &str =
    "select priority, run_at, id, kind, attempt, suspect, lane from windlass_ready
     where queue = ?1 and priority = ?2 and run_at <= ?3 and suspect is null order by run_at, id";

/// Due jobs and turns of one priority, up to so many.
// Differs from Postgres: a walk over the index that skips foreign kinds and suspects here, then deletes by key; one
// writer needs no SKIP LOCKED.
pub(crate) fn walk(
    connection: &Connection,
    claim: &Claim,
    priority: u8,
    (before, turns): (Time, bool),
    most: usize,
) -> Answer<Vec<Next>> {
    let mut statement = connection.prepare_cached(OF_PRIORITY)?;
    let mut rows = statement.query((claim.queue.0, priority, before.0))?;
    let mut found = Vec::new();
    while found.len() < most {
        let Some(row) = rows.next()? else { break };
        let row = Due::read(row)?;
        if claim.kinds.contains(&KindId(row.kind)) {
            found.push(Next::Ready(row));
        }
    }
    if !turns {
        return Ok(found);
    }
    let turns = turn::walk(connection, claim, priority, before, most)?;
    Ok(merge(found, turns.into_iter().map(Next::Turn).collect(), most))
}

/// Turns keep their order among themselves: what is taken of a row is its beginning.
fn merge(ready: Vec<Next>, turns: Vec<Next>, most: usize) -> Vec<Next> {
    let mut found = Vec::with_capacity(most.min(ready.len() + turns.len()));
    let (mut ready, mut turns) = (ready.into_iter().peekable(), turns.into_iter().peekable());
    while found.len() < most {
        let before = |one: &Next, other: &Next| (one.place(), one.id()) < (other.place(), other.id());
        let next = match (ready.peek(), turns.peek()) {
            (Some(job), Some(turn)) if before(turn, job) => turns.next(),
            (Some(_), _) => ready.next(),
            (None, _) => turns.next(),
        };
        let Some(next) = next else { break };
        found.push(next);
    }
    found
}

fn suspect(connection: &Connection, claim: &Claim, now: Time) -> Answer<Option<Due>> {
    let mut statement = connection.prepare_cached(
        "select priority, run_at, id, kind, attempt, suspect, lane from windlass_ready
         where queue = ?1 and suspect is not null and run_at <= ?2 order by priority, run_at, id",
    )?;
    let mut rows = statement.query((claim.queue.0, now.0))?;
    while let Some(row) = rows.next()? {
        let row = Due::read(row)?;
        if claim.kinds.contains(&KindId(row.kind)) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// One claims row for jobs with the same attempt number.
fn lease(scope: &Scope<'_>, claim: &Claim, used: u16, limited: bool, group: &[&Due]) -> Answer<Token> {
    let mut jobs: Vec<(i64, i64)> = group.iter().map(|row| (row.id, row.run_at)).collect();
    jobs.sort_unstable();
    let (ids, places): (Vec<i64>, Vec<i64>) = jobs.into_iter().unzip();
    let ((first_id, ids), (place, places)) = (pack(&ids), pack_places(&places));
    let crashes = group.first().and_then(|row| row.crashes).unwrap_or(0);
    scope
        .connection
        .prepare_cached(
            "insert into windlass_claims (worker, queue, attempt, crashes, alone, claimed_at, place, first_id, ids,
                 places, laned, limited)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute((
            claim.worker.0,
            claim.queue.0,
            used.saturating_add(1),
            crashes,
            claim.suspect,
            scope.now.0,
            place,
            first_id,
            ids,
            places,
            group.iter().any(|row| row.slot.is_some()),
            limited,
        ))?;
    Ok(Token(scope.connection.last_insert_rowid()))
}

/// By its whole key, whether it stands among the ready ones or in line.
pub(crate) const OUT: &str =
    "delete from windlass_ready where queue = ?1 and priority = ?2 and run_at = ?3 and id = ?4";

/// Looked up once per claim, not once per job.
struct Takes<'c> {
    out: CachedStatement<'c>,
    job: CachedStatement<'c>,
}

impl<'c> Takes<'c> {
    fn new(connection: &'c Connection) -> Answer<Takes<'c>> {
        let job = "select payload, max_attempts, timeout_us, created_at, parent_id from windlass_jobs where id = ?1";
        Ok(Takes { out: connection.prepare_cached(OUT)?, job: connection.prepare_cached(job)? })
    }
}

fn take(takes: &mut Takes<'_>, queue: QueueId, (token, now): (Token, Time), due: &Due) -> Answer<LeasedJob> {
    if !due.in_line && takes.out.execute((queue.0, due.priority, due.run_at, due.id))? != 1 {
        return Err(Fault::corrupt(format!("job {} left its queue while it was leased", due.id)));
    }
    let job = takes.job.query_row([due.id], |row| {
        Ok(LeasedJob {
            id: JobId(due.id),
            token,
            kind: KindId(due.kind),
            queue,
            priority: due.priority,
            payload: row.get(0)?,
            attempt: due.attempt.saturating_add(1),
            max_attempts: small(row, 1)?,
            timeout: row.get::<_, Option<i64>>(2)?.map(duration),
            run_at: Time(due.run_at),
            created_at: Time(row.get(3)?),
            claimed_at: now,
            workflow: row.get::<_, Option<i64>>(4)?.map(WorkflowId),
            slot: due.slot,
        })
    });
    job.optional()?.ok_or_else(|| Fault::corrupt(format!("job {} waits in its queue but has no row", due.id)))
}

/// The suspect of this claim no longer runs alone: a crash from here on proves nothing against it.
pub(crate) fn in_company(scope: &mut Scope<'_>, token: Token) -> Answer<bool> {
    let there = scope
        .connection
        .prepare_cached("update windlass_claims set alone = 0 where token = ?1")?
        .execute([token.0])?;
    Ok(there > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither an urgent claim nor one for late jobs sorts anything: each reads the first entries of an index range.
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
