//! The floor query: what is due, when the next job is, what to stop.
//!
//! Owns one statement that alone keeps the engine correct when every wake-up is lost. Never writes.

use windlass_core::store::{Poll, QueueDue};
use windlass_core::{JobId, QueueId, StoreError, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{get, time, time_or_none};

/// Eleven index probes per queue. Suspects stand apart: they are due, but an ordinary claim does not take them. The
/// left join answers with the time even when there is no queue.
const POLL: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now)
    select n.now, q.id as queue, q.paused, coalesce(q.live_concurrency, q.concurrency) as concurrency,
           array(select x.job_id from windlass.cancels x
                 join windlass.claims c on c.worker = $2 and x.job_id = any (c.ids)) as cancel,
           (select min(r.run_at) from generate_series(0, 10) p, lateral (
                select r.run_at from windlass.ready r
                where r.queue = q.id and r.priority = p::smallint and r.suspect is null
                order by r.run_at, r.id limit 1) r) as next_due,
           exists (select from windlass.ready r
                   where r.queue = q.id and r.suspect is not null and r.run_at <= n.now) as suspect
    from n left join windlass.queues q on true";

impl PostgresStore {
    pub(crate) async fn look(&self, worker: WorkerId) -> Result<Poll, StoreError> {
        let rows = sqlx::query(self.sql(POLL))
            .bind(self.offset())
            .bind(worker.0)
            .fetch_all(&self.pool)
            .await
            .map_err(failed("poll"))?;
        let Some(first) = rows.first() else {
            return Err(StoreError::Corrupt { what: "the poll answered nothing".to_owned() });
        };
        let cancel: Vec<i64> = get(first, "cancel")?;
        let mut queues = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(queue) = get::<Option<i32>>(row, "queue")? else { continue };
            queues.push(QueueDue {
                queue: QueueId(queue),
                next_due: time_or_none(row, "next_due")?,
                suspect: get(row, "suspect")?,
                paused: get(row, "paused")?,
                concurrency: u32::try_from(get::<i32>(row, "concurrency")?).unwrap_or(0),
            });
        }
        Ok(Poll { now: time(first, "now")?, queues, cancel: cancel.into_iter().map(JobId).collect() })
    }
}
