//! A long reader on the SQLite file: the write-ahead log grows only while it reads, and shrinks afterwards.

use std::time::{Duration, Instant};

use sqlx::Executor;
use windlass::Request;
use windlass_testkit::signal::{Seen, wait_until};

use crate::count;
use crate::jobs::Append;
use crate::world::{Database, World};

const MEGABYTE: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_reader_does_not_leave_a_long_log() {
    let world = World::new(Database::Sqlite).await;
    let windlass = world.windlass().await;
    let workers = windlass.start().await.unwrap();
    let log = world.directory().join("app.db-wal");
    let size = || std::fs::metadata(&log).map(|file| file.len()).unwrap_or(0);
    let mut reader = world.sqlite().await;
    reader.execute("begin").await.unwrap();
    reader.execute("select count(*) from windlass_jobs").await.unwrap();
    let begun = Instant::now();
    let mut jobs = 0;
    while begun.elapsed() < Duration::from_secs(count(6, 600) as u64) {
        let bulk: Vec<Request> = (0..50).map(|_| Append { ms: 0 }.into()).collect();
        windlass.enqueue_many(bulk).await.unwrap();
        jobs += 50;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let held = size();
    println!("{jobs} jobs; log {} KiB while the reader held it", held / 1024);
    // What a reader holds is what was written meanwhile; per job that is bounded.
    assert!(held / jobs < 24 * 1024, "{} bytes of log per job", held / jobs);
    reader.execute("commit").await.unwrap();
    wait_until("the log to shrink", Duration::from_secs(30), || async {
        windlass.enqueue(Append { ms: 0 }).await.unwrap();
        Seen::when(size(), |bytes| *bytes <= 64 * MEGABYTE)
    })
    .await;
    workers.shutdown().await.unwrap();
    world.end().await;
}
