//! The one thread that writes.
//!
//! Owns: the only rusqlite connection that writes, and the group commit. All waiting commands go into one
//! transaction, each in its own savepoint, and none is answered before COMMIT returned. Never retries after a disk
//! error: a second fsync may report success for pages that the kernel dropped, so the store stays broken until a
//! restart.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;
use windlass_core::StoreError;
use windlass_core::store::{Wake, Wakers};

use crate::checkpoint::Checkpointer;
use crate::clock::Clock;
use crate::connect;
use crate::error::{self, Answer};
use crate::gate::Gate;
use crate::scope::Scope;
use crate::wake::{CHECK_EVERY, Watch};

/// A transaction takes no further command after this time or this many rows: others wait for the gate.
const HOLD: Duration = Duration::from_millis(4);
const ROWS: usize = 4_000;

/// Why the store takes no more writes; set once.
pub(crate) type Broken = Arc<OnceLock<String>>;

pub(crate) fn broken_error(op: &'static str, why: &str) -> StoreError {
    StoreError::Broken { op, source: why.into() }
}

/// What happened to the transaction of a command.
enum Fate {
    Committed,
    Broken(String),
    Full(String),
    Busy(String),
    Lost(String),
}

impl Fate {
    fn from_sql(error: &rusqlite::Error) -> Fate {
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::SystemIoFailure) => Fate::Broken(text),
            Some(rusqlite::ErrorCode::DiskFull) => Fate::Full(text),
            Some(rusqlite::ErrorCode::DatabaseBusy) => Fate::Busy(text),
            _ => Fate::Lost(text),
        }
    }

    fn from_gate(error: &StoreError) -> Fate {
        match error {
            // The error of the command names its own operation.
            StoreError::Busy { source, .. } => Fate::Busy(source.to_string()),
            other => Fate::Lost(other.chain()),
        }
    }

    fn error(&self, op: &'static str) -> Option<StoreError> {
        match self {
            Fate::Committed => None,
            Fate::Broken(why) => Some(broken_error(op, why)),
            Fate::Full(why) => Some(StoreError::Full { op, source: why.as_str().into() }),
            Fate::Busy(why) => Some(StoreError::Busy { op, source: why.as_str().into() }),
            Fate::Lost(why) => Some(error::other(op, why.as_str())),
        }
    }
}

trait Command: Send {
    fn rows(&self) -> usize;
    /// When it was submitted.
    fn since(&self) -> Instant;
    fn abandoned(&self) -> bool;
    /// Runs the command once. The answer is kept until the outcome of the transaction is known. Returns whether the
    /// command succeeded.
    fn run(&mut self, scope: &mut Scope<'_>) -> bool;
    fn io_failure(&self) -> Option<String>;
    fn was_full(&self) -> bool;
    fn answer(self: Box<Self>, fate: &Fate);
}

struct Closure<T, F> {
    op: &'static str,
    rows: usize,
    since: Instant,
    work: Option<F>,
    result: Option<Answer<T>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Command for Closure<T, F>
where
    T: Send,
    F: FnOnce(&mut Scope<'_>) -> Answer<T> + Send,
{
    fn rows(&self) -> usize {
        self.rows
    }

    fn since(&self) -> Instant {
        self.since
    }

    fn abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, scope: &mut Scope<'_>) -> bool {
        let Some(work) = self.work.take() else { return false };
        let result = catch_unwind(AssertUnwindSafe(|| work(scope)))
            .unwrap_or_else(|_| Err(error::other(self.op, "the command panicked").into()));
        self.result.insert(result).is_ok()
    }

    fn io_failure(&self) -> Option<String> {
        match &self.result {
            Some(Err(fault)) if fault.is_io() => Some(format!("{fault:?}")),
            _ => None,
        }
    }

    fn was_full(&self) -> bool {
        matches!(&self.result, Some(Err(fault)) if fault.is_full())
    }

    fn answer(self: Box<Self>, fate: &Fate) {
        let Closure { op, result, reply, .. } = *self;
        let answer = match (result, fate.error(op)) {
            // A command's own error says more than that of the transaction it was rolled back from.
            (Some(Err(fault)), _) => Err(fault.named(op)),
            (_, Some(error)) => Err(error),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(error::other(op, "the command was not run")),
        };
        // Fails when the caller was dropped.
        let _ = reply.send(answer);
    }
}

enum Message {
    Run(Box<dyn Command>),
    Close(oneshot::Sender<()>),
}

pub(crate) struct Writer {
    queue: Sender<Message>,
    broken: Broken,
}

pub(crate) struct Parts {
    pub(crate) connection: Connection,
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<Clock>,
    pub(crate) wakers: Arc<Wakers>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) broken: Broken,
}

impl Writer {
    pub(crate) fn start(parts: Parts) -> std::io::Result<Writer> {
        let (queue, commands) = channel();
        let broken = parts.broken.clone();
        thread::Builder::new()
            .name("windlass-writer".to_owned())
            .spawn(move || Loop::new(parts).run(&commands))?;
        Ok(Writer { queue, broken })
    }

    /// Runs `work` in a transaction and answers after its commit. `rows` is a rough number of written rows.
    pub(crate) async fn write<T, F>(&self, op: &'static str, rows: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Scope<'_>) -> Answer<T> + Send + 'static,
    {
        if let Some(why) = self.broken.get() {
            return Err(broken_error(op, why));
        }
        let (reply, answer) = oneshot::channel();
        let command = Closure { op, rows, since: Instant::now(), work: Some(work), result: None, reply };
        self.queue.send(Message::Run(Box::new(command))).map_err(|_| error::closed(op))?;
        answer.await.unwrap_or_else(|_| Err(error::closed(op)))
    }

    pub(crate) async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.queue.send(Message::Close(reply)).is_ok() {
            let _ = answer.await;
        }
    }
}

struct Loop {
    parts: Parts,
    watch: Watch,
}

/// Commands that ran in one transaction, and their wake-ups.
#[derive(Default)]
struct Batch {
    ran: Vec<Box<dyn Command>>,
    rows: usize,
    wakes: Vec<Wake>,
    closing: Option<oneshot::Sender<()>>,
}

impl Loop {
    fn new(parts: Parts) -> Loop {
        Loop { parts, watch: Watch::new() }
    }

    fn run(mut self, commands: &Receiver<Message>) {
        let mut closing = None;
        while closing.is_none() {
            match commands.recv_timeout(CHECK_EVERY) {
                Ok(Message::Run(first)) => closing = self.transaction(first, commands),
                Ok(Message::Close(reply)) => closing = Some(reply),
                Err(RecvTimeoutError::Timeout) => self.parts.checkpointer.idle(&self.parts.connection),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.watch.changed(&self.parts.connection) {
                self.parts.wakers.call(Wake::Any);
                self.parts.checkpointer.check_log(&self.parts.connection);
            }
        }
        // Closes the connection before answering: the caller may then delete the file.
        drop(self);
        if let Some(reply) = closing {
            let _ = reply.send(());
        }
    }

    fn transaction(
        &mut self,
        first: Box<dyn Command>,
        commands: &Receiver<Message>,
    ) -> Option<oneshot::Sender<()>> {
        let mut batch = Batch::default();
        if let Some(why) = self.parts.broken.get() {
            first.answer(&Fate::Broken(why.clone()));
            return None;
        }
        let pass = match self.parts.gate.enter_blocking("write", first.since()) {
            Ok(pass) => pass,
            Err(error) => {
                first.answer(&Fate::from_gate(&error));
                return None;
            }
        };
        let patience = self.parts.gate.patience;
        // One timeout for the gate and for SQLite's own lock.
        connect::wait_until(Some(first.since() + patience));
        let begun = self.parts.connection.prepare_cached("begin immediate").and_then(|mut s| s.execute([]));
        connect::wait_until(None);
        if let Err(error) = begun {
            batch.ran.push(first);
            let fate = match Fate::from_sql(&error) {
                Fate::Busy(_) => Fate::Busy(error::held_outside(patience)),
                fate => fate,
            };
            return self.finish(batch, &fate);
        }
        let lost = self.fill(&mut batch, first, commands);
        let fate = lost.unwrap_or_else(|| self.commit());
        drop(pass);
        self.finish(batch, &fate)
    }

    /// Runs all waiting commands. Returns an outcome when SQLite rolled back the whole transaction.
    fn fill(&self, batch: &mut Batch, first: Box<dyn Command>, commands: &Receiver<Message>) -> Option<Fate> {
        let started = Instant::now();
        let mut scope = Scope::new(&self.parts.connection, self.parts.clock.now());
        let mut next = Some(first);
        while let Some(mut command) = next.take() {
            if !command.abandoned() {
                batch.rows += command.rows();
                scope.now = self.parts.clock.now();
                let lost = run_isolated(command.as_mut(), &mut scope);
                batch.ran.push(command);
                if lost.is_some() {
                    return lost;
                }
            }
            if batch.rows >= ROWS || started.elapsed() >= HOLD {
                break;
            }
            match commands.try_recv() {
                Ok(Message::Run(command)) => next = Some(command),
                Ok(Message::Close(reply)) => batch.closing = Some(reply),
                Err(_) => {}
            }
        }
        batch.wakes = scope.into_wakes();
        None
    }

    fn commit(&self) -> Fate {
        let connection = &self.parts.connection;
        match connection.prepare_cached("commit").and_then(|mut statement| statement.execute([])) {
            Ok(_) => Fate::Committed,
            Err(error) => {
                if !connection.is_autocommit() {
                    let _ = connection.execute_batch("rollback");
                }
                Fate::from_sql(&error)
            }
        }
    }

    fn finish(&mut self, batch: Batch, fate: &Fate) -> Option<oneshot::Sender<()>> {
        let failed = batch.ran.iter().find_map(|command| command.io_failure());
        if let Fate::Broken(why) = fate {
            let _ = self.parts.broken.set(why.clone());
        } else if let Some(why) = failed {
            let _ = self.parts.broken.set(why);
        }
        for command in batch.ran {
            command.answer(fate);
        }
        if matches!(fate, Fate::Committed) {
            for wake in batch.wakes {
                self.parts.wakers.call(wake);
            }
            self.parts.checkpointer.after_commit(&self.parts.connection, batch.rows);
        }
        batch.closing
    }
}

/// Runs one command in a savepoint, so that its failure undoes only itself. `Some` when SQLite rolled back
/// everything.
fn run_isolated(command: &mut dyn Command, scope: &mut Scope<'_>) -> Option<Fate> {
    let connection = scope.connection;
    let plain = |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    if let Err(error) = plain("savepoint windlass_command") {
        let _ = connection.execute_batch("rollback");
        return Some(Fate::from_sql(&error));
    }
    let mark = scope.mark();
    let done = command.run(scope);
    let ended = if done {
        plain("release windlass_command")
    } else {
        scope.back_to(mark);
        plain("rollback to windlass_command").and_then(|_| plain("release windlass_command"))
    };
    let error = ended.err()?;
    // After a full disk or a failed write SQLite rolls back the whole transaction itself.
    if !connection.is_autocommit() {
        let _ = connection.execute_batch("rollback");
    }
    Some(match command.io_failure() {
        Some(why) => Fate::Broken(why),
        None if command.was_full() => Fate::Full("the disk is full".to_owned()),
        None if done => Fate::from_sql(&error),
        None => Fate::Lost(format!("another command of the same commit failed: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use windlass_core::{Store, StoreError};

    use crate::{SqliteOptions, SqliteStore};

    fn open(folder: &tempfile::TempDir) -> SqliteStore {
        SqliteStore::open(folder.path().join("windlass.db"), SqliteOptions::default()).unwrap()
    }

    #[tokio::test]
    async fn a_panicking_command_is_undone_and_the_writer_lives() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        let panicked = store
            .write("panic", 1, |scope| {
                scope.connection.execute_batch("create table t (x)")?;
                if scope.now.0 > 0 {
                    panic!("on purpose");
                }
                Ok(())
            })
            .await;
        assert!(matches!(panicked, Err(StoreError::Other { op: "panic", .. })), "{panicked:?}");
        store
            .write("again", 1, |scope| Ok(scope.connection.execute_batch("create table t (x)")?))
            .await
            .unwrap();
    }

    /// Page one is in the log and no longer in the cache, so BEGIN itself reads from the disk.
    #[tokio::test]
    async fn a_disk_that_fails_at_begin_breaks_the_store_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        store.migrate_up(None).await.unwrap();
        let outside = rusqlite::Connection::open(folder.path().join("windlass.db")).unwrap();
        outside.execute_batch("create table t (x)").unwrap();
        let log = folder.path().join("windlass.db-wal");
        std::fs::OpenOptions::new().write(true).open(log).unwrap().set_len(0).unwrap();
        let failed = store.heartbeat(windlass_core::WorkerId(1)).await;
        assert!(matches!(failed, Err(StoreError::Broken { op: "heartbeat", .. })), "{failed:?}");
        assert!(store.shared.broken.get().is_some());
    }

    #[tokio::test]
    async fn once_broken_nothing_is_written_until_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        store.migrate_up(None).await.unwrap();
        store.shared.broken.set("fsync failed".to_owned()).unwrap();
        assert!(matches!(store.heartbeat(windlass_core::WorkerId(1)).await, Err(StoreError::Broken { .. })));
        assert!(matches!(store.begin().await, Err(StoreError::Broken { .. })));
        assert!(store.queues().await.is_ok(), "reads still work");
        open(&folder).sync_registry(&[], &[], None).await.unwrap();
    }
}
