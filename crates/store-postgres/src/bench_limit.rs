//! The reference loop of `bench queue`: the least SQL that a fenced queue needs on this server.
//!
//! Owns: a bare loop in its own schema, with the same durability, one lease token per batch and one row per finished
//! job. It has no kinds, limits, attempts or recovery. Never touches the store's tables.

use std::time::Instant;

use sqlx::AssertSqlSafe;
use windlass_core::StoreError;
use windlass_core::store::BenchLimit;

use crate::PostgresStore;
use crate::error::translate;
use crate::pool::Pool;

const BULK: usize = 2_500;
const BATCH: i64 = 500;
const PRODUCERS: usize = 4;
const TASKS: usize = 4;
/// `insufficient_privilege`
const DENIED: &str = "42501";

const TABLES: &str = "
    create schema windlass_limit;
    create sequence windlass_limit.tok;
    create table windlass_limit.jobs (id bigint generated always as identity primary key, queue int not null,
        priority smallint not null, created_at timestamptz not null default now(), payload bytea not null);
    create table windlass_limit.ready (queue int, priority smallint, run_at timestamptz, id bigint,
        attempt smallint not null default 0, primary key (queue, priority, run_at, id));
    create table windlass_limit.claims (token bigint primary key, attempt smallint not null, ids bigint[] not null);
    create table windlass_limit.done (id bigint primary key, finished_at timestamptz not null,
        state smallint not null, attempt smallint not null)";
const DROP: &str = "drop schema if exists windlass_limit cascade";
const ENQUEUE: &str = "
    with j as (insert into windlass_limit.jobs (queue, priority, payload)
               select 1, 5, d from unnest($1::bytea[]) t (d) returning id, queue, priority)
    insert into windlass_limit.ready select queue, priority, now(), id from j";
const CLAIM: &str = "
    with c as materialized (
        select r.ctid from windlass_limit.ready r where r.queue = 1 and r.priority = 5 and r.run_at <= now()
        order by r.run_at, r.id limit $1 for update skip locked),
    d as (delete from windlass_limit.ready r where r.ctid = any (array(select ctid from c))
          returning r.id, r.attempt),
    l as (insert into windlass_limit.claims select nextval('windlass_limit.tok'), a.attempt + 1, a.ids
          from (select attempt, array_agg(id) ids from d group by attempt) a returning token, attempt)
    select d.id, l.token, j.payload
    from d join l on l.attempt = d.attempt + 1 join windlass_limit.jobs j on j.id = d.id";
const SETTLE: &str = "
    with c as (delete from windlass_limit.claims where token = $1 returning attempt, ids)
    insert into windlass_limit.done select unnest(ids), now(), 2, attempt from c";

impl PostgresStore {
    /// Fills and drains a queue in the schema `windlass_limit`, which is created for it and then dropped.
    pub async fn measure_limit(&self, jobs: u64) -> Result<BenchLimit, StoreError> {
        let failed = |error| translate("measure the bare loop", error);
        sqlx::raw_sql(DROP).execute(&self.pool).await.map_err(failed)?;
        sqlx::raw_sql(TABLES).execute(&self.pool).await.map_err(failed)?;
        let limit = run(&self.pool, jobs).await.map_err(failed);
        sqlx::raw_sql(DROP).execute(&self.pool).await.map_err(failed)?;
        limit
    }

    /// Checkpoints the whole server, without a timeout. Returns false when the role lacks the privilege.
    pub async fn checkpoint(&self) -> Result<bool, StoreError> {
        let failed = |error| translate("checkpoint the server", error);
        let mut tx = self.pool.begin().await.map_err(failed)?;
        sqlx::query("set local statement_timeout = 0").execute(&mut *tx).await.map_err(failed)?;
        match sqlx::query("checkpoint").execute(&mut *tx).await {
            Err(sqlx::Error::Database(refused)) if refused.code().as_deref() == Some(DENIED) => Ok(false),
            done => done.map(|_| true).map_err(failed),
        }
    }

    /// Opens a transaction that keeps vacuum from removing rows, as a long report would. It ends when dropped.
    pub async fn hold_snapshot(&self) -> Result<HeldSnapshot, StoreError> {
        let failed = |error| translate("hold a snapshot", error);
        let mut tx = self.pool.begin_with("begin isolation level repeatable read").await.map_err(failed)?;
        sqlx::query("select count(*) from pg_class").execute(&mut *tx).await.map_err(failed)?;
        Ok(HeldSnapshot(tx))
    }

    /// Drops the store's schema with everything in it. For scratch schemas only.
    pub async fn drop_schema(&self) -> Result<(), StoreError> {
        let statement = AssertSqlSafe(format!("drop schema if exists {} cascade", self.schema));
        let dropped = sqlx::raw_sql(statement).execute(&self.pool).await;
        dropped.map(drop).map_err(|error| translate("drop a scratch schema", error))
    }
}

/// Keeps the snapshot until it is dropped.
pub struct HeldSnapshot(
    #[expect(dead_code, reason = "it is held, not used")] sqlx::Transaction<'static, sqlx::Postgres>,
);

async fn run(pool: &Pool, jobs: u64) -> sqlx::Result<BenchLimit> {
    let begun = Instant::now();
    let share = (jobs as usize).div_ceil(PRODUCERS);
    let mut producers = tokio::task::JoinSet::new();
    for n in 0..PRODUCERS {
        let (pool, jobs) = (pool.clone(), share.min((jobs as usize).saturating_sub(n * share)));
        producers.spawn(async move { produce(&pool, jobs).await });
    }
    join(producers).await?;
    let enqueue_per_s = jobs as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let pool = pool.clone();
        tasks.spawn(async move { drain(&pool).await });
    }
    join(tasks).await?;
    Ok(BenchLimit { enqueue_per_s, drain_per_s: jobs as f64 / begun.elapsed().as_secs_f64() })
}

async fn join(mut tasks: tokio::task::JoinSet<sqlx::Result<()>>) -> sqlx::Result<()> {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| sqlx::Error::Io(std::io::Error::other(error)))??;
    }
    Ok(())
}

async fn produce(pool: &Pool, jobs: usize) -> sqlx::Result<()> {
    let payloads = vec![vec![b'x'; 200]; BULK];
    let mut left = jobs;
    while left > 0 {
        let chunk = left.min(BULK);
        sqlx::query(ENQUEUE).bind(&payloads[..chunk]).execute(pool).await?;
        left -= chunk;
    }
    Ok(())
}

async fn drain(pool: &Pool) -> sqlx::Result<()> {
    loop {
        let rows: Vec<(i64, i64, Vec<u8>)> = sqlx::query_as(CLAIM).bind(BATCH).fetch_all(pool).await?;
        let Some((_, token, _)) = rows.first() else { return Ok(()) };
        sqlx::query(SETTLE).bind(token).execute(pool).await?;
    }
}
