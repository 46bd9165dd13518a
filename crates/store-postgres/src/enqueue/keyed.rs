//! Enqueueing jobs with idempotency or unique keys.
//!
//! Owns `idempotency`. What becomes of a job that meets another with its unique key is decided by
//! `windlass_core::unique`. A key is a row with a unique index: of two racing transactions the second waits for the
//! first, and takes the key if that rolls back.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;
use windlass_core::store::Enqueued;
use windlass_core::{Existing, JobId, KeyUse, Meeting, NewJob, RunAt, StoreError, UniqueUntil};

use super::{NO_JOB, OP, ROWS, ids_of};
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{get, time};
use crate::window::Wanted;

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

const WAITING: &str = "select array_agg(id) from windlass.ready where unique_key = $1";

/// The waiting job ends; its `run_at` is handed to the one that takes its place.
const REPLACE: &str = "
    with d as (delete from windlass.ready where id = $2 returning id, attempt, run_at, kind, lane, slot),
         k as (delete from windlass.cancels where job_id in (select id from d)),
         f as (insert into windlass.finished (id, state, attempt, finished_at)
               select id, {superseded}, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
    select id, run_at, lane, kind, slot from d";

/// A batch with keys, inside a transaction.
pub(crate) struct Keyed<'a> {
    pub(super) store: &'a PostgresStore,
    pub(super) conn: &'a mut PgConnection,
    pub(super) jobs: &'a [NewJob],
    /// The id each job gets if it is written.
    pub(super) ids: Vec<i64>,
    /// A time in the past is a place taken over.
    pub(super) exact: bool,
    pub(super) done: Vec<Option<Enqueued>>,
}

impl<'a> Keyed<'a> {
    pub(super) async fn new(
        store: &'a PostgresStore,
        conn: &'a mut PgConnection,
        jobs: &'a [NewJob],
    ) -> Result<Keyed<'a>, StoreError> {
        let ids = store.draw_ids(&mut *conn, jobs.len()).await?;
        Ok(Keyed { store, conn, jobs, ids, exact: false, done: vec![None; jobs.len()] })
    }

    pub(super) async fn run(mut self) -> Result<Vec<Enqueued>, StoreError> {
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
        let wanted = open.iter().filter_map(|n| Some((held_key(&self.jobs[*n])?, self.ids[*n]))).collect();
        let holders = self.store.take_unique_keys(&mut *self.conn, wanted).await?;
        self.meet_all(&mut open, held_key, &holders).await?;
        let wanted: Vec<Wanted<'_>> = open.iter().map(|n| (&self.jobs[*n], self.ids[*n])).collect();
        let holders = self.store.take_windows(&mut *self.conn, &wanted).await?;
        self.meet_all(&mut open, window_key, &holders).await?;
        for some in open.chunks(ROWS) {
            self.insert(some).await?;
        }
        for n in open {
            if self.done[n].is_none() {
                self.meet(n, None).await?;
            }
        }
        Ok(())
    }

    async fn meet_all(
        &mut self,
        open: &mut Vec<usize>,
        key: fn(&NewJob) -> Option<&str>,
        holders: &HashMap<String, JobId>,
    ) -> Result<(), StoreError> {
        for n in open.iter() {
            if let Some(holder) = key(&self.jobs[*n]).and_then(|key| holders.get(key)) {
                self.meet(*n, Some(*holder)).await?;
            }
        }
        open.retain(|n| self.done[*n].is_none());
        Ok(())
    }

    /// Job `n` met a job with its unique key: a waiting one, which another session may claim between two statements, or
    /// the `holder` of a key that lasts.
    async fn meet(&mut self, n: usize, holder: Option<JobId>) -> Result<(), StoreError> {
        let Some(unique) = &self.jobs[n].unique else { return Ok(()) };
        let mut job = self.jobs[n].clone();
        let mut exact = self.exact;
        while self.done[n].is_none() {
            let waiting = match holder {
                // Whether the holder still waits makes no difference.
                Some(_) if unique.meets(Existing::Waiting) != Meeting::Replace => None,
                _ => self.waiting_with(&unique.key).await?,
            };
            let existing = match waiting {
                Some(_) => Existing::Waiting,
                None => Existing::Claimed,
            };
            if let Some(id) = waiting.or(holder) {
                match unique.meets(existing) {
                    Meeting::Duplicate => return self.keep(n, id).await,
                    Meeting::Refuse => {
                        return Err(StoreError::UniqueRejected { key: unique.key.clone(), existing: id });
                    }
                    Meeting::Replace if self.replace(id, &mut job).await? => exact = true,
                    Meeting::Replace => continue,
                }
            }
            let query = self.store.bind_quiet(&[&job], &[self.ids[n]], exact);
            if !ids_of(query, &mut *self.conn).await?.is_empty() {
                self.take_over(n).await?;
                self.done[n] = Some(Enqueued { id: JobId(self.ids[n]), duplicate: false });
            }
        }
        Ok(())
    }

    async fn waiting_with(&mut self, key: &str) -> Result<Option<JobId>, StoreError> {
        let ids = ids_of(sqlx::query(self.store.sql(WAITING)).bind(key), &mut *self.conn).await?;
        Ok(ids.first().copied().map(JobId))
    }

    /// The keys of the replaced job are this job's now.
    async fn take_over(&mut self, n: usize) -> Result<(), StoreError> {
        if let Some(key) = held_key(&self.jobs[n]) {
            self.store.point_unique_key(&mut *self.conn, key, self.ids[n]).await?;
        }
        if let Some(key) = window_key(&self.jobs[n]) {
            self.store.point_window(&mut *self.conn, key, self.ids[n]).await?;
        }
        Ok(())
    }

    /// Finds which jobs of the batch are repeats. A key whose row vanishes between the two statements is tried again.
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
            .map(|row| Ok((get(row, "key")?, (get(row, "job_id")?, get(row, "fingerprint")?))))
            .collect()
    }

    /// Writes the jobs that meet no waiting job with their key.
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

    /// The job is a duplicate, and gives up the keys it took.
    async fn keep(&mut self, n: usize, existing: JobId) -> Result<(), StoreError> {
        if held_key(&self.jobs[n]).is_some() {
            self.store.free_keys(&mut *self.conn, vec![self.ids[n]]).await?;
        }
        if let Some(key) = window_key(&self.jobs[n]) {
            self.store.close_window(&mut *self.conn, key, self.ids[n], existing).await?;
        }
        if let Some(own) = &self.jobs[n].idempotency {
            let query = sqlx::query(self.store.sql(POINT_KEY)).bind(&own.key).bind(existing.0);
            query.execute(&mut *self.conn).await.map_err(failed(OP))?;
        }
        self.done[n] = Some(Enqueued { id: existing, duplicate: true });
        Ok(())
    }

    /// Ends a waiting job as superseded. `job` takes its time if that is earlier than its own.
    async fn replace(&mut self, waiting: JobId, job: &mut NewJob) -> Result<bool, StoreError> {
        let query = sqlx::query(self.store.sql(REPLACE)).bind(self.store.offset()).bind(waiting.0);
        let row = query.fetch_optional(&mut *self.conn).await.map_err(failed(OP))?;
        let Some(row) = row else { return Ok(false) };
        let replaced = time(&row, "run_at")?;
        self.store.release(&mut *self.conn, std::slice::from_ref(&row)).await?;
        let now = self.store.now_on(&mut *self.conn).await?;
        job.run_at = RunAt::At(job.run_at.from(now).min(replaced));
        Ok(true)
    }
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
