//! The checkpointer: keeps the write-ahead log bounded without long pauses.
//!
//! Owns: when pages move from the log into the database. A separate thread copies most pages; the writer then
//! copies the few that were added meanwhile, so that its next commit restarts the log from the beginning. If a
//! reader prevents that for long, the log is cut with TRUNCATE as soon as the reader ends. Overlapping short
//! readers would prevent it for ever. For them the writer pauses briefly: new readers then find everything in the
//! database, and the old ones end. Never runs inside a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::error::is_io;
use crate::writer::Broken;

/// Rows written between two checks of the log's length.
const CHECK_AFTER_ROWS: usize = 256;
const TRUNCATE_FACTOR: i64 = 4;
const TRUNCATE_PAUSE: Duration = Duration::from_secs(1);
/// How long the writer waits for readers to end. Twice the longest expected read, because readers that begin during
/// the copy count too.
const READER_WAIT: Duration = Duration::from_millis(500);
/// A reader that outlasted one wait will probably outlast the next, so the pause between waits doubles up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(crate) struct Checkpointer {
    start: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    copied: Arc<AtomicBool>,
    broken: Broken,
    pages: i64,
    rows: usize,
    truncated: Option<Instant>,
    /// The log was too long at the last check.
    over: bool,
    /// When the writer may next wait for readers, and the pause after a wait that failed.
    next_wait_at: Instant,
    pause: Duration,
}

/// The answer of `PRAGMA wal_checkpoint`.
#[derive(Clone, Copy)]
struct Log {
    pages: i64,
    copied: i64,
}

impl Checkpointer {
    /// `connection` belongs to the thread. Copying begins when the log has `pages` pages.
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
            next_wait_at: Instant::now(),
            pause: TRUNCATE_PAUSE,
        })
    }

    pub(crate) fn after_commit(&mut self, connection: &Connection, rows: usize) {
        if self.copied.swap(false, Ordering::Acquire) {
            self.run(connection, "pragma wal_checkpoint(passive)");
        }
        self.rows += rows.max(1);
        if self.rows >= CHECK_AFTER_ROWS {
            self.check_log(connection);
        }
    }

    /// Called by an idle writer: a log that a reader kept long is cut now instead of at the next burst.
    pub(crate) fn idle(&mut self, connection: &Connection) {
        if self.over && self.truncated.is_none_or(|at| at.elapsed() >= TRUNCATE_PAUSE) {
            self.check_log(connection);
        }
    }

    /// Starts whatever the length of the log calls for.
    pub(crate) fn check_log(&mut self, connection: &Connection) {
        self.rows = 0;
        let Some(log) = self.run(connection, "pragma wal_checkpoint(noop)") else { return };
        // TRUNCATE comes first because it fails while the thread is copying.
        self.over = log.pages >= self.pages * TRUNCATE_FACTOR;
        if self.over && (self.truncate(connection) || self.truncate_after_readers(connection)) {
            self.over = false;
            return;
        }
        if log.pages - log.copied >= self.pages {
            // A full channel means that the thread is already working.
            let _ = self.start.as_ref().map(|start| start.try_send(()));
        }
    }

    /// Returns whether the log is empty now.
    fn truncate(&mut self, connection: &Connection) -> bool {
        if self.truncated.is_some_and(|at| at.elapsed() < TRUNCATE_PAUSE) {
            return false;
        }
        self.truncated = Some(Instant::now());
        // Without a busy handler TRUNCATE fails at once when a reader holds the log.
        let _ = connection.busy_handler(None);
        self.run_truncate(connection)
    }

    /// Like `truncate`, but waits for readers.
    fn truncate_after_readers(&mut self, connection: &Connection) -> bool {
        if Instant::now() < self.next_wait_at {
            return false;
        }
        let _ = connection.busy_timeout(READER_WAIT);
        let empty = self.run_truncate(connection);
        self.pause = if empty { TRUNCATE_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        self.next_wait_at = Instant::now() + self.pause;
        empty
    }

    fn run_truncate(&self, connection: &Connection) -> bool {
        let log = self.run(connection, "pragma wal_checkpoint(truncate)");
        let _ = connection.busy_handler(Some(crate::connect::retry_busy));
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
            // After a failed sync the next one may report success wrongly.
            if is_io(&error) {
                let _ = broken.set(error.to_string());
            }
            None
        }
    }
}
