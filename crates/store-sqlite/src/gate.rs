//! The gate: fair access to the write lock, between threads of one process and between processes on one file.
//!
//! Owns: an in-process FIFO queue and two lock files beside the database. SQLite's own write lock has no queue: a
//! busy process would retake it before a waiting one wakes. Never replaces that lock: SQLite still excludes a
//! writer that does not use the gate, and the busy handler waits for it. Never waits without a deadline: heartbeats
//! and settlements queue behind the writer, and a caller that begins a transaction inside another would deadlock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard};
use windlass_core::StoreError;

/// Default time to wait for another writer. No one should hold the gate longer than a caller's transaction lasts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const SPINS: u32 = 20;
const LONGEST_NAP: Duration = Duration::from_micros(500);

const HELD_HERE: &str = "another write of this process, most likely a transaction from begin() that is still open, \
                         kept the store for too long; end it first, or work inside it: enqueue_in and settle_in, not \
                         enqueue or a second begin()";

/// Two lock files. The holder of `turn` is the next to get `gate`, and releases `turn` only once it has it. So a
/// process that leaves the gate and returns at once finds `turn` taken and cannot overtake.
struct Files {
    turn: File,
    gate: File,
}

#[derive(Clone)]
pub(crate) struct Gate {
    files: Arc<Mutex<Arc<Files>>>,
    pub(crate) patience: Duration,
}

/// The right to write; returned on drop.
pub(crate) struct Pass {
    guard: OwnedMutexGuard<Arc<Files>>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        // A failed unlock cannot be repaired here. The file is unlocked when the process ends.
        let _ = self.guard.gate.unlock();
    }
}

impl Gate {
    pub(crate) fn open(database: &Path, patience: Duration) -> io::Result<Gate> {
        let open = |suffix: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(beside(database, suffix))
        };
        let files = Files { turn: open("-turn")?, gate: open("-gate")? };
        Ok(Gate { files: Arc::new(Mutex::new(Arc::new(files))), patience })
    }

    /// For the writer thread, which has no async runtime. The deadline counts from `since`, when the command was
    /// submitted, so that commands queued behind one that timed out do not wait a full timeout again.
    pub(crate) fn enter_blocking(&self, op: &'static str, since: Instant) -> Result<Pass, StoreError> {
        let deadline = since + self.patience;
        let Some(guard) = block_until(deadline, self.files.clone().lock_owned()) else {
            return Err(StoreError::Busy { op, source: HELD_HERE.into() });
        };
        wait_for(&guard, deadline, op)?;
        Ok(Pass { guard })
    }

    /// For a caller's transaction. Queues within the process first, so that it waits its turn behind the writer.
    pub(crate) async fn enter(&self, op: &'static str) -> Result<Pass, StoreError> {
        let deadline = Instant::now() + self.patience;
        let Ok(guard) = tokio::time::timeout(self.patience, self.files.clone().lock_owned()).await else {
            return Err(StoreError::Busy { op, source: HELD_HERE.into() });
        };
        let files = Arc::clone(&guard);
        let waited = tokio::task::spawn_blocking(move || wait_for(&files, deadline, op)).await;
        waited.map_err(|error| crate::error::other(op, error.to_string()))??;
        Ok(Pass { guard })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs the future on this thread. `None` when it is not ready by the deadline; it is polled at least once. Tokio's
/// blocking lock keeps the same queue but has no timeout.
fn block_until<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

fn wait_for(files: &Files, deadline: Instant, op: &'static str) -> Result<(), StoreError> {
    lock(&files.turn, deadline, op)?;
    let got = lock(&files.gate, deadline, op);
    let _ = files.turn.unlock();
    got
}

/// Polls, because a blocking flock has no timeout: a stopped process would then block everyone for ever.
fn lock(file: &File, deadline: Instant, op: &'static str) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::Other { store: crate::error::STORE, op, source: error.into() });
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                let source = "another process held the store for too long; run `windlass doctor`".into();
                return Err(StoreError::Busy { op, source });
            }
            Err(TryLockError::WouldBlock) if tries < SPINS => thread::yield_now(),
            Err(TryLockError::WouldBlock) => {
                thread::sleep(LONGEST_NAP.min(Duration::from_micros(50) * (tries - SPINS + 1)));
            }
        }
        tries += 1;
    }
}

/// The path with a suffix after the whole file name, as in SQLite's own `-wal`.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::{Store, StoreError, WorkerId};

    use crate::{SqliteOptions, SqliteStore};

    async fn impatient(folder: &tempfile::TempDir) -> SqliteStore {
        let path = folder.path().join("windlass.db");
        let statement_timeout = Duration::from_millis(50);
        let store = SqliteStore::open(&path, SqliteOptions { statement_timeout, ..SqliteOptions::default() })
            .unwrap();
        store.migrate_up(None).await.unwrap();
        store
    }

    /// A caller that waits for itself: only a deadline ends this.
    #[tokio::test]
    async fn a_transaction_begun_inside_another_gives_up_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let store = impatient(&folder).await;
        let outer = store.begin().await.unwrap();
        let inner = tokio::time::timeout(Duration::from_secs(10), store.begin()).await.unwrap();
        let error = inner.err().expect("the outer one is still open");
        assert!(matches!(error, StoreError::Busy { op: "begin a transaction", .. }), "{error:?}");
        let text = error.chain();
        assert!(text.contains("this process") && text.contains("second begin()"), "{text}");
        assert!(!text.contains("another process"), "{text}");
        outer.commit().await.unwrap();
        store.begin().await.unwrap().rollback().await.unwrap();
    }

    #[tokio::test]
    async fn a_transaction_beside_another_process_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let store = impatient(&folder).await;
        let elsewhere = impatient(&folder).await;
        let _theirs = elsewhere.begin().await.unwrap();
        let error = store.begin().await.err().expect("the other handle's is open");
        let text = error.chain();
        assert!(text.contains("another process held the store"), "{text}");
    }

    #[tokio::test]
    async fn a_write_beside_an_open_transaction_gives_up_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let store = impatient(&folder).await;
        let tx = store.begin().await.unwrap();
        let both = async { tokio::join!(store.enqueue(&[]), store.heartbeat(WorkerId(1))) };
        let (refused, beat) = tokio::time::timeout(Duration::from_secs(10), both).await.unwrap();
        let error = refused.unwrap_err();
        assert!(matches!(error, StoreError::Busy { op: "enqueue", .. }), "{error:?}");
        let text = error.chain();
        assert!(text.contains("begin()") && text.contains("enqueue_in"), "{text}");
        assert!(matches!(beat, Err(StoreError::Busy { op: "heartbeat", .. })), "{beat:?}");
        tx.rollback().await.unwrap();
        assert!(!store.heartbeat(WorkerId(1)).await.unwrap());
    }

    /// The gate and SQLite's own lock share one timeout instead of adding up, and the error says what to look for.
    #[tokio::test]
    async fn a_lock_held_outside_costs_no_more_than_the_timeout() {
        let folder = tempfile::tempdir().unwrap();
        let store = impatient(&folder).await;
        let outside = rusqlite::Connection::open(folder.path().join("windlass.db")).unwrap();
        outside.execute_batch("begin immediate").unwrap();
        let begun = std::time::Instant::now();
        let error = store.heartbeat(WorkerId(1)).await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(matches!(error, StoreError::Busy { op: "heartbeat", .. }), "{error:?}");
        let text = error.chain();
        for part in ["50ms", "database.statement_timeout", "sqlite3", "fuser"] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let begun = std::time::Instant::now();
        let error = store.begin().await.err().expect("the lock is still held");
        assert!(
            begun.elapsed() < Duration::from_secs(10) && error.chain().contains("fuser"),
            "{}",
            error.chain()
        );
        outside.execute_batch("rollback").unwrap();
        assert!(!store.heartbeat(WorkerId(1)).await.unwrap());
    }
}
