//! Leasing due jobs.
//!
//! Owns the claim statements and the hints that keep them short. One statement takes the rows out of `ready` and
//! writes their lease; a worker whose row is gone, or a paused queue, gets nothing. Never leases more than asked or than
//! the queue's global concurrency leaves, a kind that was not asked for, or (unless asked) a suspect.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use windlass_core::lane::{Lane, Slot};
use windlass_core::store::Claim;
use windlass_core::{JobId, KindId, LaneId, LeasedJob, StoreError, Time, Token, WorkflowId};

use crate::PostgresStore;
use crate::error::failed;
use crate::hint::{BOTTOM, Low, NEVER, Saw};
use crate::lane::Promoted;
use crate::row::{PgTime, at, from_micros};
use crate::turn::{saw, serve};

/// The worker's row is locked so that a reclaim under way, which deletes it, either sees this claim or stops it.
/// One index range per priority: delayed jobs of an urgent one cost the others nothing. The CTE is materialized
/// because SKIP LOCKED under a plan that runs it twice takes more rows than the limit. One `claims` row per attempt
/// number keeps the row to a list of ids.
///
/// While a lane is due for a look nothing is taken: its heads, made first, may stand before the rest. The token tells
/// settlements that have to give back a slot from all others. Nothing is taken of a queue with a global concurrency
/// either, except after a count that no other claim came to since: that one is `u`, see `global`.
///
/// The answer is one row of lists about the leases and one row per job from `jobs`, put together by [`leased`]: joined
/// here, every row would choose its partition anew, while bounds known before the scan choose once.
macro_rules! claim {
    (looks: $looks:expr, turns: $turns:expr, blocked: $blocked:expr, before: $before:expr, due: $due:expr,
     place: $place:literal, slot: $slot:literal, alone: $alone:literal, crashes: $crashes:literal, saw: $saw:expr) => {
        concat!(
            "with g as materialized (
                 select statement_timestamp() + $1::bigint * interval '1 microsecond' as now, ",
            $looks,
            " as looks, ",
            $turns,
            " as turns,
                     case when q.live_global_concurrency_set then q.live_global_concurrency
                          else q.global_concurrency end is not null as limited
                 from windlass.workers w cross join windlass.queues q
                 where w.id = $2 and q.id = $3 and not q.paused
                 for key share of w),",
            $before,
            "
             c as materialized (",
            $due,
            "),
             d as (
                 delete from windlass.ready r where r.ctid = any (array(select ctid from c))
                 returning r.id, r.priority, r.attempt, r.kind, r.suspect, r.lane, ",
            $place,
            " as run_at, ",
            $slot,
            " as slot),
             l as (
                 insert into windlass.claims (token, worker, queue, attempt, crashes, alone, claimed_at, ids, run_ats,
                                              slots)
                 select 2 * nextval('windlass.token_seq') + a.laned, $2, $3, a.attempt + 1, a.crashes, ",
            $alone,
            ", g.now, a.ids, a.run_ats, case when a.laned > 0 then a.slots end
                 from g, (select attempt, ",
            $crashes,
            " as crashes, array_agg(id) as ids, array_agg(run_at) as run_ats, array_agg(slot) as slots,
                                 bool_or(lane is not null)::int as laned
                          from d group by attempt) a
                 returning token, attempt)
             select g.now, a.*, t.*, null::bigint, null::bytea, null::smallint, null::bigint, null::timestamptz,
                    g.looks, ",
            $blocked,
            ", null::bigint, ",
            $saw,
            "
             from g, (select array_agg(id), array_agg(kind), array_agg(priority), array_agg(run_at), array_agg(attempt),
                             array_agg(lane)
                      from d) a,
                  (select array_agg(token), array_agg(attempt) from l) t
             union all
             select null, null, null, null, null, null, null, null, null,
                    j.id, j.payload, j.max_attempts, j.timeout_us, j.created_at, null, null, j.parent_id,
                    null, null, null
             from windlass.jobs j
             where j.id = any (array(select id from d))
               and j.id >= (select min(id) from d) and j.id <= (select max(id) from d)"
        )
    };
}

/// True while a lane of these kinds is due for a look.
macro_rules! looks {
    () => {
        "exists (select from windlass.looks o where o.kind = any ($5::int[])
                     and o.at >= $7::timestamptz and o.at <= statement_timestamp() + $1::bigint * interval '1 microsecond')"
    };
}

macro_rules! counted {
    ($mark:literal) => {
        concat!(
            " u as (
                 update windlass.queues q set limited_claims = q.limited_claims + 1 from g
                 where q.id = $3 and q.limited_claims = ",
            $mark,
            " and not g.looks and not g.turns returning q.id),"
        )
    };
}

/// From `ready` alone, unless what `looks` and `turns` say stands against it.
macro_rules! claim_ready {
    (looks: $looks:expr, turns: $turns:expr, $blocked:expr, $counted:expr, $from:literal, $unless:expr) => {
        claim!(
            looks: $looks,
            turns: $turns,
            blocked: $blocked,
            before: $counted,
            due: concat!(
                "select r.ctid
                 from ",
                $from,
                " cross join unnest($6::timestamptz[]) with ordinality p (low, n)
                 cross join lateral (
                     select r.ctid from windlass.ready r
                     where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low
                       and r.run_at <= g.now and r.suspect is null and r.kind = any ($5::int[])
                     order by r.run_at, r.id limit $4 for update skip locked) r
                 where not g.looks and not g.turns",
                $unless,
                " limit $4"
            ),
            place: "r.run_at",
            slot: "r.slot",
            alone: "false",
            crashes: "0",
            saw: "g.turns, false, false"
        )
    };
}

/// Where there are turns nothing is taken: they are served with what is ready, by [`CLAIM_TURNS`].
macro_rules! claim_due {
    ($blocked:expr, $counted:expr, $from:literal, $unless:expr) => {
        claim_ready!(
            looks: looks!(),
            turns: "exists (
                     select from unnest($6::timestamptz[]) with ordinality p (low, n) cross join lateral (
                         select from windlass.turns t
                         where t.queue = $3 and t.priority = (p.n - 1)::smallint and t.run_at >= p.low
                           and t.run_at <= statement_timestamp() + $1::bigint * interval '1 microsecond'
                           and t.kind = any ($5::int[])
                         limit 1) t)",
            $blocked, $counted, $from, $unless
        )
    };
}

/// A queue that never had lanes has neither looks nor turns; of one that has them nothing is taken.
macro_rules! claim_plain {
    ($blocked:expr, $counted:expr, $from:literal, $unless:expr) => {
        claim_ready!(looks: "false", turns: "q.laned", $blocked, $counted, $from, $unless)
    };
}

/// A job that was offered a slot gets the one there is, and stands where the last of those served with it was offered.
macro_rules! claim_turns {
    ($blocked:expr, $counted:expr, $from:literal, $unless:expr) => {
        claim!(
            looks: looks!(),
            turns: "false",
            blocked: $blocked,
            before: concat!($counted, serve!($from, $unless)),
            due: "select address as ctid from taken",
            place: "greatest(r.run_at, case when r.lane is not null and r.slot is null
                                            then (select at from served)[r.priority + 1] end)",
            slot: "case when r.lane is not null then coalesce(r.slot, 1::smallint) end",
            alone: "false",
            crashes: "0",
            saw: saw!()
        )
    };
}

macro_rules! claim_suspect {
    ($blocked:expr, $counted:expr, $from:literal, $unless:expr) => {
        claim!(
            looks: "false",
            turns: "false",
            blocked: $blocked,
            before: $counted,
            due: concat!(
                "select r.ctid
                 from ",
                $from,
                " cross join lateral (
                     select r.ctid from windlass.ready r
                     where r.queue = $3 and r.run_at <= g.now and r.suspect is not null and r.kind = any ($5::int[])
                     order by r.priority, r.run_at, r.id limit $4 for update skip locked) r
                 where true",
                $unless,
                " limit $4"
            ),
            place: "r.run_at",
            slot: "r.slot",
            alone: "true",
            crashes: "coalesce(max(suspect), 0)",
            saw: "false, false, false"
        )
    };
}

macro_rules! unlimited {
    ($claim:ident) => {
        $claim!("g.limited", "", "g", " and not g.limited")
    };
}

macro_rules! within {
    ($claim:ident, $mark:literal) => {
        $claim!("not exists (select from u)", counted!($mark), "g cross join u", "")
    };
}

pub(crate) const CLAIM_PLAIN: &str = unlimited!(claim_plain);
pub(crate) const CLAIM: &str = unlimited!(claim_due);
pub(crate) const CLAIM_TURNS: &str = unlimited!(claim_turns);
const CLAIM_SUSPECT: &str = unlimited!(claim_suspect);
const CLAIM_COUNTED: &str = within!(claim_due, "$8::bigint");
const CLAIM_TURNS_COUNTED: &str = within!(claim_turns, "$8::bigint");
const CLAIM_SUSPECT_COUNTED: &str = within!(claim_suspect, "$6::bigint");

const IN_COMPANY: &str = "update windlass.claims set alone = false where token = $1";

/// How often one claim follows looks: those it finds, and those that slots leave which nobody took.
const FOLLOWED: usize = 2;
const OP: &str = "claim";

impl PostgresStore {
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Vec<LeasedJob>, StoreError> {
        if claim.limit == 0 || claim.kinds.is_empty() {
            return Ok(Vec::new());
        }
        self.claim_of(claim, None).await
    }

    /// Of one priority, or of all.
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

    /// With `counted`, the mark of a count of what is leased, nothing unless that still holds. `None` when a global
    /// concurrency stands against it: the queue has one and nothing was counted, or another claim came first.
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
        if claim.suspect {
            let answer = self.claim_suspect(claim, counted).await?;
            return Ok((!answer.blocked).then_some(answer.jobs));
        }
        let mut start = self.hints.start(claim.queue, &claim.kinds);
        let mut answer = self.claim_from(claim, counted, &start.low).await?;
        let (mut looked, mut promoted, mut unlooked) = (true, 0, false);
        for _ in 0..FOLLOWED {
            // Slots that were given back have left looks.
            let follow = answer.looks || (answer.again && answer.jobs.is_empty());
            if !follow {
                break;
            }
            let Promoted { heads, places, more } = self.promote(&claim.kinds, start.low.looks).await?;
            (looked, promoted, unlooked) = (false, promoted + heads, more);
            for (queue, place) in places {
                self.hints.lower(queue, place);
            }
            start = self.hints.start_again(claim.queue, &claim.kinds, start);
            answer = self.claim_from(claim, counted, &Low { looks: NEVER, ..start.low }).await?;
        }
        let Answer { now, jobs, blocked, passed, again, .. } = answer;
        if blocked {
            return Ok(None);
        }
        if let (Some(now), false) = (now, again) {
            let full = jobs.len() >= claim.limit as usize;
            let saw = Saw { now, full, looked, passed, taken: &jobs };
            self.hints.raise(claim.queue, &claim.kinds, &start, saw);
        }
        if promoted > jobs.len() as u64 {
            self.waker.jobs([(claim.queue, BOTTOM)]);
        } else if again || unlooked {
            self.waker.jobs([(claim.queue, NEVER)]);
        }
        Ok(Some(jobs))
    }

    async fn claim_from(&self, claim: &Claim, counted: Option<i64>, low: &Low) -> Result<Answer, StoreError> {
        if counted.is_none() && !self.laned.contains(claim.queue) {
            let answer = self.claim_plain(claim, low).await?;
            if !answer.turns {
                return Ok(answer);
            }
            self.laned.set(claim.queue, true);
        }
        if !self.turned.contains(claim.queue) {
            let statement = if counted.is_some() { CLAIM_COUNTED } else { CLAIM };
            let answer = self.claim_by(statement, claim, counted, low).await?;
            if answer.looks || !answer.turns {
                return Ok(answer);
            }
        }
        let statement = if counted.is_some() { CLAIM_TURNS_COUNTED } else { CLAIM_TURNS };
        let answer = self.claim_by(statement, claim, counted, low).await?;
        self.turned.set(claim.queue, answer.turns);
        Ok(answer)
    }

    async fn claim_by(
        &self,
        statement: &'static str,
        claim: &Claim,
        counted: Option<i64>,
        low: &Low,
    ) -> Result<Answer, StoreError> {
        let query = sqlx::query(self.sql(statement))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(i64::from(claim.limit))
            .bind(kinds(claim))
            .bind(low.ready.map(PgTime).to_vec())
            .bind(PgTime(low.looks));
        let query = if counted.is_some() { query.bind(counted) } else { query };
        leased(claim, &query.fetch_all(&self.pool).await.map_err(failed(OP))?)
    }

    async fn claim_plain(&self, claim: &Claim, low: &Low) -> Result<Answer, StoreError> {
        let query = sqlx::query(self.sql(CLAIM_PLAIN))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(i64::from(claim.limit))
            .bind(kinds(claim))
            .bind(low.ready.map(PgTime).to_vec());
        leased(claim, &query.fetch_all(&self.pool).await.map_err(failed(OP))?)
    }

    /// The worker promises to run nothing else meanwhile, so one job it is, whatever the limit.
    async fn claim_suspect(&self, claim: &Claim, counted: Option<i64>) -> Result<Answer, StoreError> {
        let statement = if counted.is_some() { CLAIM_SUSPECT_COUNTED } else { CLAIM_SUSPECT };
        let query = sqlx::query(self.sql(statement))
            .bind(self.offset())
            .bind(claim.worker.0)
            .bind(claim.queue.0)
            .bind(1_i64)
            .bind(kinds(claim));
        let query = if counted.is_some() { query.bind(counted) } else { query };
        leased(claim, &query.fetch_all(&self.pool).await.map_err(failed(OP))?)
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
    lane: Option<Lane>,
}

#[derive(Default)]
struct Answer {
    /// The database's time, when it answered at all.
    now: Option<Time>,
    /// In claim order.
    jobs: Vec<LeasedJob>,
    /// A lane is due for a look, and nothing was taken.
    looks: bool,
    /// Nothing was taken for the sake of a global concurrency.
    blocked: bool,
    /// Slots are offered: to be served, or served. To a claim that takes the queue for one without lanes: it has them.
    turns: bool,
    /// Somebody holds what stands before the last that was taken.
    passed: bool,
    /// It got somewhere and there is more that it did not look at, or slots were given back.
    again: bool,
}

fn leased(claim: &Claim, rows: &[PgRow]) -> Result<Answer, StoreError> {
    let mut head = None;
    for row in rows {
        if let Some(now) = at::<Option<PgTime>>(row, 0)? {
            head = Some((now.0, row));
        }
    }
    let Some((now, head)) = head else { return Ok(Answer::default()) };
    let taken = taken(head)?;
    let mut jobs = Vec::with_capacity(taken.len());
    for row in rows {
        if let Some(id) = at::<Option<i64>>(row, 9)? {
            let known = taken.get(&id).ok_or_else(|| broken(format!("job {id} was read but not leased")))?;
            jobs.push(read(claim, JobId(id), now, known, row)?);
        }
    }
    if jobs.len() != taken.len() {
        return Err(broken(format!("{} jobs leased, {} found", taken.len(), jobs.len())));
    }
    jobs.sort_unstable_by_key(|j| (j.priority, j.run_at, j.id));
    let (looks, blocked) = (at(head, 14)?, at(head, 15)?);
    let (turns, passed, again) = (at(head, 17)?, at(head, 18)?, at(head, 19)?);
    Ok(Answer { now: Some(now), jobs, looks, blocked, turns, passed, again })
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
    let tokens: HashMap<i16, i64> = list::<i16>(row, 8)?.into_iter().zip(list::<i64>(row, 7)?).collect();
    let places = list::<i32>(row, 2)?.into_iter().zip(list::<i16>(row, 3)?);
    let times = list::<PgTime>(row, 4)?.into_iter().zip(list::<i16>(row, 5)?);
    let jobs = list::<i64>(row, 1)?.into_iter().zip(list::<Option<i64>>(row, 6)?);
    let mut taken = HashMap::new();
    for ((id, lane), ((kind, priority), (run_at, used))) in jobs.zip(places.zip(times)) {
        let attempt = used + 1;
        let token = tokens.get(&attempt).ok_or_else(|| broken(format!("job {id} has no token")))?;
        let lane = lane.map(|lane| Lane { id: LaneId(lane), kind: KindId(kind) });
        taken.insert(id, Taken { kind, priority, run_at: run_at.0, attempt, token: Token(*token), lane });
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
        payload: at(row, 10)?,
        attempt: u16::try_from(taken.attempt).unwrap_or(0),
        max_attempts: u16::try_from(at::<i16>(row, 11)?).unwrap_or(0),
        timeout: at::<Option<i64>>(row, 12)?.map(from_micros),
        run_at: taken.run_at,
        created_at: at::<PgTime>(row, 13)?.0,
        claimed_at: now,
        workflow: at::<Option<i64>>(row, 16)?.map(WorkflowId),
        slot: taken.lane.map(|lane| Slot { lane, stood: None }),
    })
}
