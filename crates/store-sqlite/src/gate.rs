//! Whose turn it is to write: fairness between the threads of one process and between processes on one file.
//!
//! Owns: an in-process queue (first come, first served) and two lock files beside the database. SQLite's own write
//! lock has no queue: a busy process would take it again before a waiting one wakes. Never replaces that lock: a
//! writer that does not know the gate is still excluded by SQLite, and waited for by the busy handler.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard};
use windlass_core::StoreError;

/// How long to wait for another process before giving up. Nobody holds the gate longer than a caller's transaction.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const SPINS: u32 = 20;
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// Two lock files. Whoever holds `turn` is the next to get `gate`; it lets go of `turn` only then. So a process that
/// leaves the gate and comes straight back finds `turn` taken and cannot overtake.
struct Files {
    turn: File,
    gate: File,
}

#[derive(Clone)]
pub(crate) struct Gate {
    files: Arc<Mutex<Arc<Files>>>,
}

/// The right to write; given back when dropped.
pub(crate) struct Pass {
    guard: OwnedMutexGuard<Arc<Files>>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        // A failed unlock cannot be mended here; closing the file at process end frees it.
        let _ = self.guard.gate.unlock();
    }
}

impl Gate {
    pub(crate) fn open(database: &Path) -> io::Result<Gate> {
        let open = |suffix: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(beside(database, suffix))
        };
        let files = Files { turn: open("-turn")?, gate: open("-gate")? };
        Ok(Gate { files: Arc::new(Mutex::new(Arc::new(files))) })
    }

    /// For the writer thread, which is no part of any runtime.
    pub(crate) fn enter_blocking(&self, op: &'static str) -> Result<Pass, StoreError> {
        let guard = self.files.clone().blocking_lock_owned();
        wait_for(&guard, op)?;
        Ok(Pass { guard })
    }

    /// For a caller's transaction. Queues in the process first, so that it waits its turn behind the writer.
    pub(crate) async fn enter(&self, op: &'static str) -> Result<Pass, StoreError> {
        let guard = self.files.clone().lock_owned().await;
        let files = Arc::clone(&guard);
        let waited = tokio::task::spawn_blocking(move || wait_for(&files, op)).await;
        waited.map_err(|error| crate::error::other(op, error.to_string()))??;
        Ok(Pass { guard })
    }
}

fn wait_for(files: &Files, op: &'static str) -> Result<(), StoreError> {
    let deadline = Instant::now() + PATIENCE;
    lock(&files.turn, deadline, op)?;
    let got = lock(&files.gate, deadline, op);
    let _ = files.turn.unlock();
    got
}

/// Polls instead of blocking: a blocked flock has no time limit, and a stopped process would hang everybody for ever.
fn lock(file: &File, deadline: Instant, op: &'static str) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => {
                return Err(StoreError::Other { store: crate::error::STORE, op, source: error.into() });
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                let source = "another process held the gate for 60 s".into();
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

/// The path with a suffix after the whole file name, as SQLite names its own `-wal`.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
