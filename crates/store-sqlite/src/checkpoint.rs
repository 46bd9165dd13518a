//! The one checkpointer: keeps the write-ahead log bounded without long pauses.
//!
//! Owns: when pages move from the log into the database. The bulk is copied by a thread beside the writer; the writer
//! then copies the few pages that came meanwhile, so that its next commit starts the log from the front again. When
//! a reader prevents that for long, the log is cut with TRUNCATE as soon as the reader is gone. Short readers that
//! follow each other without a gap would prevent it for ever: for them alone the writer stands still for a moment, in
//! which new readers find everything in the database and the old ones end. Never runs inside a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::error::is_io;
use crate::writer::Broken;

/// Rows written between two looks at the length of the log.
const LOOK_AFTER_ROWS: usize = 256;
const TRUNCATE_FACTOR: i64 = 4;
const TRUNCATE_PAUSE: Duration = Duration::from_secs(1);
/// How long the writer waits for readers to end: twice what the longest of them may take, because those that begin
/// while the log is copied are waited for too.
const PATIENCE: Duration = Duration::from_millis(500);
/// A reader that outlasts the patience does so again: the writer stands still for it ever more rarely, in the end for
/// half a second a minute.
const LONGEST_REST: Duration = Duration::from_secs(60);

pub(crate) struct Checkpointer {
    start: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    copied: Arc<AtomicBool>,
    broken: Broken,
    pages: i64,
    rows: usize,
    truncated: Option<Instant>,
    /// The log was too long at the last look.
    over: bool,
    /// When the writer may next wait for readers, and how long it rests after doing so in vain.
    insist_at: Instant,
    rest: Duration,
}

/// The answer of `PRAGMA wal_checkpoint`.
#[derive(Clone, Copy)]
struct Log {
    pages: i64,
    copied: i64,
}

impl Checkpointer {
    /// `connection` is the thread's own; `pages` is the length of the log at which copying begins.
    pub(crate) fn start(connection: Connection, pages: u32, broken: Broken) -> std::io::Result<Checkpointer> {
        let (start, orders) = sync_channel(1);
        let copied = Arc::new(AtomicBool::new(false));
        let (done, health) = (copied.clone(), broken.clone());
        let thread = thread::Builder::new()
            .name("windlass-checkpoint".to_owned())
            .spawn(move || serve(&connection, &orders, &done, &health))?;
        let (start, thread) = (Some(start), Some(thread));
        Ok(Checkpointer {
            start,
            thread,
            copied,
            broken,
            pages: i64::from(pages),
            rows: 0,
            truncated: None,
            over: false,
            insist_at: Instant::now(),
            rest: TRUNCATE_PAUSE,
        })
    }

    pub(crate) fn after_commit(&mut self, connection: &Connection, rows: usize) {
        if self.copied.swap(false, Ordering::Acquire) {
            self.run(connection, "pragma wal_checkpoint(passive)");
        }
        self.rows += rows.max(1);
        if self.rows >= LOOK_AFTER_ROWS {
            self.look(connection);
        }
    }

    /// For a writer without work: a log that was left long because of a reader is not left so until the next burst.
    pub(crate) fn idle(&mut self, connection: &Connection) {
        if self.over && self.truncated.is_none_or(|at| at.elapsed() >= TRUNCATE_PAUSE) {
            self.look(connection);
        }
    }

    /// Starts what the length of the log asks for.
    pub(crate) fn look(&mut self, connection: &Connection) {
        self.rows = 0;
        let Some(log) = self.run(connection, "pragma wal_checkpoint(noop)") else { return };
        // First, because it fails while the thread is copying.
        self.over = log.pages >= self.pages * TRUNCATE_FACTOR;
        if self.over && (self.truncate(connection) || self.insist(connection)) {
            self.over = false;
            return;
        }
        if log.pages - log.copied >= self.pages {
            // Full means the thread is at work already.
            let _ = self.start.as_ref().map(|start| start.try_send(()));
        }
    }

    /// True when the log is empty now.
    fn truncate(&mut self, connection: &Connection) -> bool {
        if self.truncated.is_some_and(|at| at.elapsed() < TRUNCATE_PAUSE) {
            return false;
        }
        self.truncated = Some(Instant::now());
        // Without a busy handler TRUNCATE gives up at once when a reader holds the log.
        let _ = connection.busy_handler(None);
        self.cut(connection)
    }

    /// The same with some patience.
    fn insist(&mut self, connection: &Connection) -> bool {
        if Instant::now() < self.insist_at {
            return false;
        }
        let _ = connection.busy_timeout(PATIENCE);
        let empty = self.cut(connection);
        self.rest = if empty { TRUNCATE_PAUSE } else { (self.rest * 2).min(LONGEST_REST) };
        self.insist_at = Instant::now() + self.rest;
        empty
    }

    fn cut(&self, connection: &Connection) -> bool {
        let log = self.run(connection, "pragma wal_checkpoint(truncate)");
        let _ = connection.busy_handler(Some(crate::connect::wait_a_little));
        log.is_some_and(|log| log.pages == 0)
    }

    fn run(&self, connection: &Connection, sql: &str) -> Option<Log> {
        checkpoint(connection, sql, &self.broken)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.start.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(connection: &Connection, orders: &Receiver<()>, copied: &AtomicBool, broken: &Broken) {
    while orders.recv().is_ok() {
        if checkpoint(connection, "pragma wal_checkpoint(passive)", broken).is_some() {
            copied.store(true, Ordering::Release);
        }
    }
}

fn checkpoint(connection: &Connection, sql: &str, broken: &Broken) -> Option<Log> {
    let answer = connection.prepare_cached(sql).and_then(|mut statement| {
        statement.query_row([], |row| Ok(Log { pages: row.get(1)?, copied: row.get(2)? }))
    });
    match answer {
        Ok(log) => Some(log),
        Err(error) => {
            // A sync that failed once may lie the next time.
            if is_io(&error) {
                let _ = broken.set(error.to_string());
            }
            None
        }
    }
}
