//! Storage ceilings on this machine: bulk enqueue and drain through the store, no handlers.
//!
//! `cargo run --release --example probe -- [jobs]`, database from WINDLASS_TEST_POSTGRES_URL. Prints a bare loop beside
//! it (the narrowest tables that could do, in the same run), so that a busy machine is seen as such.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::store::{Claim, WorkerInfo};
use windlass_core::{JobState, KindSpec, NewJob, QueueSpec, RunAt, Settlement, Store, StoreError, Verdict};
use windlass_store_postgres::{Options, PostgresStore};

const BATCH: u32 = 500;
const BULK: usize = 1_000;
const PRODUCERS: usize = 2;
const TASKS: usize = 4;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let jobs: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let url = std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
    let schema = format!("probe_{}", std::process::id());
    let join = if url.contains('?') { '&' } else { '?' };
    let store = PostgresStore::connect(&format!("{url}{join}schema={schema}"), Options::default()).await?;
    store.migrate_up(None).await?;
    let store = Arc::new(store);
    let measured = measure(store.clone(), jobs).await;
    store.migrate_down(0).await?;
    store.close().await;
    let pool = sqlx::PgPool::connect(&url).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("drop schema {schema} cascade"))).execute(&pool).await?;
    let (bare_enqueue, bare_drain) = bare(&pool, jobs).await?;
    let (enqueue, drain) = measured?;
    println!(
        "bulk enqueue {enqueue:>8.0}/s   bare {bare_enqueue:>8.0}/s   ({PRODUCERS} connections x {BULK})"
    );
    println!("drain        {drain:>8.0}/s   bare {bare_drain:>8.0}/s   ({TASKS} tasks, batch {BATCH})");
    Ok(())
}

async fn measure(store: Arc<PostgresStore>, jobs: usize) -> Outcome<(f64, f64)> {
    store.sync_registry(&[QueueSpec::named("Q")], &[KindSpec::new("k", "Q")]).await?;
    let (kind, queue, _) = store.kinds().await?.remove(0);
    let job = move |n: usize| NewJob {
        kind,
        queue,
        priority: (n % 4) as u8,
        payload: vec![b'x'; 200],
        run_at: RunAt::Now,
        max_attempts: 5,
        timeout: Some(Duration::from_secs(60)),
        unique: None,
        idempotency: None,
        concurrency_key: None,
        tags: Vec::new(),
        entity: None,
        tenant: None,
    };
    let begun = Instant::now();
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..PRODUCERS {
        let store = store.clone();
        producers.spawn(async move {
            let batch: Vec<NewJob> = (0..BULK).map(job).collect();
            for _ in 0..jobs / PRODUCERS / BULK {
                store.enqueue(&batch).await?;
            }
            Ok::<_, StoreError>(())
        });
    }
    while let Some(done) = producers.join_next().await {
        done??;
    }
    let enqueue = jobs as f64 / begun.elapsed().as_secs_f64();

    let info = WorkerInfo { label: "probe".to_owned(), queues: vec![queue], lease: Duration::from_secs(60) };
    let worker = store.register_worker(&info).await?;
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            let claim = Claim { worker, queue, kinds: vec![kind], limit: BATCH, suspect: false };
            let mut drained = 0;
            loop {
                let leased = store.claim(&claim).await?;
                if leased.is_empty() {
                    return Ok::<_, StoreError>(drained);
                }
                drained += leased.len();
                let settlements: Vec<Settlement> = leased
                    .iter()
                    .map(|job| Settlement {
                        id: job.id,
                        token: job.token,
                        queue,
                        attempt: job.attempt,
                        started_at: job.claimed_at,
                        verdict: Verdict::End { state: JobState::Completed, result: None, error: None },
                    })
                    .collect();
                store.settle(&settlements).await?;
            }
        });
    }
    let mut drained = 0;
    while let Some(done) = tasks.join_next().await {
        drained += done??;
    }
    Ok((enqueue, drained as f64 / begun.elapsed().as_secs_f64()))
}

/// The narrow shape of the storage study: no registry, no history columns, no fence beyond the token.
const BARE_TABLES: &str = "
    create schema bare_probe;
    create sequence bare_probe.tok;
    create table bare_probe.jobs (id bigint generated always as identity primary key, queue int not null,
        priority smallint not null, created_at timestamptz not null default now(), payload bytea not null);
    create table bare_probe.ready (queue int, priority smallint, run_at timestamptz, id bigint,
        attempt smallint not null default 0, primary key (queue, priority, run_at, id));
    create table bare_probe.claims (token bigint primary key, attempt smallint not null, ids bigint[] not null);
    create table bare_probe.done (id bigint primary key, finished_at timestamptz not null, state smallint not null,
        attempt smallint not null)";
const BARE_ENQUEUE: &str = "
    with j as (insert into bare_probe.jobs (queue, priority, payload)
               select 1, p, d from unnest($1::smallint[], $2::bytea[]) t (p, d) returning id, queue, priority)
    insert into bare_probe.ready select queue, priority, now(), id from j";
const BARE_CLAIM: &str = "
    with c as materialized (
        select r.ctid from unnest(array[0, 1, 2, 3]::smallint[]) p (pr) cross join lateral (
            select r.ctid from bare_probe.ready r where r.queue = 1 and r.priority = p.pr and r.run_at <= now()
            order by r.run_at, r.id limit $1 for update skip locked) r limit $1),
    d as (delete from bare_probe.ready r where r.ctid = any (array(select ctid from c)) returning r.id, r.attempt),
    l as (insert into bare_probe.claims select nextval('bare_probe.tok'), a.attempt + 1, a.ids
          from (select attempt, array_agg(id) ids from d group by attempt) a returning token, attempt)
    select d.id, l.token, j.payload from d join l on l.attempt = d.attempt + 1 join bare_probe.jobs j on j.id = d.id";
const BARE_SETTLE: &str = "
    with c as (delete from bare_probe.claims where token = $1 returning attempt, ids)
    insert into bare_probe.done select unnest(ids), now(), 2, attempt from c";

async fn bare(pool: &sqlx::PgPool, jobs: usize) -> Outcome<(f64, f64)> {
    sqlx::raw_sql("drop schema if exists bare_probe cascade").execute(pool).await?;
    sqlx::raw_sql(BARE_TABLES).execute(pool).await?;
    let begun = Instant::now();
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..PRODUCERS {
        let pool = pool.clone();
        producers.spawn(async move {
            let priorities: Vec<i16> = (0..BULK).map(|n| (n % 4) as i16).collect();
            let payloads = vec![vec![b'x'; 200]; BULK];
            for _ in 0..jobs / PRODUCERS / BULK {
                sqlx::query(BARE_ENQUEUE).bind(&priorities).bind(&payloads).execute(&pool).await?;
            }
            Ok::<_, sqlx::Error>(())
        });
    }
    while let Some(done) = producers.join_next().await {
        done??;
    }
    let enqueue = jobs as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let pool = pool.clone();
        tasks.spawn(async move {
            loop {
                let rows: Vec<(i64, i64, Vec<u8>)> =
                    sqlx::query_as(BARE_CLAIM).bind(i64::from(BATCH)).fetch_all(&pool).await?;
                let Some((_, token, _)) = rows.first() else { return Ok::<_, sqlx::Error>(()) };
                sqlx::query(BARE_SETTLE).bind(token).execute(&pool).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let drain = jobs as f64 / begun.elapsed().as_secs_f64();
    sqlx::raw_sql("drop schema bare_probe cascade").execute(pool).await?;
    Ok((enqueue, drain))
}
