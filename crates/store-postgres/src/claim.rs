//! Leasing due jobs.
//!
//! Owns the claim statements and the hints that keep them short. One statement takes the rows out of `ready` and
//! writes their lease; a worker whose row is gone, or a paused queue, gets nothing. Never leases more than asked, a
//! kind that was not asked for, or (unless asked) a suspect.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use windlass_core::store::Claim;
use windlass_core::{JobId, KindId, LeasedJob, StoreError, Time, Token};

use crate::PostgresStore;
use crate::error::failed;
use crate::hint::LANES;
use crate::row::{PgTime, at, from_micros};

/// The worker's row is locked so that a reclaim under way, which deletes it, either sees this claim or stops it.
/// One index range per priority: delayed jobs of an urgent lane cost the others nothing. The CTE is materialized
/// because SKIP LOCKED under a plan that runs it twice takes more rows than the limit. One `claims` row per attempt
/// number keeps the row to a list of ids.
///
/// The answer is one row of lists about the leases and one row per job from `jobs`, put together by [`leased`]: joined
/// here, every row would choose its partition anew, while bounds known before the scan choose once.
macro_rules! claim {
    ($lanes:literal, $alone:literal, $crashes:literal) => {
        concat!(
            "with g as materialized (
                 select statement_timestamp() + $1::bigint * interval '1 microsecond' as now
                 from windlass.workers w
                 where w.id = $2 and not exists (select from windlass.queues q where q.id = $3 and q.paused)
                 for key share of w),
             c as materialized (",
            $lanes,
            "),
             d as (
                 delete from windlass.ready r where r.ctid = any (array(select ctid from c))
                 returning r.id, r.priority, r.run_at, r.attempt, r.kind, r.suspect),
             l as (
                 insert into windlass.claims (token, worker, queue, attempt, crashes, alone, claimed_at, ids, run_ats)
                 select nextval('windlass.token_seq'), $2, $3, a.attempt + 1, a.crashes, ",
            $alone,
            ", g.now, a.ids, a.run_ats
                 from g, (select attempt, ",
            $crashes,
            " as crashes, array_agg(id) as ids, array_agg(run_at) as run_ats
                          from d group by attempt) a
                 returning token, attempt)
             select g.now, a.*, t.*, null::bigint, null::bytea, null::smallint, null::bigint, null::timestamptz
             from g, (select array_agg(id), array_agg(kind), array_agg(priority), array_agg(run_at), array_agg(attempt)
                      from d) a,
                  (select array_agg(token), array_agg(attempt) from l) t
             union all
             select null, null, null, null, null, null, null, null,
                    j.id, j.payload, j.max_attempts, j.timeout_us, j.created_at
             from windlass.jobs j
             where j.id = any (array(select id from d))
               and j.id >= (select min(id) from d) and j.id <= (select max(id) from d)"
        )
    };
}

const CLAIM: &str = claim!(
    "select r.ctid
     from g cross join unnest($6::timestamptz[]) with ordinality p (low, lane)
     cross join lateral (
         select r.ctid from windlass.ready r
         where r.queue = $3 and r.priority = (p.lane - 1)::smallint and r.run_at >= p.low and r.run_at <= g.now
           and r.suspect is null and r.kind = any ($5::int[])
         order by r.run_at, r.id limit $4 for update skip locked) r
     limit $4",
    "false",
    "0"
);

const CLAIM_SUSPECT: &str = claim!(
    "select r.ctid
     from g cross join lateral (
         select r.ctid from windlass.ready r
         where r.queue = $3 and r.run_at <= g.now and r.suspect is not null and r.kind = any ($5::int[])
         order by r.priority, r.run_at, r.id limit $4 for update skip locked) r
     limit $4",
    "true",
    "coalesce(max(suspect), 0)"
);

const IN_COMPANY: &str = "update windlass.claims set alone = false where token = $1";

const OP: &str = "claim";

impl PostgresStore {
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Vec<LeasedJob>, StoreError> {
        if claim.limit == 0 || claim.kinds.is_empty() {
            return Ok(Vec::new());
        }
        if claim.suspect {
            return self.claim_suspect(claim).await;
        }
        let start = self.hints.start(claim.queue, &claim.kinds);
        let low: Vec<PgTime> = start.low.iter().copied().map(PgTime).collect();
        debug_assert_eq!(low.len(), LANES);
        let rows = sqlx::query(self.sql(CLAIM))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(i64::from(claim.limit))
            .bind(kinds(claim))
            .bind(low)
            .fetch_all(&self.pool)
            .await
            .map_err(failed(OP))?;
        let (now, jobs) = leased(claim, &rows)?;
        if let Some(now) = now {
            let full = jobs.len() as u64 >= u64::from(claim.limit);
            self.hints.raise(claim.queue, &claim.kinds, &start, now, full, &jobs);
        }
        Ok(jobs)
    }

    /// The worker promises to run nothing else meanwhile, so one job it is, whatever the limit.
    async fn claim_suspect(&self, claim: &Claim) -> Result<Vec<LeasedJob>, StoreError> {
        let rows = sqlx::query(self.sql(CLAIM_SUSPECT))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(1_i64)
            .bind(kinds(claim))
            .fetch_all(&self.pool)
            .await
            .map_err(failed(OP))?;
        Ok(leased(claim, &rows)?.1)
    }

    pub(crate) async fn in_company(&self, token: Token) -> Result<bool, StoreError> {
        let done = sqlx::query(self.sql(IN_COMPANY))
            .bind(token.0)
            .execute(&self.pool)
            .await
            .map_err(failed("let others run beside a suspect"))?;
        Ok(done.rows_affected() == 1)
    }
}

fn kinds(claim: &Claim) -> Vec<i32> {
    claim.kinds.iter().map(|k| k.0).collect()
}

/// What `ready` knew of a leased job.
struct Taken {
    kind: i32,
    priority: i16,
    run_at: Time,
    attempt: i16,
    token: Token,
}

/// The database's time, when it answered at all, and the jobs in claim order.
fn leased(claim: &Claim, rows: &[PgRow]) -> Result<(Option<Time>, Vec<LeasedJob>), StoreError> {
    let mut head = None;
    for row in rows {
        if let Some(now) = at::<Option<PgTime>>(row, 0)? {
            head = Some((now.0, taken(row)?));
        }
    }
    let Some((now, taken)) = head else { return Ok((None, Vec::new())) };
    let mut jobs = Vec::with_capacity(taken.len());
    for row in rows {
        if let Some(id) = at::<Option<i64>>(row, 8)? {
            let known = taken.get(&id).ok_or_else(|| broken(format!("job {id} was read but not leased")))?;
            jobs.push(read(claim, JobId(id), now, known, row)?);
        }
    }
    if jobs.len() != taken.len() {
        return Err(broken(format!("{} jobs leased, {} found", taken.len(), jobs.len())));
    }
    jobs.sort_unstable_by_key(|j| (j.priority, j.run_at, j.id));
    Ok((Some(now), jobs))
}

fn broken(what: String) -> StoreError {
    StoreError::Corrupt { what }
}

fn taken(row: &PgRow) -> Result<HashMap<i64, Taken>, StoreError> {
    fn list<'r, T>(row: &'r PgRow, index: usize) -> Result<Vec<T>, StoreError>
    where
        Vec<T>: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        Ok(at::<Option<Vec<T>>>(row, index)?.unwrap_or_default())
    }
    let tokens: HashMap<i16, i64> = list::<i16>(row, 7)?.into_iter().zip(list::<i64>(row, 6)?).collect();
    let places = list::<i32>(row, 2)?.into_iter().zip(list::<i16>(row, 3)?);
    let times = list::<PgTime>(row, 4)?.into_iter().zip(list::<i16>(row, 5)?);
    let mut taken = HashMap::new();
    for (id, ((kind, priority), (run_at, used))) in list::<i64>(row, 1)?.into_iter().zip(places.zip(times)) {
        let attempt = used + 1;
        let token = tokens.get(&attempt).ok_or_else(|| broken(format!("job {id} has no token")))?;
        taken.insert(id, Taken { kind, priority, run_at: run_at.0, attempt, token: Token(*token) });
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
        payload: at(row, 9)?,
        attempt: u16::try_from(taken.attempt).unwrap_or(0),
        max_attempts: u16::try_from(at::<i16>(row, 10)?).unwrap_or(0),
        timeout: at::<Option<i64>>(row, 11)?.map(from_micros),
        run_at: taken.run_at,
        created_at: at::<PgTime>(row, 12)?.0,
        claimed_at: now,
    })
}
