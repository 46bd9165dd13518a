//! Taking back the leases of a dead or retiring worker.
//!
//! Owns the removal of a worker's row and of its claims. The row goes first: claims lock it, so none can be added
//! after. `windlass_core::sweep` decides what a lost lease means. Never touches a worker that sent a heartbeat since
//! it was examined.

use std::time::Duration;

use sqlx::PgConnection;
use windlass_core::end::Ended;
use windlass_core::store::{DeadLetter, Reclaimed};
use windlass_core::sweep::{Death, Lost, LostLease, Suspicion, lost};
use windlass_core::{JobId, JobState, KindId, QueueId, StoreError, Time, Token, WorkerId};

use crate::PostgresStore;
use crate::end::EndLocks;
use crate::error::failed;
use crate::row::{PgTime, delay_in, get, level, small, small_in, sparse, time};

const DROP_SILENT: &str = "delete from windlass.workers where id = $1 and beats = $2";
const DROP: &str = "delete from windlass.workers where id = $1";

/// $2 are tokens whose leases stay.
const PEEK: &str = "select token, ids from windlass.claims where worker = $1 and token <> all ($2)";

/// Here and below, $2 are the tokens that are taken back.
const LOCK: &str =
    "select token from windlass.claims where worker = $1 and token = any ($2) order by token for update";

const LEASES: &str = "
    select i.id, i.run_at, i.slot, c.token, c.attempt, c.suspicion, c.alone, c.claimed_at,
           j.queue, j.kind, j.lane, x.job_id is not null as cancel, k.at_most_once
    from windlass.claims c cross join unnest(c.ids, c.run_ats, c.slots) i (id, run_at, slot)
    join windlass.jobs j on j.id = i.id
    join windlass.kinds k on k.id = j.kind
    left join windlass.cancels x on x.job_id = i.id
    where c.worker = $1 and c.token = any ($2)";

const FORGET: &str = "delete from windlass.claims where worker = $1 and token = any ($2)";

/// `ended` null returns the job to its old place in the queue; it keeps its slot. Returns that place, and the jobs
/// that were superseded because their unique key is held by a waiting job.
const WRITE: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    u as materialized (
        select * from unnest($3::bigint[], $4::bigint[], $5::smallint[], $6::timestamptz[], $7::smallint[],
                             $8::smallint[], $9::smallint[], $10::text[], $12::timestamptz[], $13::bigint[],
                             $14::int[], $15::smallint[], $16::bigint[])
            u (id, token, attempt, claimed_at, ended, used, suspicion, error, place, lane, kind, slot, delay)),
    r as (
        insert into windlass.ready (queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane, slot)
        select j.queue, j.priority, coalesce(n.now + u.delay * interval '1 microsecond', u.place), u.id, j.kind, u.used,
               u.suspicion, j.unique_key, u.lane, u.slot
        from n, u join windlass.jobs j on j.id = u.id where u.ended is null
        order by j.unique_key, u.id
        on conflict (unique_key) where unique_key is not null do nothing
        returning id),
    e as materialized (
        select u.*, case when u.ended is not null then u.ended
                         when not exists (select from r where r.id = u.id) then {superseded} end as final
        from u),
    f as (
        insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, error)
        select e.id, e.final, e.attempt, e.token, $2, e.claimed_at, n.now, e.error
        from e, n where e.final is not null),
    a as (
        insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
        select e.id, e.token, e.attempt, $2, e.claimed_at, n.now, $11, e.error from e, n where e.final is null),
    s as materialized (
        select s.ctid, e.kind, e.lane from e cross join lateral (
            select s.ctid from windlass.lane_slots s where s.lane = e.lane and s.slot = e.slot limit 1) s
        where e.final is not null),
    z as (delete from windlass.lane_slots where ctid = any (array(select ctid from s))),
    o as (insert into windlass.lane_checks (kind, at, lane, freed) select distinct s.kind, n.now, s.lane, true from s, n),
    k as (delete from windlass.cancels where job_id in (select id from e where final is not null))
    select n.now, (select array_agg(id) from e where final = {superseded}) as superseded from n";

const OP: &str = "take back leases";

struct Lease {
    id: i64,
    token: i64,
    queue: QueueId,
    kind: KindId,
    lane: Option<i64>,
    slot: Option<i16>,
    attempt: u16,
    claimed_at: Time,
    place: Time,
    lost: LostLease,
}

/// The result for one lease.
struct Fate {
    ended: Option<JobState>,
    suspicion: Suspicion,
    /// Without one it takes its old place.
    delay: Option<Duration>,
    error: Option<String>,
}

impl PostgresStore {
    pub(crate) async fn do_reclaim(&self, death: &Death) -> Result<Option<Reclaimed>, StoreError> {
        let Death { beat, explained } = death;
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let dropped = sqlx::query(self.sql(DROP_SILENT))
            .bind(beat.worker.0)
            .bind(beat.beats)
            .execute(&mut *tx)
            .await
            .map_err(failed(OP))?;
        if dropped.rows_affected() == 0 {
            return Ok(None);
        }
        let (leases, locks) = self.leases(&mut tx, beat.worker, &[]).await?;
        let fates: Vec<Fate> =
            leases.iter().map(|l| fate_of_lost(LostLease { explained: *explained, ..l.lost })).collect();
        let (superseded, now) = self.write(&mut tx, beat.worker, &leases, &fates, "lost").await?;
        self.end_steps(&mut tx, &locks, &ended(&leases, &fates, &superseded)).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.lock_session.release(beat.worker);
        self.waker.any();
        let superseded = superseded.len() as u64;
        let of = |ended| fates.iter().filter(|f| f.ended == ended).count() as u64;
        let dead =
            leases.iter().zip(&fates).filter(|(_, f)| f.ended == Some(JobState::DeadLetter)).map(|(l, _)| {
                DeadLetter { id: JobId(l.id), queue: l.queue, kind: l.kind, run_at: l.place, ended_at: now }
            });
        Ok(Some(Reclaimed {
            returned: of(None).saturating_sub(superseded),
            dead_letters: dead.collect(),
            cancelled: of(Some(JobState::Cancelled)),
            superseded,
        }))
    }

    pub(crate) async fn do_retire_worker(&self, worker: WorkerId) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        sqlx::query(self.sql(DROP)).bind(worker.0).execute(&mut *tx).await.map_err(failed(OP))?;
        self.hand_back(&mut tx, worker, &[]).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.lock_session.release(worker);
        self.waker.any();
        Ok(())
    }

    pub(crate) async fn do_disown(&self, worker: WorkerId, known: &[Token]) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let left = self.hand_back(&mut tx, worker, known).await?;
        tx.commit().await.map_err(failed(OP))?;
        if left > 0 {
            self.waker.any();
        }
        Ok(left)
    }

    async fn hand_back(
        &self,
        conn: &mut PgConnection,
        worker: WorkerId,
        known: &[Token],
    ) -> Result<u64, StoreError> {
        let (leases, locks) = self.leases(conn, worker, known).await?;
        let fates: Vec<Fate> = leases.iter().map(|l| fate_of_left(l.lost)).collect();
        let (superseded, _) = self.write(conn, worker, &leases, &fates, "handed_back").await?;
        self.end_steps(conn, &locks, &ended(&leases, &fates, &superseded)).await?;
        Ok(leases.len() as u64)
    }

    /// Locks the entities and workflows of the jobs, then the claims. The leases are read after that, so that a
    /// settlement that was running is visible. A claim made meanwhile is left for the next call.
    async fn leases(
        &self,
        conn: &mut PgConnection,
        worker: WorkerId,
        known: &[Token],
    ) -> Result<(Vec<Lease>, EndLocks), StoreError> {
        let known: Vec<i64> = known.iter().map(|token| token.0).collect();
        let peek = sqlx::query(self.sql(PEEK)).bind(worker.0).bind(known);
        let rows = peek.fetch_all(&mut *conn).await.map_err(failed(OP))?;
        let (mut tokens, mut jobs) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            tokens.push(get::<i64>(row, "token")?);
            jobs.extend(get::<Vec<i64>>(row, "ids")?);
        }
        let locks = self.lock_ends(conn, &jobs, &jobs).await?;
        let about = |sql| sqlx::query(self.sql(sql)).bind(worker.0).bind(tokens.clone());
        about(LOCK).execute(&mut *conn).await.map_err(failed(OP))?;
        let rows = about(LEASES).fetch_all(&mut *conn).await.map_err(failed(OP))?;
        let leases = rows
            .iter()
            .map(|row| {
                Ok(Lease {
                    id: get(row, "id")?,
                    token: get(row, "token")?,
                    queue: QueueId(get(row, "queue")?),
                    kind: KindId(get(row, "kind")?),
                    lane: get(row, "lane")?,
                    slot: get(row, "slot")?,
                    claimed_at: time(row, "claimed_at")?,
                    place: time(row, "run_at")?,
                    attempt: small(row, "attempt")?,
                    lost: LostLease {
                        job: JobId(get(row, "id")?),
                        suspicion: level(get(row, "suspicion")?),
                        alone: get(row, "alone")?,
                        explained: false,
                        at_most_once: get(row, "at_most_once")?,
                        cancel_requested: get(row, "cancel")?,
                    },
                })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        about(FORGET).execute(conn).await.map_err(failed(OP))?;
        Ok((leases, locks))
    }

    async fn write(
        &self,
        conn: &mut PgConnection,
        worker: WorkerId,
        leases: &[Lease],
        fates: &[Fate],
        outcome: &str,
    ) -> Result<(Vec<i64>, Time), StoreError> {
        let row = sqlx::query(self.sql(WRITE))
            .bind(self.offset())
            .bind(worker.0)
            .bind(leases.iter().map(|l| l.id).collect::<Vec<_>>())
            .bind(leases.iter().map(|l| l.token).collect::<Vec<_>>())
            .bind(leases.iter().map(|l| small_in(l.attempt)).collect::<Vec<_>>())
            .bind(leases.iter().map(|l| PgTime(l.claimed_at)).collect::<Vec<_>>())
            .bind(sparse(fates.iter().map(|f| f.ended.map(JobState::code)).collect()))
            .bind(leases.iter().map(|l| small_in(l.attempt.saturating_sub(1))).collect::<Vec<_>>())
            .bind(fates.iter().map(|f| i16::from(f.suspicion.level())).collect::<Vec<_>>())
            .bind(sparse(fates.iter().map(|f| f.error.as_deref()).collect()))
            .bind(outcome)
            .bind(leases.iter().map(|l| PgTime(l.place)).collect::<Vec<_>>())
            .bind(sparse(leases.iter().map(|l| l.lane).collect()))
            .bind(leases.iter().map(|l| l.kind.0).collect::<Vec<_>>())
            .bind(sparse(leases.iter().map(|l| l.slot).collect()))
            .bind(sparse(fates.iter().map(|f| f.delay.map(delay_in)).collect()))
            .fetch_one(conn)
            .await
            .map_err(failed(OP))?;
        Ok((get::<Option<Vec<i64>>>(&row, "superseded")?.unwrap_or_default(), time(&row, "now")?))
    }
}

/// Jobs that do not return to their queue.
fn ended(leases: &[Lease], fates: &[Fate], superseded: &[i64]) -> Vec<Ended> {
    let of = |(lease, fate): (&Lease, &Fate)| {
        let state = fate.ended.or(superseded.contains(&lease.id).then_some(JobState::Superseded))?;
        Some(Ended::new(JobId(lease.id), state, fate.error.clone()))
    };
    leases.iter().zip(fates).filter_map(of).collect()
}

fn fate_of_lost(lease: LostLease) -> Fate {
    let ended = |state, error| Fate { ended: Some(state), suspicion: Suspicion::NONE, delay: None, error };
    match lost(lease) {
        Lost::Return { suspicion, delay } => Fate { ended: None, suspicion, delay, error: None },
        Lost::DeadLetter { error } => ended(JobState::DeadLetter, Some(error)),
        Lost::Cancelled => ended(JobState::Cancelled, None),
    }
}

/// Left over at a clean end of the worker. The job did not run to its end, so it keeps its suspicion.
fn fate_of_left(lease: LostLease) -> Fate {
    let ended = lease.cancel_requested.then_some(JobState::Cancelled);
    Fate { ended, suspicion: lease.suspicion, delay: None, error: None }
}
