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
use windlass_core::{JobId, KeyUse, NewJob, OnConflict, QueueId, RunAt, StoreError, Time, TxRef};

use crate::PostgresStore;
use crate::error::{failed, is_conflict, is_id_taken, translate};
use crate::hint::BOTTOM;
use crate::row::{PgTime, delay_in, small_in, sparse, text_array, text_in};
use crate::tx;
use crate::window::Wanted;

/// One wake-up with the write itself, where the waker gives it one.
macro_rules! notify {
    ($channel:literal, $payload:literal) => {
        concat!(
            ", case when ",
            $payload,
            "::text is not null then pg_notify(",
            $channel,
            "::text, ",
            $payload,
            ") end"
        )
    };
}

/// A part of a statement that batches without lanes are spared.
macro_rules! laned {
    (true, $sql:expr) => {
        $sql
    };
    (false, $sql:expr) => {
        ""
    };
}

/// Ids: the millisecond above bit 22, a sequence below. Rows of one statement get theirs in input order. Jobs of a lane
/// go in line, and a claim is told to look there.
macro_rules! insert_jobs {
    ($laned:tt, $conflict:literal, $written:literal, $wake:expr) => {
        concat!(
            "with n as materialized (
                 select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
             i as materialized (
                 select u.*, n.now,
                        case when at is null and delay is null then n.now
                             when $17::boolean and at is not null then at
                             else greatest(n.now, coalesce(at, n.now + delay * interval '1 microsecond'))
                        end as run_at,
                        coalesce(given, (floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22)
                                        | (nextval('windlass.job_seq') & 4194303)) as id
                 from n, unnest($2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bytea[], $7::bigint[],
                             $8::bigint[], $9::timestamptz[], $10::bigint[], $11::text[], $12::text[], $13::text[],
                             $14::text[], $15::text[], $16::text[]",
            laned!($laned, ", $18::bigint[]"),
            ") with ordinality
                      u (kind, queue, priority, max_attempts, payload, timeout_us, given, at, delay, unique_key,
                         concurrency_key, tags, entity_type, entity_id, tenant",
            laned!($laned, ", lane"),
            ", n)),
             r as (
                 insert into windlass.ready (priority, run_at, id, kind, unique_key, queue",
            laned!($laned, ", lane"),
            ")
                 select priority, run_at, id, kind, unique_key, ",
            laned!($laned, "case when lane is null then 1 else -1 end * "),
            "queue",
            laned!($laned, ", lane"),
            " from i ",
            $conflict,
            "),
             j as (
                 insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, payload,
                                            unique_key, concurrency_key, tags, entity_type, entity_id, tenant",
            laned!($laned, ", lane"),
            ")
                 select id, kind, queue, priority, max_attempts, now, timeout_us, payload,
                        unique_key, concurrency_key, tags::text[], entity_type, entity_id, tenant",
            laned!($laned, ", lane"),
            "
                 from ",
            $written,
            ")",
            laned!(
                $laned,
                concat!(
                    ",
             o as (
                 insert into windlass.looks (kind, at, lane, freed)
                 select distinct kind, run_at, lane, false from ",
                    $written,
                    " where lane is not null)"
                )
            ),
            "
             select array_agg(id order by n)",
            $wake,
            " from ",
            $written
        )
    };
}

/// Jobs that have nothing but a kind and a payload, which is most: six arrays instead of fifteen, and one look at the
/// clock. Measured at a fifth more per second than the general statement.
const INSERT_SIMPLE: &str = concat!(
    "with n as materialized (
        select statement_timestamp() + $1::bigint * interval '1 microsecond' as now,
               floor(date_part('epoch', clock_timestamp()) * 1000)::bigint << 22 as ms),
    i as materialized (
        select u.*, n.now, n.ms | (nextval('windlass.job_seq') & 4194303) as id
        from n, unnest($2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bytea[], $7::bigint[]) with ordinality
             u (kind, queue, priority, max_attempts, payload, timeout_us, n)),
    r as (
        insert into windlass.ready (queue, priority, run_at, id, kind)
        select queue, priority, now, id, kind from i),
    j as (
        insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, timeout_us, payload)
        select id, kind, queue, priority, max_attempts, now, timeout_us, payload from i)
    select array_agg(id order by n)",
    notify!("$8", "$9"),
    " from i"
);

const PLAIN: [&str; 2] =
    [insert_jobs!(false, "", "i", notify!("$18", "$19")), insert_jobs!(true, "", "i", notify!("$19", "$20"))];

/// Sorted by key so that two batches with the same keys wait for each other in one direction only.
macro_rules! insert_keyed {
    ($laned:tt) => {
        insert_jobs!(
            $laned,
            "order by unique_key, n on conflict (unique_key) where unique_key is not null do nothing returning id",
            "(select * from i where i.id in (select r.id from r)) w",
            ""
        )
    };
}

const KEYED: [&str; 2] = [insert_keyed!(false), insert_keyed!(true)];

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
               select id, 7, attempt, statement_timestamp() + $1::bigint * interval '1 microsecond' from d)
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
    pub(crate) async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.announce_lanes(jobs).await?;
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

    pub(crate) async fn enqueue_in(
        &self,
        tx: TxRef<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        let conn = tx::connection(tx)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.announce_lanes(jobs).await?;
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
            false => self.bind_jobs(PLAIN, &refs, &[], false),
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

    /// `exact`: a time in the past is a place taken over from another job and stays. The second statement is for
    /// batches with lanes.
    fn bind_jobs<'q>(
        &self,
        [plain, laned]: [&'static str; 2],
        jobs: &[&'q NewJob],
        ids: &[i64],
        exact: bool,
    ) -> Query<'q, Postgres, PgArguments> {
        let lanes = sparse(all(jobs, |j| j.lane().map(|lane| lane.0)));
        let statement = if lanes.is_empty() { plain } else { laned };
        let query = self
            .bind_simple(statement, jobs)
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
            .bind(sparse(all(jobs, |j| j.concurrency_key.as_deref())))
            .bind(sparse(all(jobs, |j| {
                (!j.tags.is_empty()).then(|| text_array(j.tags.iter().map(String::as_str)))
            })))
            .bind(sparse(all(jobs, |j| j.entity.as_ref().map(|e| e.entity_type.as_str()))))
            .bind(sparse(all(jobs, |j| j.entity.as_ref().map(|e| e.entity_id.as_str()))))
            .bind(sparse(all(jobs, |j| j.tenant.as_deref().map(text_in))))
            .bind(exact);
        if lanes.is_empty() { query } else { query.bind(lanes) }
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
        && job.tenant.is_none()
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
        // A second job of the call in one window meets what became of the first.
        let mut windows = HashSet::new();
        let first = |n: &usize| window_key(&self.jobs[*n]).is_none_or(|key| windows.insert(key));
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
            let query = self.store.bind_jobs(KEYED, &[&job], &[self.ids[n]], true);
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
        let query = self.store.bind_jobs(KEYED, &jobs, &ids, self.exact);
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
            let query = self.store.bind_jobs(KEYED, &[&job], &[self.ids[n]], exact);
            if !ids_of(query, &mut *self.conn).await?.is_empty() {
                self.done[n] = Some(Enqueued { id: JobId(self.ids[n]), duplicate: false });
            }
        }
        Ok(())
    }

    async fn keep(&mut self, n: usize, twin: i64) -> Result<(), StoreError> {
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
