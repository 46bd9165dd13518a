//! The write-ahead log stays bounded, even after a reader held it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_core::Store;
use windlass_store_sqlite::SqliteOptions;

use crate::setup::Setup;

fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(path.with_extension("db-wal")).unwrap().len()
}

async fn write_much(setup: &Setup) {
    for _ in 0..150 {
        setup.store.enqueue(&vec![setup.job(); 200]).await.unwrap();
    }
}

#[tokio::test]
async fn the_log_is_bounded() {
    let setup = Setup::with(SqliteOptions { checkpoint_pages: 500, ..SqliteOptions::default() }).await;
    write_much(&setup).await;
    let size = log_bytes(&setup.path());
    assert!(size < 4 * 500 * 4_200 * 2, "{size} bytes");
}

#[tokio::test]
async fn the_log_grows_only_while_a_reader_holds_it() {
    let setup = Setup::with(SqliteOptions { checkpoint_pages: 300, ..SqliteOptions::default() }).await;
    let reader = rusqlite::Connection::open(setup.path()).unwrap();
    reader.execute_batch("begin; select count(*) from windlass_jobs").unwrap();
    write_much(&setup).await;
    let grown = log_bytes(&setup.path());
    assert!(grown > 4 * 300 * 4_096, "{grown} bytes");
    reader.execute_batch("rollback").unwrap();
    write_much(&setup).await;
    write_much(&setup).await;
    let after = log_bytes(&setup.path());
    assert!(after < grown + grown / 4, "the log reuses its space: {after} after {grown} bytes");
}

/// Overlapping reads of 200 ms each until stopped, so that there is always a reader.
fn read_in_turns(path: std::path::PathBuf, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u32> {
    const READ: Duration = Duration::from_millis(200);
    std::thread::spawn(move || {
        let readers = [0, 1].map(|_| rusqlite::Connection::open(&path).unwrap());
        let begin = |n: u32| {
            let reader = &readers[n as usize % 2];
            reader.execute_batch("begin; select count(*) from windlass_queues").unwrap();
        };
        begin(0);
        let mut turns = 0;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(READ / 2);
            begin(turns + 1);
            std::thread::sleep(READ / 2);
            readers[turns as usize % 2].execute_batch("rollback").unwrap();
            turns += 1;
        }
        turns
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_short_readers_do_not_let_the_log_grow() {
    const PAGES: u64 = 1_500;
    /// Several times the time between two cuts.
    const WRITING: Duration = Duration::from_secs(6);
    const PATIENCE: Duration = Duration::from_secs(120);
    /// What a job adds to the log in this test.
    const BYTES: std::ops::Range<u64> = 500..1_000;
    let options = SqliteOptions { checkpoint_pages: PAGES as u32, ..SqliteOptions::default() };
    let setup = Setup::with(options).await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = read_in_turns(setup.path(), stop.clone());
    let (mut longest, mut largest, mut written) = (Duration::ZERO, 0, 0);
    let begun = Instant::now();
    // The log is cut at four times the configured length, at most once a second. The writer waits half a second for
    // readers; on a busy machine one of them may take longer, and the next cut is then a second later.
    let allowed = |written: u64, took: Duration| {
        4 * PAGES * 4_120 + (3.0 * written as f64 / took.as_secs_f64()) as u64 * BYTES.end
    };
    // Writes until an uncut log would be longer than that, on any machine.
    while begun.elapsed() < WRITING || written * BYTES.start <= allowed(written, begun.elapsed()) {
        assert!(begun.elapsed() < PATIENCE, "only {written} jobs were written");
        let asked = Instant::now();
        setup.store.enqueue(&vec![setup.job(); 100]).await.unwrap();
        longest = longest.max(asked.elapsed());
        written += 100;
        largest = largest.max(log_bytes(&setup.path()));
    }
    stop.store(true, Ordering::Relaxed);
    let turns = readers.join().unwrap();
    println!("{written} jobs beside {turns} readers; log up to {largest} bytes; longest write {longest:?}");
    assert!(turns >= 8, "{turns} readers");
    let allowed = allowed(written, begun.elapsed());
    assert!(largest < allowed, "{largest} bytes after {written} jobs, {allowed} were expected at most");
    assert!(longest < Duration::from_secs(2), "a write waited {longest:?}");
}
