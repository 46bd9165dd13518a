//! The poll: what is due, when the next job and the next tick are due, and what to stop.
//!
//! Owns the one statement that keeps the engine correct when every wake-up is lost. Never writes.

use std::time::Instant;

use sqlx::postgres::PgRow;
use windlass_core::scale::Bounds;
use windlass_core::store::{KindLimits, Permits, Poll, QueueDue, QueueKinds, SuspectsDue};
use windlass_core::{JobId, KindId, QueueId, StoreError, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::limit::parse_rate;
use crate::row::{PgTime, duration_or_none, get, most, time, time_or_none};

/// Eleven index probes per served queue, each starting at its hint, and one per kind for lane checks, which a claim
/// follows. Suspects are reported separately: they are due, but an ordinary claim does not take them. The left join
/// returns the time even when no queue is served. The kinds of a queue are the text of an array, because nested arrays
/// have to be rectangular. Lists come from subqueries to hide their length from the planner: otherwise it would plan
/// again for each length, which takes longer than the poll.
const POLL: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    s as materialized (
        select s.asked, s.queue, s.kinds::int[] as kinds, s.checks
        from unnest((select $3::int[]), (select $4::text[]), (select $9::timestamptz[]))
             with ordinality s (queue, kinds, checks, asked))
    select n.now, s.asked, q.id as queue, q.paused, q.concurrency, q.concurrency_min, q.concurrency_max,
           q.global_concurrency, q.boost_after_us,
           case when exists (select from windlass.cancels) then array(
                select x.job_id from windlass.cancels x
                join windlass.claims c on c.worker = $2 and x.job_id = any (c.ids)) else '{}' end as cancel,
           (select s.next_at from windlass.schedules s
            where not s.paused and s.next_at is not null and s.next_at >= $10
            order by s.next_at limit 1) as next_tick,
           least((select min(r.run_at)
             from unnest((select $5::bigint[]), (select $6::smallint[]), (select $7::timestamptz[]))
                      p (asked, priority, low), lateral (
                 select r.run_at from windlass.ready r
                 where r.queue = s.queue and r.priority = p.priority and r.run_at >= p.low and r.suspicion <= 1
                   and r.kind = any (s.kinds)
                 order by r.run_at, r.id limit 1) r
             where p.asked = s.asked),
            (select min(c.at)
             from unnest(s.kinds) k (id), lateral (
                 select c.at from windlass.lane_checks c
                 where c.kind = k.id and c.at >= s.checks order by c.at limit 1) c)) as next_due,
           array(select l.low::smallint from (values (1::smallint, 1::smallint), (2, 2), (3, 32767)) l (low, high)
                 where exists (select from windlass.ready r
                               where r.queue = s.queue and r.suspicion > 0 and r.suspicion between l.low and l.high
                                 and r.run_at <= n.now and r.kind = any (s.kinds))) as suspects,
           l.kinds as limited, l.rates, l.resources, l.permits
    from n cross join (
        select array_agg(k.id) as kinds, array_agg(k.rate) as rates,
               array_agg(r.name) as resources, array_agg(r.permits) as permits
        from windlass.kinds k join windlass.queues q on q.id = k.queue
        left join windlass.resources r on r.name = coalesce(k.resource, q.resource)
        where k.id = any ((select $8::int[])::int[]) and (k.rate is not null or r.name is not null)) l
    left join s on true left join windlass.queues q on q.id = s.queue
    order by s.asked";

impl PostgresStore {
    pub(crate) async fn do_poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll, StoreError> {
        let (mut places, mut priorities, mut lows) = (Vec::new(), Vec::new(), Vec::new());
        let mut checks = Vec::new();
        let begun = Instant::now();
        let mut from_bottom = Vec::new();
        let ticks = self.hints.ticks.start(begun);
        for (asked, of @ QueueKinds { queue, kinds }) in (1_i64..).zip(served) {
            let (low, full) = self.hints.start_poll(*queue, kinds, begun);
            from_bottom.extend(full.then_some(of));
            for (priority, low) in low.ready.into_iter().enumerate() {
                places.push(asked);
                priorities.push(priority as i16);
                lows.push(PgTime(low));
            }
            checks.push(PgTime(low.checks));
        }
        let rows = sqlx::query(self.sql(POLL))
            .bind(self.offset())
            .bind(worker.0)
            .bind(served.iter().map(|s| s.queue.0).collect::<Vec<_>>())
            .bind(served.iter().map(|s| array(&s.kinds)).collect::<Vec<_>>())
            .bind(places)
            .bind(priorities)
            .bind(lows)
            .bind(served.iter().flat_map(|s| s.kinds.iter().map(|k| k.0)).collect::<Vec<_>>())
            .bind(checks)
            .bind(PgTime(ticks.low))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("poll"))?;
        let ended = Instant::now();
        for QueueKinds { queue, kinds } in from_bottom {
            self.hints.end_poll(*queue, kinds, begun, ended);
        }
        let poll = self.read_poll(served, &rows)?;
        self.hints.ticks.end(&ticks, poll.next_tick, ended);
        Ok(poll)
    }

    fn read_poll(&self, served: &[QueueKinds], rows: &[PgRow]) -> Result<Poll, StoreError> {
        let Some(first) = rows.first() else {
            return Err(StoreError::Corrupt { what: "the poll returned no row".to_owned() });
        };
        let cancel: Vec<i64> = get(first, "cancel")?;
        let mut queues = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(queue) = get::<Option<i32>>(row, "queue")? else { continue };
            let asked = usize::try_from(get::<i64>(row, "asked")? - 1).unwrap_or(0);
            let next_due = time_or_none(row, "next_due")?;
            let global_concurrency = most(row, "global_concurrency")?;
            self.limited.set(QueueId(queue), global_concurrency.is_some());
            if let (Some(due), Some(of)) = (next_due, served.get(asked)) {
                // Otherwise a job found below the hint would be announced but never claimed.
                self.hints.lower_of(of.queue, &of.kinds, due);
            }
            queues.push(QueueDue {
                asked,
                queue: QueueId(queue),
                next_due,
                suspects: suspects(row)?,
                paused: get(row, "paused")?,
                concurrency: most(row, "concurrency")?.unwrap_or(0),
                global_concurrency,
                bounds: bounds(row)?,
                boost_after: duration_or_none(row, "boost_after_us")?,
            });
        }
        let cancel = cancel.into_iter().map(JobId).collect();
        let next_tick = time_or_none(first, "next_tick")?;
        Ok(Poll { now: time(first, "now")?, queues, limits: limits(first)?, next_tick, cancel })
    }
}

fn suspects(row: &PgRow) -> Result<SuspectsDue, StoreError> {
    let levels: Vec<i16> = get(row, "suspects")?;
    let due = |level| levels.contains(&level);
    Ok(SuspectsDue { first: due(1), second: due(2), trial: due(3) })
}

fn bounds(row: &PgRow) -> Result<Option<Bounds>, StoreError> {
    let (min, max) = (most(row, "concurrency_min")?, most(row, "concurrency_max")?);
    Ok(min.zip(max).map(|(min, max)| Bounds { min, max }))
}

fn array(kinds: &[KindId]) -> String {
    let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    format!("{{{}}}", kinds.join(","))
}

/// Every row repeats these lists.
fn limits(row: &PgRow) -> Result<Vec<KindLimits>, StoreError> {
    let Some(kinds) = get::<Option<Vec<i32>>>(row, "limited")? else { return Ok(Vec::new()) };
    let rates: Vec<Option<String>> = get(row, "rates")?;
    let resources: Vec<Option<String>> = get(row, "resources")?;
    let permits: Vec<Option<i64>> = get(row, "permits")?;
    let mut limits = Vec::new();
    for ((kind, rate), (resource, permits)) in
        kinds.into_iter().zip(rates).zip(resources.into_iter().zip(permits))
    {
        let permits = permits.and_then(|permits| u32::try_from(permits).ok());
        let resource = resource.zip(permits).map(|(resource, permits)| Permits { resource, permits });
        let rate = parse_rate(rate)?;
        if rate.is_some() || resource.is_some() {
            limits.push(KindLimits { kind: KindId(kind), rate, resource });
        }
    }
    limits.sort_by_key(|of| of.kind);
    Ok(limits)
}
