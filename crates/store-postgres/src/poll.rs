//! The floor query: what is due, when the next job is, what to stop.
//!
//! Owns one statement that alone keeps the engine correct when every wake-up is lost. Never writes.

use std::time::Instant;

use sqlx::postgres::PgRow;
use windlass_core::store::{Poll, QueueDue, QueueKinds};
use windlass_core::{JobId, QueueId, StoreError, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, get, time, time_or_none};

/// Eleven index probes per queue, each from where the hints say. Suspects stand apart: they are due, but an ordinary
/// claim does not take them. The left join answers with the time even when no queue was asked about.
const POLL: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    select n.now, q.id as queue, q.paused, coalesce(q.live_concurrency, q.concurrency) as concurrency,
           case when exists (select from windlass.cancels) then array(
                select x.job_id from windlass.cancels x
                join windlass.claims c on c.worker = $2 and x.job_id = any (c.ids)) else '{}' end as cancel,
           (select min(r.run_at)
            from unnest($4::int[], $5::smallint[], $6::timestamptz[]) p (queue, lane, low), lateral (
                select r.run_at from windlass.ready r
                where r.queue = p.queue and r.priority = p.lane and r.run_at >= p.low and r.suspect is null
                  and r.kind = any ($7::int[])
                order by r.run_at, r.id limit 1) r
            where p.queue = q.id) as next_due,
           exists (select from windlass.ready r
                   where r.queue = q.id and r.suspect is not null and r.run_at <= n.now
                     and r.kind = any ($7::int[])) as suspect
    from n left join windlass.queues q on q.id = any ($3::int[])";

impl PostgresStore {
    pub(crate) async fn poll(&self, worker: WorkerId, served: &[QueueKinds]) -> Result<Poll, StoreError> {
        let (mut queues, mut lanes, mut lows) = (Vec::new(), Vec::new(), Vec::new());
        let begun = Instant::now();
        let mut from_bottom = Vec::new();
        for of @ QueueKinds { queue, kinds } in served {
            let (low, full) = self.hints.start_poll(*queue, kinds, begun);
            from_bottom.extend(full.then_some(of));
            for (lane, low) in low.into_iter().enumerate() {
                queues.push(queue.0);
                lanes.push(lane as i16);
                lows.push(PgTime(low));
            }
        }
        let rows = sqlx::query(self.sql(POLL))
            .bind(self.offset())
            .bind(worker.0)
            .bind(served.iter().map(|s| s.queue.0).collect::<Vec<_>>())
            .bind(queues)
            .bind(lanes)
            .bind(lows)
            .bind(served.iter().flat_map(|s| s.kinds.iter().map(|k| k.0)).collect::<Vec<_>>())
            .fetch_all(&self.pool)
            .await
            .map_err(failed("poll"))?;
        let ended = Instant::now();
        for QueueKinds { queue, kinds } in from_bottom {
            self.hints.end_poll(*queue, kinds, begun, ended);
        }
        self.read_poll(&rows)
    }

    fn read_poll(&self, rows: &[PgRow]) -> Result<Poll, StoreError> {
        let Some(first) = rows.first() else {
            return Err(StoreError::Corrupt { what: "the poll answered nothing".to_owned() });
        };
        let cancel: Vec<i64> = get(first, "cancel")?;
        let mut queues = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(queue) = get::<Option<i32>>(row, "queue")? else { continue };
            let next_due = time_or_none(row, "next_due")?;
            if let Some(due) = next_due {
                // Found below the hints, it would be announced and never claimed.
                self.hints.lower(QueueId(queue), due);
            }
            queues.push(QueueDue {
                queue: QueueId(queue),
                next_due,
                suspect: get(row, "suspect")?,
                paused: get(row, "paused")?,
                concurrency: u32::try_from(get::<i32>(row, "concurrency")?).unwrap_or(0),
            });
        }
        Ok(Poll { now: time(first, "now")?, queues, cancel: cancel.into_iter().map(JobId).collect() })
    }
}
