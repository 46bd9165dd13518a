//! Enqueueing jobs: plain ones in one statement, those with keys in `keyed`.
//!
//! Owns `jobs` and the first row in `ready`. Never leaves half a batch behind.

mod keyed;

use std::collections::BTreeSet;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use windlass_core::store::{Enqueued, Wake};
use windlass_core::time::micros;
use windlass_core::{JobId, NewJob, OnConflict, QueueId, RunAt, StoreError, Time, TxRef};

use self::keyed::Keyed;
use crate::PostgresStore;
use crate::error::{failed, is_conflict, is_id_taken, translate};
use crate::hint::BOTTOM;
use crate::row::{PgTime, delay_in, small_in, sparse, text_array};
use crate::tx;

const INSERT_SIMPLE: &str = include_str!("../statements/insert_simple.sql");
const INSERT: &str = include_str!("../statements/insert_jobs.sql");

const NEW_IDS: &str = "
    select array_agg((floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22)
                     | (nextval('windlass.job_seq') & 4194303))
    from generate_series(1, $1::int)";

const NOTIFY: &str = "
    select pg_notify($1, '0' || string_agg(
        ' ' || q || ':'
        || least((extract(epoch from statement_timestamp()) * 1e6)::bigint + $3::bigint - 1000000, $4::bigint), ''))
    from unnest($2::int[]) q";

/// In the row of a key that an entity's write took.
pub(crate) const NO_JOB: JobId = JobId(0);

const OP: &str = "enqueue";
/// Rows of one statement; more gain nothing and hold more memory on the server.
const ROWS: usize = 5_000;
/// More queues than this in one transaction, and its notification just says `any`.
const MAX_NOTIFIED: usize = 200;
const TRIES: usize = 5;

impl PostgresStore {
    pub(crate) async fn do_enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let stands = stands(jobs);
        let places: Vec<(QueueId, Time)> = queues(jobs).into_iter().map(|q| (q, stands)).collect();
        let mut tries = 0;
        loop {
            let wake = self.waker.turn(places.iter().copied());
            match self.enqueue_once(jobs, wake.as_deref()).await {
                Err(error) if (is_conflict(&error) || is_id_taken(&error)) && tries < TRIES => tries += 1,
                Err(error) => return Err(error),
                Ok(done) => {
                    let wake_here =
                        if jobs.iter().all(|job| job.run_at == RunAt::Now) { Wake::Due } else { Wake::Queue };
                    self.waker.here(wake_here, places.iter().copied());
                    if wake.is_none() {
                        self.waker.others(places);
                    }
                    return Ok(done);
                }
            }
        }
    }

    /// With `wake` the write notifies others itself.
    async fn enqueue_once(&self, jobs: &[NewJob], wake: Option<&str>) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.len() <= ROWS && jobs.iter().all(NewJob::is_plain) {
            let mut session = self.pool.session().await.map_err(failed(OP))?;
            let done = self.enqueue_plain(&mut session, jobs, wake).await?;
            session.commit().await.map_err(failed(OP))?;
            return Ok(done);
        }
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let done = self.enqueue_on(&mut tx, jobs).await?;
        if let Some(payload) = wake {
            let query = sqlx::query("select pg_notify($1, $2)").bind(&self.waker.channel).bind(payload);
            query.execute(&mut *tx).await.map_err(failed(OP))?;
        }
        tx.commit().await.map_err(failed(OP))?;
        Ok(done)
    }

    pub(crate) async fn do_enqueue_in(
        &self,
        tx: TxRef<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        let conn = tx::connection(tx)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        tx::savepoint(conn).await?;
        match self.enqueue_on(conn, jobs).await {
            Ok(done) => {
                self.notify_in(conn, &queues(jobs), stands(jobs)).await?;
                tx::release(conn).await?;
                Ok(done)
            }
            Err(error) => {
                tx::undo(conn).await?;
                Err(error)
            }
        }
    }

    pub(crate) async fn enqueue_on(
        &self,
        conn: &mut PgConnection,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        if !jobs.iter().all(NewJob::is_plain) {
            return Keyed::new(self, conn, jobs).await?.run().await;
        }
        let mut done = Vec::with_capacity(jobs.len());
        for some in jobs.chunks(ROWS) {
            done.extend(self.enqueue_plain(conn, some, None).await?);
        }
        Ok(done)
    }

    /// Ids for jobs that are about to be written, ascending.
    pub(crate) async fn draw_ids(
        &self,
        conn: &mut PgConnection,
        count: usize,
    ) -> Result<Vec<i64>, StoreError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let mut ids = ids_of(sqlx::query(self.sql(NEW_IDS)).bind(count), conn).await?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// Writes keyed jobs under ids drawn before. `RunAt::At` is kept even where it has passed.
    pub(crate) async fn enqueue_drawn(
        &self,
        conn: &mut PgConnection,
        jobs: &[NewJob],
        ids: Vec<i64>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        let done = vec![None; jobs.len()];
        Keyed { store: self, conn, jobs, ids, exact: true, done }.run().await
    }

    async fn enqueue_plain(
        &self,
        conn: &mut PgConnection,
        jobs: &[NewJob],
        wake: Option<&str>,
    ) -> Result<Vec<Enqueued>, StoreError> {
        let refs: Vec<&NewJob> = jobs.iter().collect();
        let query = match refs.iter().all(|job| is_simple(job)) {
            true => self.bind_simple(INSERT_SIMPLE, &refs),
            false => self.bind_jobs(&refs, &[], false),
        };
        let query = query.bind(&self.waker.channel).bind(wake);
        let ids = ids_of(query, conn).await?;
        if ids.len() != jobs.len() {
            return Err(StoreError::Corrupt { what: format!("{} ids for {} jobs", ids.len(), jobs.len()) });
        }
        Ok(ids.into_iter().map(|id| Enqueued { id: JobId(id), duplicate: false }).collect())
    }

    /// Tells every process, this one included, when the caller commits. `stands` is as for [`stands`].
    pub(crate) async fn notify_in(
        &self,
        conn: &mut PgConnection,
        queues: &BTreeSet<QueueId>,
        stands: Time,
    ) -> Result<(), StoreError> {
        if !self.waker.is_on() || queues.is_empty() {
            return Ok(());
        }
        let queues: Vec<i32> = queues.iter().map(|q| q.0).collect();
        let query = if queues.len() > MAX_NOTIFIED {
            sqlx::query::<Postgres>("select pg_notify($1, '0 any')").bind(&self.waker.channel)
        } else {
            sqlx::query(NOTIFY).bind(&self.waker.channel).bind(queues).bind(self.offset()).bind(stands.0)
        };
        query.execute(conn).await.map_err(failed(OP))?;
        Ok(())
    }

    fn bind_simple<'q>(
        &self,
        statement: &'static str,
        jobs: &[&'q NewJob],
    ) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(self.sql(statement))
            .bind(self.offset())
            .bind(all(jobs, |j| j.kind.0))
            .bind(all(jobs, |j| j.queue.0))
            .bind(all(jobs, |j| i16::from(j.priority)))
            .bind(all(jobs, |j| small_in(j.max_attempts)))
            .bind(all(jobs, |j| j.payload.as_slice()))
            .bind(sparse(all(jobs, |j| j.timeout.map(micros))))
    }

    /// `exact`: a time in the past is a place taken over from another job, and stays. Wants the wake-up bound after it.
    fn bind_jobs<'q>(
        &self,
        jobs: &[&'q NewJob],
        ids: &[i64],
        exact: bool,
    ) -> Query<'q, Postgres, PgArguments> {
        self.bind_simple(INSERT, jobs)
            .bind(ids.to_vec())
            .bind(sparse(all(jobs, |j| match j.run_at {
                RunAt::At(time) => Some(PgTime(time)),
                _ => None,
            })))
            .bind(sparse(all(jobs, |j| match j.run_at {
                RunAt::In(delay) => Some(delay_in(delay)),
                _ => None,
            })))
            .bind(sparse(all(jobs, |j| j.unique.as_ref().map(|u| u.key.as_str()))))
            .bind(sparse(all(jobs, |j| j.unique.as_ref().map(|u| u.until.name()))))
            .bind(sparse(all(jobs, |j| j.concurrency_key.as_deref())))
            .bind(sparse(all(jobs, |j| j.lane().map(|lane| lane.0))))
            .bind(sparse(all(jobs, |j| {
                (!j.tags.is_empty()).then(|| text_array(j.tags.iter().map(String::as_str)))
            })))
            .bind(sparse(all(jobs, |j| j.entity.as_ref().map(|e| e.entity_type.as_str()))))
            .bind(sparse(all(jobs, |j| j.entity.as_ref().map(|e| e.entity_id.as_str()))))
            .bind(exact)
    }
}

impl PostgresStore {
    /// Without a wake-up: the caller sends one for the whole batch.
    fn bind_quiet<'q>(
        &self,
        jobs: &[&'q NewJob],
        ids: &[i64],
        exact: bool,
    ) -> Query<'q, Postgres, PgArguments> {
        self.bind_jobs(jobs, ids, exact).bind(None::<String>).bind(None::<String>)
    }
}

async fn ids_of(
    query: Query<'_, Postgres, PgArguments>,
    conn: &mut PgConnection,
) -> Result<Vec<i64>, StoreError> {
    // One array instead of thousands of rows: reading those cost more than writing the jobs.
    let row = query.fetch_one(conn).await.map_err(failed(OP))?;
    let ids: Option<Vec<i64>> = row.try_get(0).map_err(|e| translate(OP, e))?;
    Ok(ids.unwrap_or_default())
}

fn all<'q, T>(jobs: &[&'q NewJob], f: impl Fn(&'q NewJob) -> T) -> Vec<T> {
    jobs.iter().map(|j| f(j)).collect()
}

fn is_simple(job: &NewJob) -> bool {
    job.is_plain()
        && job.run_at == RunAt::Now
        && job.concurrency_key.is_none()
        && job.tags.is_empty()
        && job.entity.is_none()
}

/// No job of the batch stands before this. A statement's time is moments ago, so no hint stands above it, unless a
/// place was taken over.
pub(crate) fn stands(jobs: &[NewJob]) -> Time {
    let replaces = |j: &NewJob| j.unique.as_ref().is_some_and(|u| u.on_conflict == OnConflict::Replace);
    if jobs.iter().any(replaces) { BOTTOM } else { Time(i64::MAX) }
}

pub(crate) fn queues(jobs: &[NewJob]) -> BTreeSet<QueueId> {
    jobs.iter().map(|j| j.queue).collect()
}
