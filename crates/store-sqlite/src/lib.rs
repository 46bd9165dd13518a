//! The store on one SQLite file.
//!
//! Owns: everything between the contract in `windlass-core` and the file. One thread writes, with group commit,
//! behind a gate that is fair between processes. Two threads read. A fourth moves pages out of the write-ahead log.
//! Callers' transactions go through sqlx and run the same code. Never decides a rule: verdicts come in, rows go
//! out.
//!
//! File names match `windlass-store-postgres`, so the two can be compared.

mod act;
mod audit;
mod backup;
pub mod bench_limit;
mod budget;
mod checkpoint;
mod claim;
mod clock;
mod connect;
mod end;
mod enqueue;
mod entity;
mod error;
mod examine;
mod gate;
mod lane;
mod late;
mod lease;
mod limit;
mod migrate;
mod poll;
mod prune;
mod query;
mod rate;
mod raw;
mod reader;
mod reclaim;
mod registry;
mod report;
mod resource;
mod rollup;
mod row;
mod schedule;
mod scope;
mod settle;
mod sql;
mod store;
mod tx;
mod unique;
mod version;
mod wake;
mod window;
mod worker;
mod workflow;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use windlass_core::store::Wakers;
use windlass_core::{StoreError, Time};

use crate::checkpoint::Checkpointer;
use crate::clock::Clock;
use crate::error::Answer;
use crate::gate::{Gate, PATIENCE};
use crate::reader::Readers;
use crate::scope::Scope;
use crate::tx::Idle;
use crate::worker::Locks;
use crate::writer::{Broken, Parts, Writer};

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Create the file and its folder when they are missing.
    pub create: bool,
    /// The log length, in pages, at which pages are moved into the database.
    pub checkpoint_pages: u32,
    /// The largest size of the database in pages. `None` is no limit.
    pub max_pages: Option<u32>,
    /// How long a call waits in total for other writers, in this process or another, before it fails as busy.
    pub statement_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { create: true, checkpoint_pages: 10_000, max_pages: None, statement_timeout: PATIENCE }
    }
}

/// A handle on the file; clones share it.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    /// Absolute and without symlinks, to compare with a caller's connection.
    path: PathBuf,
    clock: Arc<Clock>,
    wakers: Arc<Wakers>,
    gate: Gate,
    writer: Writer,
    readers: Readers,
    locks: Arc<Locks>,
    idle: Arc<Idle>,
    broken: Broken,
    closed: AtomicBool,
}

impl Shared {
    fn check_open(&self, op: &'static str) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) { Err(error::closed(op)) } else { Ok(()) }
    }
}

impl SqliteStore {
    /// Opens the file. `migrate_up` creates the schema.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let (path, patience) = (path.as_ref(), options.statement_timeout);
        if let Some(why) = version::unfit(rusqlite::version_number()) {
            let what = format!("SQLite {}", rusqlite::version());
            return Err(StoreError::Open { what, why: why.to_owned() });
        }
        connect::prepare(path, options.create)?;
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The gate's files come first: they show whether the folder is writable before the database is touched.
        let gate = Gate::open(path, patience)
            .map_err(|e| connect::refuse(path, connect::folder_trouble(folder, &e)))?;
        let refused = |error: rusqlite::Error| connect::refuse(path, error.to_string());
        let connection = connect::writing(path).map_err(refused)?;
        if let Some(pages) = options.max_pages {
            connection.execute_batch(&format!("pragma max_page_count = {pages}")).map_err(refused)?;
        }
        let path = std::fs::canonicalize(path).map_err(|e| connect::refuse(path, e.to_string()))?;
        let thread = |e: std::io::Error| connect::refuse(&path, format!("could not start a thread: {e}"));
        let (clock, wakers, broken) = (Arc::<Clock>::default(), Arc::<Wakers>::default(), Broken::default());
        let checkpointer = Checkpointer::start(
            connect::writing(&path).map_err(refused)?,
            options.checkpoint_pages,
            broken.clone(),
        )
        .map_err(thread)?;
        let readers = Readers::start(&path)?;
        let writer = Writer::start(Parts {
            connection,
            gate: gate.clone(),
            clock: clock.clone(),
            wakers: wakers.clone(),
            checkpointer,
            broken: broken.clone(),
        })
        .map_err(thread)?;
        let (locks, idle) = (Arc::new(Locks::new(&path)), Arc::<Idle>::default());
        let closed = AtomicBool::new(false);
        let shared = Shared { path, clock, wakers, gate, writer, readers, locks, idle, broken, closed };
        Ok(SqliteStore { shared: Arc::new(shared) })
    }

    fn now_here(&self) -> Time {
        self.shared.clock.now()
    }

    async fn read<T, F>(&self, op: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Answer<T> + Send + 'static,
    {
        self.shared.check_open(op)?;
        self.shared.readers.read(op, work).await
    }

    async fn write<T, F>(&self, op: &'static str, rows: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Scope<'_>) -> Answer<T> + Send + 'static,
    {
        self.shared.check_open(op)?;
        self.shared.writer.write(op, rows, work).await
    }

    async fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.writer.close().await;
        self.shared.idle.close().await;
        let shared = self.shared.clone();
        let _ = tokio::task::spawn_blocking(move || shared.readers.close()).await;
        self.shared.locks.release_all();
    }
}
