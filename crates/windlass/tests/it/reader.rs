//! A long read transaction on the SQLite file: the write-ahead log grows only by what is written meanwhile, no write
//! waits, and the log is truncated afterwards. `wal.rs` of the store tests overlapping short readers.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sqlx::Executor;
use windlass::{Context, Job, JobError, Request};
use windlass_testkit::signal::{Seen, wait_until};

use crate::count;
use crate::jobs;
use crate::world::{Database, World, wait_all_finished};

const MEGABYTE: u64 = 1 << 20;
/// The size at which a store with default settings truncates the log: four times 10,000 pages.
const CUT_AT: u64 = 4 * 10_000 * 4_096;
/// The size to which the file is truncated.
const KEPT: u64 = 64 * MEGABYTE;
const BODY: usize = 20_000;

/// A payload that fills the log in seconds.
#[derive(Debug, Serialize, Deserialize)]
struct Bulky {
    body: String,
}

impl Job for Bulky {
    const KIND: &'static str = "BULKY";
}

async fn bulky(_: Context, _: Bulky) -> Result<(), JobError> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_truncated_after_a_long_reader() {
    let world = World::new(Database::Sqlite).await;
    let builder = jobs::builder(&world.url, &world.ledger(), &world.effects()).job(bulky);
    let windlass = builder.build().await.unwrap();
    let workers = windlass.start().await.unwrap();
    let log = world.directory().join("app.db-wal");
    let size = || std::fs::metadata(&log).map(|file| file.len()).unwrap_or(0);
    let mut reader = world.sqlite().await;
    reader.execute("begin").await.unwrap();
    reader.execute("select count(*) from windlass_jobs").await.unwrap();
    let (begun, mut jobs, mut longest) = (Instant::now(), 0, Duration::ZERO);
    while size() < CUT_AT + CUT_AT / 4 || begun.elapsed() < Duration::from_secs(count(0, 600) as u64) {
        let bulk: Vec<Request> = (0..50).map(|_| Bulky { body: "x".repeat(BODY) }.into()).collect();
        let asked = Instant::now();
        windlass.enqueue_many(bulk).await.unwrap();
        longest = longest.max(asked.elapsed());
        jobs += 50;
        tokio::time::sleep(Duration::from_millis(count(0, 400) as u64)).await;
    }
    wait_all_finished(&windlass, Duration::from_secs(60)).await;
    let held = size();
    println!(
        "{jobs} jobs; log {} KiB while the reader held it, {} bytes per job; longest enqueue of 50 {longest:?}",
        held / 1024,
        held / jobs
    );
    // The log holds what was written during the read: each payload once and some index pages.
    assert!(held / jobs < BODY as u64 + 24 * 1024, "{} bytes of log per job", held / jobs);
    assert!(longest < Duration::from_secs(3), "a write waited {longest:?} for a reader");
    reader.execute("commit").await.unwrap();
    // The log must shrink without further writes and without a restart.
    wait_until("the log to shrink", Duration::from_secs(90), || async {
        Seen::when(size(), |bytes| *bytes <= KEPT)
    })
    .await;
    workers.shutdown().await.unwrap();
    world.end().await;
}
