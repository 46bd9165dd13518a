//! The tick: a compare-and-set of a schedule's last tick, together with the jobs it enqueues.

use std::collections::HashSet;

use sqlx::{PgConnection, Row};
use windlass_core::store::{Tick, Wake};
use windlass_core::{NewJob, QueueId, StoreError, Time};

use super::TRIES;
use crate::PostgresStore;
use crate::enqueue::{queues, stands};
use crate::error::{failed, is_conflict, is_id_taken, translate};
use crate::row::{PgTime, big_in};

/// Differs from SQLite, where other processes wait: here a schedule that another process is ticking is skipped. The
/// lock inside the lateral query forces an index lookup per name, whatever the planner assumes about the arrays.
const ADVANCE: &str = "
    with t as materialized (
        select * from unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
                             $6::bigint[]) with ordinality t (name, revision, was, last_tick, next_at, missed, n)),
    mine as materialized (
        select t.n, s.name from t cross join lateral (
            select s.name from windlass.schedules s
            where s.name = t.name and s.revision = t.revision and s.last_tick = t.was and not s.paused
            for update skip locked) s),
    moved as (
        update windlass.schedules s
        set last_tick = t.last_tick, next_at = t.next_at, missed = s.missed + t.missed
        from mine join t using (n)
        where s.name = mine.name
        returning n)
    select array_agg(n) from moved";

const OP: &str = "tick";

impl PostgresStore {
    pub(super) async fn tick_schedules(&self, ticks: &[Tick]) -> Result<Vec<bool>, StoreError> {
        if ticks.is_empty() {
            return Ok(Vec::new());
        }
        let mut tries = 0;
        loop {
            match self.tick_once(ticks).await {
                Err(error) if (is_conflict(&error) || is_id_taken(&error)) && tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    async fn tick_once(&self, ticks: &[Tick]) -> Result<Vec<bool>, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let moved = self.advance(&mut tx, ticks).await?;
        let won = |(tick, moved): (&Tick, &bool)| if *moved { tick.jobs.clone() } else { Vec::new() };
        let jobs: Vec<NewJob> = ticks.iter().zip(&moved).flat_map(won).collect();
        let earliest = stands(&jobs);
        let places: Vec<(QueueId, Time)> = queues(&jobs).into_iter().map(|queue| (queue, earliest)).collect();
        let mut wake = None;
        if !jobs.is_empty() {
            self.enqueue_on(&mut tx, &jobs).await?;
            wake = self.waker.turn(places.iter().copied());
        }
        if let Some(payload) = &wake {
            let query = sqlx::query("select pg_notify($1, $2)").bind(&self.waker.channel).bind(payload);
            query.execute(&mut *tx).await.map_err(failed(OP))?;
        }
        tx.commit().await.map_err(failed(OP))?;
        match wake {
            Some(_) => self.waker.here(Wake::Queue, places),
            None if places.is_empty() => {}
            None => self.waker.jobs(places),
        }
        Ok(moved)
    }

    async fn advance(&self, conn: &mut PgConnection, ticks: &[Tick]) -> Result<Vec<bool>, StoreError> {
        let times = |of: fn(&Tick) -> Time| ticks.iter().map(|tick| PgTime(of(tick))).collect::<Vec<_>>();
        let row = sqlx::query(self.sql(ADVANCE))
            .bind(ticks.iter().map(|tick| tick.name.as_str()).collect::<Vec<_>>())
            .bind(ticks.iter().map(|tick| tick.revision).collect::<Vec<_>>())
            .bind(times(|tick| tick.from))
            .bind(times(|tick| tick.last_tick))
            .bind(ticks.iter().map(|tick| tick.next_at.map(PgTime)).collect::<Vec<_>>())
            .bind(ticks.iter().map(|tick| big_in(tick.missed)).collect::<Vec<_>>())
            .fetch_one(conn)
            .await
            .map_err(failed(OP))?;
        let moved: Option<Vec<i64>> = row.try_get(0).map_err(|error| translate(OP, error))?;
        let moved: HashSet<i64> = moved.unwrap_or_default().into_iter().collect();
        Ok((1..).take(ticks.len()).map(|n| moved.contains(&n)).collect())
    }
}
