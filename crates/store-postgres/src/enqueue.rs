//! Putting jobs in: plain ones in one statement, keyed ones under their keys' protection.
//!
//! Owns `jobs`, the first row in `ready`, and `idempotency`; windows of unique keys are in `window`. Keys are unique rows: a racing loser waits for the
//! winner's transaction and takes over when that rolls back. Never leaves half a batch behind.

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use windlass_core::store::{Enqueued, Wake};
use windlass_core::time::micros;
use windlass_core::{
    JobId, KeyUse, NewJob, OnConflict, QueueId, RunAt, StoreError, Time, TxRef, UniqueUntil,
};

use crate::PostgresStore;
use crate::error::{failed, is_conflict, is_id_taken, translate};
use crate::hint::BOTTOM;
use crate::row::{PgTime, delay_in, small_in, sparse, text_array};
use crate::tx;
use crate::window::Wanted;

const INSERT_SIMPLE: &str = include_str!("statements/insert_simple.sql");
const INSERT: &str = include_str!("statements/insert_jobs.sql");

const NEW_IDS: &str = "
    select array_agg((floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22)
                     | (nextval('windlass.job_seq') & 4194303))
    from generate_series(1, $1::int)";

const TAKE_KEYS: &str = "
    with taken as (
        insert into windlass.idempotency (key, job_id, fingerprint, created_at)
        select key, job_id, fingerprint, statement_timestamp() + $1::bigint * interval '1 microsecond'
        from unnest($2::text[], $3::bigint[], $4::bytea[]) with ordinality u (key, job_id, fingerprint, n)
        order by key, n
        on conflict (key) do nothing
        returning job_id)
    select array_agg(job_id) from taken";

const READ_KEYS: &str = "select key, job_id, fingerprint from windlass.idempotency where key = any($1)";
const POINT_KEY: &str = "update windlass.idempotency set job_id = $2 where key = $1";
const TWIN: &str = "select array_agg(id) from windlass.ready where unique_key = $1";

/// The waiting job ends; its `run_at` is handed to the one that takes its place.
const REPLACE: &str = "
    with d as (delete from windlass.ready where id = $2 returning id, attempt, run_at, kind, lane, slot),
         k as (delete from windlass.cancels where job_id in (select id from d)),
         f as (insert into windlass.finished (id, state, attempt, finished_at)
               select id, {superseded}, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
    select id, run_at, lane, kind, slot from d";

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

/// The key that the job holds until it has ended.
fn held_key(job: &NewJob) -> Option<&str> {
    job.unique
        .as_ref()
        .filter(|unique| unique.until == UniqueUntil::Finished)
        .map(|unique| unique.key.as_str())
}

/// A key that outlasts the start of its job.
fn lasting_key(job: &NewJob) -> Option<&str> {
    held_key(job).or_else(|| window_key(job))
}

fn window_key(job: &NewJob) -> Option<&str> {
    job.unique.as_ref().filter(|unique| unique.window.is_some()).map(|unique| unique.key.as_str())
}

/// A batch with keys, inside a transaction.
struct Keyed<'a> {
    store: &'a PostgresStore,
    conn: &'a mut PgConnection,
    jobs: &'a [NewJob],
    /// The id each job gets if it is written.
    ids: Vec<i64>,
    /// A time in the past is a place taken over.
    exact: bool,
    done: Vec<Option<Enqueued>>,
}

impl<'a> Keyed<'a> {
    async fn new(
        store: &'a PostgresStore,
        conn: &'a mut PgConnection,
        jobs: &'a [NewJob],
    ) -> Result<Keyed<'a>, StoreError> {
        let ids = store.draw_ids(&mut *conn, jobs.len()).await?;
        Ok(Keyed { store, conn, jobs, ids, exact: false, done: vec![None; jobs.len()] })
    }

    async fn run(mut self) -> Result<Vec<Enqueued>, StoreError> {
        self.take_idempotency_keys().await?;
        let open: Vec<usize> = (0..self.jobs.len()).filter(|n| self.done[*n].is_none()).collect();
        // A second job of the call with the same lasting key meets what became of the first.
        let mut keys = HashSet::new();
        let first = |n: &usize| lasting_key(&self.jobs[*n]).is_none_or(|key| keys.insert(key));
        let (first, again): (Vec<usize>, Vec<usize>) = open.into_iter().partition(first);
        self.admit(first).await?;
        for n in again {
            self.admit(vec![n]).await?;
        }
        let lost =
            || StoreError::Corrupt { what: "a job of the batch was neither written nor found".to_owned() };
        self.done.into_iter().map(|d| d.ok_or_else(lost)).collect()
    }

    async fn admit(&mut self, mut open: Vec<usize>) -> Result<(), StoreError> {
        self.meet_holders(&open).await?;
        open.retain(|n| self.done[*n].is_none());
        self.meet_windows(&open).await?;
        open.retain(|n| self.done[*n].is_none());
        for some in open.chunks(ROWS) {
            self.insert(some).await?;
        }
        for n in open {
            if self.done[n].is_none() {
                self.meet_twin(n).await?;
            }
        }
        Ok(())
    }

    /// Decides about jobs whose key another job holds until it has ended: all but those that replace a holder that still waits
    /// are its duplicates.
    async fn meet_holders(&mut self, open: &[usize]) -> Result<(), StoreError> {
        let wanted = open.iter().filter_map(|n| Some((held_key(&self.jobs[*n])?, self.ids[*n]))).collect();
        let holders = self.store.take_unique_keys(&mut *self.conn, wanted).await?;
        for n in open {
            let Some(key) = held_key(&self.jobs[*n]) else { continue };
            let Some(holder) = holders.get(key) else { continue };
            match self.jobs[*n].unique.as_ref().map(|unique| unique.on_conflict) {
                Some(OnConflict::Reject) => {
                    return Err(StoreError::UniqueRejected { key: key.to_owned(), existing: *holder });
                }
                Some(OnConflict::Replace) => self.replace_holder(*n, key, *holder).await?,
                _ => self.keep(*n, holder.0).await?,
            }
        }
        Ok(())
    }

    /// The job takes the place of a holder that waits, or is a duplicate of one that runs.
    async fn replace_holder(&mut self, n: usize, key: &str, holder: JobId) -> Result<(), StoreError> {
        let mut job = self.jobs[n].clone();
        if !self.replace(holder.0, &mut job).await? {
            return self.keep(n, holder.0).await;
        }
        let query = self.store.bind_quiet(&[&job], &[self.ids[n]], true);
        if ids_of(query, &mut *self.conn).await?.is_empty() {
            let what = format!("unique key `{key}` has two waiting jobs");
            return Err(StoreError::Corrupt { what });
        }
        self.store.point_unique_key(&mut *self.conn, key, self.ids[n]).await?;
        self.done[n] = Some(Enqueued { id: JobId(self.ids[n]), duplicate: false });
        Ok(())
    }

    /// Ends the way of jobs whose key is in a window that lasts: all but those that replace a job which still waits.
    async fn meet_windows(&mut self, open: &[usize]) -> Result<(), StoreError> {
        let wanted: Vec<Wanted<'_>> = open
            .iter()
            .filter(|n| window_key(&self.jobs[**n]).is_some())
            .map(|n| (&self.jobs[*n], self.ids[*n]))
            .collect();
        let lasting = self.store.take_windows(&mut *self.conn, &wanted).await?;
        for n in open {
            let Some(unique) = self.jobs[*n].unique.as_ref().filter(|unique| unique.window.is_some()) else {
                continue;
            };
            let Some(existing) = lasting.get(&unique.key) else { continue };
            match unique.on_conflict {
                OnConflict::Keep => self.keep(*n, existing.0).await?,
                OnConflict::Reject => {
                    return Err(StoreError::UniqueRejected { key: unique.key.clone(), existing: *existing });
                }
                OnConflict::Replace => self.replace_in_window(*n, &unique.key, *existing).await?,
            }
        }
        Ok(())
    }

    /// The job takes the place of the one that waits, or is a duplicate of the one that no longer does.
    async fn replace_in_window(&mut self, n: usize, key: &str, existing: JobId) -> Result<(), StoreError> {
        let mut job = self.jobs[n].clone();
        while self.done[n].is_none() {
            let twin = ids_of(sqlx::query(self.store.sql(TWIN)).bind(key), &mut *self.conn).await?;
            let Some(twin) = twin.first().copied() else { return self.keep(n, existing.0).await };
            if !self.replace(twin, &mut job).await? {
                continue;
            }
            let query = self.store.bind_quiet(&[&job], &[self.ids[n]], true);
            if !ids_of(query, &mut *self.conn).await?.is_empty() {
                self.store.point_window(&mut *self.conn, key, self.ids[n]).await?;
                self.done[n] = Some(Enqueued { id: JobId(self.ids[n]), duplicate: false });
            }
        }
        Ok(())
    }

    /// Settles which jobs of the batch are repeats. A key whose row vanishes between the two looks is tried again.
    async fn take_idempotency_keys(&mut self) -> Result<(), StoreError> {
        let mut open: Vec<usize> =
            (0..self.jobs.len()).filter(|n| self.jobs[*n].idempotency.is_some()).collect();
        while !open.is_empty() {
            let taken = self.try_keys(&open).await?;
            open.retain(|n| !taken.contains(&self.ids[*n]));
            let known = self.read_keys(&open).await?;
            let mut still = Vec::new();
            for n in open {
                let Some(own) = &self.jobs[n].idempotency else { continue };
                match known.get(&own.key) {
                    None => still.push(n),
                    Some((id, print)) if *print == own.fingerprint => {
                        self.done[n] = Some(Enqueued { id: JobId(*id), duplicate: true });
                    }
                    Some((id, _)) => {
                        let existing = if *id == NO_JOB.0 { KeyUse::Entity } else { KeyUse::Job(JobId(*id)) };
                        return Err(StoreError::IdempotencyMismatch { key: own.key.clone(), existing });
                    }
                }
            }
            open = still;
        }
        Ok(())
    }

    async fn try_keys(&mut self, open: &[usize]) -> Result<HashSet<i64>, StoreError> {
        let own = |n: &usize| self.jobs[*n].idempotency.as_ref();
        let query = sqlx::query(self.store.sql(TAKE_KEYS))
            .bind(self.store.offset())
            .bind(open.iter().filter_map(own).map(|i| i.key.as_str()).collect::<Vec<_>>())
            .bind(open.iter().map(|n| self.ids[*n]).collect::<Vec<_>>())
            .bind(open.iter().filter_map(own).map(|i| i.fingerprint.as_slice()).collect::<Vec<_>>());
        Ok(ids_of(query, &mut *self.conn).await?.into_iter().collect())
    }

    async fn read_keys(&mut self, open: &[usize]) -> Result<HashMap<String, (i64, Vec<u8>)>, StoreError> {
        if open.is_empty() {
            return Ok(HashMap::new());
        }
        let keys: Vec<&str> =
            open.iter().filter_map(|n| self.jobs[*n].idempotency.as_ref()).map(|i| i.key.as_str()).collect();
        let rows = sqlx::query(self.store.sql(READ_KEYS))
            .bind(keys)
            .fetch_all(&mut *self.conn)
            .await
            .map_err(failed(OP))?;
        rows.iter()
            .map(|row| {
                use crate::row::get;
                Ok((get(row, "key")?, (get(row, "job_id")?, get(row, "fingerprint")?)))
            })
            .collect()
    }

    /// Writes what meets no waiting twin.
    async fn insert(&mut self, some: &[usize]) -> Result<(), StoreError> {
        let jobs: Vec<&NewJob> = some.iter().map(|n| &self.jobs[*n]).collect();
        let ids: Vec<i64> = some.iter().map(|n| self.ids[*n]).collect();
        let query = self.store.bind_quiet(&jobs, &ids, self.exact);
        let written: HashSet<i64> = ids_of(query, &mut *self.conn).await?.into_iter().collect();
        for n in some {
            if written.contains(&self.ids[*n]) {
                self.done[*n] = Some(Enqueued { id: JobId(self.ids[*n]), duplicate: false });
            }
        }
        Ok(())
    }

    /// Job `n` met a waiting job with its unique key, which may be claimed or gone at each further look.
    async fn meet_twin(&mut self, n: usize) -> Result<(), StoreError> {
        let Some(unique) = &self.jobs[n].unique else { return Ok(()) };
        let mut job = self.jobs[n].clone();
        let mut exact = self.exact;
        while self.done[n].is_none() {
            let twin = ids_of(sqlx::query(self.store.sql(TWIN)).bind(&unique.key), &mut *self.conn).await?;
            if let Some(twin) = twin.first().copied() {
                match unique.on_conflict {
                    OnConflict::Keep => {
                        if unique.window.is_some() {
                            self.store.close_window(&mut *self.conn, &unique.key, twin).await?;
                        }
                        return self.keep(n, twin).await;
                    }
                    OnConflict::Reject => {
                        let (key, existing) = (unique.key.clone(), JobId(twin));
                        return Err(StoreError::UniqueRejected { key, existing });
                    }
                    OnConflict::Replace => exact |= self.replace(twin, &mut job).await?,
                }
            }
            let query = self.store.bind_quiet(&[&job], &[self.ids[n]], exact);
            if !ids_of(query, &mut *self.conn).await?.is_empty() {
                self.done[n] = Some(Enqueued { id: JobId(self.ids[n]), duplicate: false });
            }
        }
        Ok(())
    }

    /// The job is a duplicate of `twin`, and gives up what it took for itself.
    async fn keep(&mut self, n: usize, twin: i64) -> Result<(), StoreError> {
        if held_key(&self.jobs[n]).is_some() {
            self.store.free_keys(&mut *self.conn, vec![self.ids[n]]).await?;
        }
        if let Some(own) = &self.jobs[n].idempotency {
            sqlx::query(self.store.sql(POINT_KEY))
                .bind(&own.key)
                .bind(twin)
                .execute(&mut *self.conn)
                .await
                .map_err(failed(OP))?;
        }
        self.done[n] = Some(Enqueued { id: JobId(twin), duplicate: true });
        Ok(())
    }

    /// Ends the twin as superseded; `job` takes its time if that is earlier than its own.
    async fn replace(&mut self, twin: i64, job: &mut NewJob) -> Result<bool, StoreError> {
        let row = sqlx::query(self.store.sql(REPLACE))
            .bind(self.store.offset())
            .bind(twin)
            .fetch_optional(&mut *self.conn)
            .await
            .map_err(failed(OP))?;
        let Some(row) = row else { return Ok(false) };
        let stood = crate::row::time(&row, "run_at")?;
        self.store.release(&mut *self.conn, std::slice::from_ref(&row)).await?;
        let now = self.store.now_on(&mut *self.conn).await?;
        let wanted = match job.run_at {
            RunAt::Now => now,
            RunAt::In(delay) => now.plus(delay),
            RunAt::At(time) => time.max(now),
        };
        job.run_at = RunAt::At(wanted.min(stood));
        Ok(true)
    }
}
