//! Prints what the store moves per second beside a bare rusqlite loop of the same shape, in the same run.
//!
//! `cargo run --release -p windlass-store-sqlite --example probe [folder]`

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass_core::store::{Claim, WorkerInfo};
use windlass_core::{JobState, KindSpec, NewJob, QueueSpec, RunAt, Settlement, Store, Verdict};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

const JOBS: usize = 100_000;
const BULK: usize = 1_000;
const BATCH: usize = 500;
const CALLERS: usize = 64;
const SINGLES: usize = 100_000;

fn rate(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}

fn payload() -> Vec<u8> {
    vec![b'x'; 200]
}

/// The shape of `research/storage.md`: no keys, no fences, no settings; one thread, one connection.
struct Bare {
    connection: Connection,
    next: i64,
}

impl Bare {
    fn open(path: &Path) -> Bare {
        let connection = Connection::open(path).unwrap();
        connection
            .execute_batch(
                "pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 10000;
                 create table jobs (id integer primary key, queue int, priority int, created_at int, payload blob);
                 create table ready (queue int, priority int, run_at int, id int, attempt int default 0,
                                     primary key (queue, priority, run_at, id)) without rowid;
                 create table claims (token integer primary key, queue int, owner int, ids text);
                 create table done (id integer primary key, state int, attempt int, finished_at int);",
            )
            .unwrap();
        Bare { connection, next: 1 }
    }

    fn insert(&mut self, count: usize) {
        let tx = self.connection.unchecked_transaction().unwrap();
        let payload = payload();
        for _ in 0..count {
            let id = self.next;
            self.next += 1;
            tx.prepare_cached("insert into jobs values (?1, 1, 5, ?2, ?3)")
                .unwrap()
                .execute((id, id, &payload))
                .unwrap();
            tx.prepare_cached("insert into ready (queue, priority, run_at, id) values (1, 5, ?1, ?2)")
                .unwrap()
                .execute((id, id))
                .unwrap();
        }
        tx.commit().unwrap();
    }

    /// Claims and settles one batch, a commit each.
    fn drain_one(&mut self) -> usize {
        let tx = self.connection.unchecked_transaction().unwrap();
        let ids: Vec<i64> = tx
            .prepare_cached(
                "delete from ready where (queue, priority, run_at, id) in (select queue, priority, run_at, id
                 from ready where queue = 1 and run_at <= ?1 order by priority, run_at, id limit ?2) returning id",
            )
            .unwrap()
            .query_map((i64::MAX, BATCH as i64), |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let mut bytes = 0;
        for id in &ids {
            let payload: Vec<u8> = tx
                .prepare_cached("select payload from jobs where id = ?1")
                .unwrap()
                .query_row([id], |row| row.get(0))
                .unwrap();
            bytes += payload.len();
        }
        assert_eq!(bytes, ids.len() * 200);
        let text = format!("{ids:?}");
        tx.prepare_cached("insert into claims (queue, owner, ids) values (1, 1, ?1)")
            .unwrap()
            .execute([text])
            .unwrap();
        let token = tx.last_insert_rowid();
        tx.commit().unwrap();
        let tx = self.connection.unchecked_transaction().unwrap();
        tx.prepare_cached("delete from claims where token = ?1").unwrap().execute([token]).unwrap();
        for id in &ids {
            tx.prepare_cached("insert into done values (?1, 2, 1, ?1)").unwrap().execute([id]).unwrap();
        }
        tx.commit().unwrap();
        ids.len()
    }
}

async fn drain(store: &SqliteStore, claim: &Claim) -> usize {
    let mut total = 0;
    loop {
        let leased = store.claim(claim).await.unwrap();
        if leased.is_empty() {
            return total;
        }
        total += leased.len();
        let settlements: Vec<Settlement> = leased
            .iter()
            .map(|job| Settlement {
                id: job.id,
                token: job.token,
                queue: job.queue,
                attempt: job.attempt,
                started_at: job.claimed_at,
                verdict: Verdict::End { state: JobState::Completed, result: None, error: None },
            })
            .collect();
        store.settle(&settlements).await.unwrap();
    }
}

async fn singles(store: &SqliteStore, job: &NewJob) -> (Duration, Vec<Duration>) {
    let started = Instant::now();
    let tasks: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (store, job) = (store.clone(), job.clone());
            tokio::spawn(async move {
                let mut waits = Vec::with_capacity(SINGLES / CALLERS);
                for _ in 0..SINGLES / CALLERS {
                    let asked = Instant::now();
                    store.enqueue(std::slice::from_ref(&job)).await.unwrap();
                    waits.push(asked.elapsed());
                }
                waits
            })
        })
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    waits.sort_unstable();
    (started.elapsed(), waits)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = match std::env::args().nth(1) {
        Some(path) => tempfile::tempdir_in(path).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    for round in 1..=3 {
        let mut bare = Bare::open(&folder.path().join(format!("bare{round}.db")));
        let started = Instant::now();
        for _ in 0..JOBS / BULK {
            bare.insert(BULK);
        }
        let bare_bulk = rate(JOBS, started.elapsed());
        let started = Instant::now();
        let mut drained = 0;
        while drained < JOBS {
            drained += bare.drain_one();
        }
        let bare_drain = rate(JOBS, started.elapsed());
        drop(bare);

        let path = folder.path().join(format!("store{round}.db"));
        let store = SqliteStore::open(path, SqliteOptions::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        store.sync_registry(&[QueueSpec::named("MAIN")], &[KindSpec::new("plain", "MAIN")]).await.unwrap();
        let (queue, kind) = (store.queues().await.unwrap()[0].id, store.kinds().await.unwrap()[0].0);
        let job = NewJob {
            kind,
            queue,
            priority: 5,
            payload: payload(),
            run_at: RunAt::Now,
            max_attempts: 5,
            timeout: None,
            unique: None,
            idempotency: None,
            concurrency_key: None,
            tags: Vec::new(),
            entity: None,
            tenant: None,
        };
        let bulk = Arc::new(vec![job.clone(); BULK]);
        let started = Instant::now();
        for _ in 0..JOBS / BULK {
            store.enqueue(&bulk).await.unwrap();
        }
        let our_bulk = rate(JOBS, started.elapsed());

        let info =
            WorkerInfo { label: "probe".to_owned(), queues: vec![queue], lease: Duration::from_secs(120) };
        let worker = store.register_worker(&info).await.unwrap();
        let claim = Claim { worker, queue, kinds: vec![kind], limit: BATCH as u32, suspect: false };
        let started = Instant::now();
        assert_eq!(drain(&store, &claim).await, JOBS);
        let one = rate(JOBS, started.elapsed());

        let (took, waits) = singles(&store, &job).await;
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        let started = Instant::now();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (store, claim) = (store.clone(), claim.clone());
                tokio::spawn(async move { drain(&store, &claim).await })
            })
            .collect();
        let mut drained = 0;
        for task in tasks {
            drained += task.await.unwrap();
        }
        let four = rate(drained, started.elapsed());
        println!("round {round}");
        println!(
            "  bulk enqueue/s   {our_bulk:>9.0}   bare {bare_bulk:>9.0}   {:>4.0} %",
            100.0 * our_bulk / bare_bulk
        );
        println!(
            "  drain/s, 1 loop  {one:>9.0}   bare {bare_drain:>9.0}   {:>4.0} %",
            100.0 * one / bare_drain
        );
        println!(
            "  drain/s, 4 loops {four:>9.0}   bare {bare_drain:>9.0}   {:>4.0} %",
            100.0 * four / bare_drain
        );
        println!(
            "  single enqueue/s {:>9.0}   {CALLERS} callers, p50 {:.2} p95 {:.2} p99 {:.2} p99.9 {:.2} ms",
            rate(waits.len(), took),
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999)
        );
        store.close().await;
    }
}
