//! Leasing due jobs.
//!
//! Owns the claim statements, and the hints that keep them fast. One statement removes the rows from `ready` and
//! writes their lease. A worker whose row is gone, or a paused queue, gets nothing. Never leases more than was asked
//! for or than the queue's global concurrency allows, or a kind or level that was not asked for.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use windlass_core::lane::Lane;
use windlass_core::store::Claim;
use windlass_core::sweep::{Level, Suspicion};
use windlass_core::{JobId, KindId, LaneId, LeasedJob, StoreError, Time, Token, WorkflowId};

use crate::PostgresStore;
use crate::error::failed;
use crate::hint::{Low, NEVER, Saw};
use crate::row::{PgTime, from_micros, get, level, time, time_or_none};

pub(crate) const CLAIM: &str = include_str!("statements/claim.sql");
const CLAIM_SUSPECTS: &str = include_str!("statements/claim_suspects.sql");
const IN_COMPANY: &str = "update windlass.claims set alone = false where token = $1";

const OP: &str = "claim";

impl PostgresStore {
    pub(crate) async fn do_claim(&self, claim: &Claim) -> Result<Vec<LeasedJob>, StoreError> {
        if claim.limit == 0 || claim.kinds.is_empty() {
            return Ok(Vec::new());
        }
        self.claim_of(claim, None).await
    }

    /// Claims jobs of one priority, or of all.
    pub(crate) async fn claim_of(
        &self,
        claim: &Claim,
        only: Option<u8>,
    ) -> Result<Vec<LeasedJob>, StoreError> {
        if !self.limited.contains(claim.queue) {
            if let Some(jobs) = self.claim_once(claim, None, only).await? {
                return Ok(jobs);
            }
            self.limited.set(claim.queue, true);
        }
        self.claim_within(claim, only).await
    }

    /// `counted` is the queue's number of claims when the caller counted its leased jobs. `None` when a global
    /// concurrency prevents the claim: the queue has one and nothing was counted, or another claim came first.
    pub(crate) async fn claim_once(
        &self,
        claim: &Claim,
        counted: Option<i64>,
        only: Option<u8>,
    ) -> Result<Option<Vec<LeasedJob>>, StoreError> {
        if let Some(priority) = only {
            let low = self.hints.low(claim.queue, &claim.kinds).only(priority);
            let answer = self.claim_from(claim, counted, &low).await?;
            return Ok((!answer.blocked).then_some(answer.jobs));
        }
        if claim.level != Level::Ordinary {
            let answer = self.claim_suspects(claim, counted).await?;
            return Ok((!answer.blocked).then_some(answer.jobs));
        }
        let mut start = self.hints.start(claim.queue, &claim.kinds);
        let mut answer = self.claim_from(claim, counted, &start.low).await?;
        let checked = answer.checks;
        if checked {
            self.follow_checks(claim, start.low.checks).await?;
            start = self.hints.start_again(claim.queue, &claim.kinds, start);
            answer = self.claim_from(claim, counted, &Low { checks: NEVER, ..start.low }).await?;
        }
        if answer.blocked {
            return Ok(None);
        }
        if let Some(now) = answer.now {
            let full = answer.jobs.len() >= claim.limit as usize;
            let saw = Saw { now, full, no_checks: !checked, taken: &answer.jobs };
            self.hints.raise(claim.queue, &claim.kinds, &start, saw);
        }
        Ok(Some(answer.jobs))
    }

    async fn claim_from(&self, claim: &Claim, counted: Option<i64>, low: &Low) -> Result<Answer, StoreError> {
        let query = sqlx::query(self.sql(CLAIM))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(i64::from(claim.limit))
            .bind(kinds(claim))
            .bind(low.ready.map(PgTime).to_vec())
            .bind(PgTime(low.checks))
            .bind(counted);
        leased(claim, &query.fetch_all(&self.pool).await.map_err(failed(OP))?)
    }

    async fn claim_suspects(&self, claim: &Claim, counted: Option<i64>) -> Result<Answer, StoreError> {
        let (low, high) = claim.level.range();
        let alone = claim.level == Level::Trial;
        let query = sqlx::query(self.sql(CLAIM_SUSPECTS))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(if alone { 1 } else { i64::from(claim.limit) })
            .bind(kinds(claim))
            .bind(counted)
            .bind(i16::from(low))
            .bind(i16::from(high))
            .bind(alone);
        leased(claim, &query.fetch_all(&self.pool).await.map_err(failed(OP))?)
    }

    pub(crate) async fn do_in_company(&self, token: Token) -> Result<bool, StoreError> {
        let done = sqlx::query(self.sql(IN_COMPANY))
            .bind(token.0)
            .execute(&self.pool)
            .await
            .map_err(failed("let others run beside a job on trial"))?;
        Ok(done.rows_affected() == 1)
    }
}

fn kinds(claim: &Claim) -> Vec<i32> {
    claim.kinds.iter().map(|k| k.0).collect()
}

/// Columns of `ready` for a leased job.
struct Taken {
    kind: i32,
    priority: i16,
    run_at: Time,
    attempt: i16,
    suspicion: Suspicion,
    token: Token,
    lane: Option<Lane>,
}

#[derive(Default)]
struct Answer {
    /// The database's time, if it returned any row.
    now: Option<Time>,
    /// In claim order.
    jobs: Vec<LeasedJob>,
    /// A lane check is due, and no job was taken.
    checks: bool,
    /// No job was taken because of a global concurrency.
    blocked: bool,
}

fn leased(claim: &Claim, rows: &[PgRow]) -> Result<Answer, StoreError> {
    let mut head = None;
    for row in rows {
        if let Some(now) = time_or_none(row, "now")? {
            head = Some((now, row));
        }
    }
    let Some((now, head)) = head else { return Ok(Answer::default()) };
    let taken = taken(head)?;
    let mut jobs = Vec::with_capacity(taken.len());
    for row in rows {
        if let Some(id) = get::<Option<i64>>(row, "id")? {
            let known = taken.get(&id).ok_or_else(|| broken(format!("job {id} was read but not leased")))?;
            jobs.push(read(claim, JobId(id), now, known, row)?);
        }
    }
    if jobs.len() != taken.len() {
        return Err(broken(format!("{} jobs leased, {} found", taken.len(), jobs.len())));
    }
    jobs.sort_unstable_by_key(|j| (j.priority, j.run_at, j.id));
    Ok(Answer { now: Some(now), jobs, checks: get(head, "checks")?, blocked: get(head, "blocked")? })
}

fn broken(what: String) -> StoreError {
    StoreError::Corrupt { what }
}

fn taken(row: &PgRow) -> Result<HashMap<i64, Taken>, StoreError> {
    fn list<'r, T>(row: &'r PgRow, column: &str) -> Result<Vec<T>, StoreError>
    where
        Vec<T>: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        Ok(get::<Option<Vec<T>>>(row, column)?.unwrap_or_default())
    }
    let groups = list::<i16>(row, "leased_attempts")?.into_iter().zip(list::<i16>(row, "leased_suspicions")?);
    let tokens: HashMap<(i16, i16), i64> = groups.zip(list::<i64>(row, "tokens")?).collect();
    let (ids, lanes) = (list::<i64>(row, "ids")?, list::<Option<i64>>(row, "lanes")?);
    let (kinds, priorities) = (list::<i32>(row, "kinds")?, list::<i16>(row, "priorities")?);
    let (run_ats, attempts) = (list::<PgTime>(row, "run_ats")?, list::<i16>(row, "attempts")?);
    let suspicions = list::<i16>(row, "suspicions")?;
    let mut taken = HashMap::with_capacity(ids.len());
    for (n, id) in ids.into_iter().enumerate() {
        let attempt = attempts[n] + 1;
        let token =
            tokens.get(&(attempt, suspicions[n])).ok_or_else(|| broken(format!("job {id} has no token")))?;
        let lane = lanes[n].map(|lane| Lane { id: LaneId(lane), kind: KindId(kinds[n]) });
        let (kind, priority, run_at, token) = (kinds[n], priorities[n], run_ats[n].0, Token(*token));
        let suspicion = level(suspicions[n]);
        taken.insert(id, Taken { kind, priority, run_at, attempt, suspicion, token, lane });
    }
    Ok(taken)
}

fn read(claim: &Claim, id: JobId, now: Time, taken: &Taken, row: &PgRow) -> Result<LeasedJob, StoreError> {
    Ok(LeasedJob {
        id,
        token: taken.token,
        kind: KindId(taken.kind),
        queue: claim.queue,
        priority: u8::try_from(taken.priority).unwrap_or(u8::MAX),
        payload: get(row, "payload")?,
        attempt: u16::try_from(taken.attempt).unwrap_or(0),
        max_attempts: u16::try_from(get::<i16>(row, "max_attempts")?).unwrap_or(0),
        timeout: get::<Option<i64>>(row, "timeout_us")?.map(from_micros),
        run_at: taken.run_at,
        created_at: time(row, "created_at")?,
        claimed_at: now,
        workflow: get::<Option<i64>>(row, "parent_id")?.map(WorkflowId),
        lane: taken.lane,
        holds_key: get(row, "holds_key")?,
        suspicion: taken.suspicion,
    })
}
