//! The lock session: shows other processes that this one lives.
//!
//! Owns one connection that holds an advisory lock per worker registered here. The server frees the locks when the
//! process dies, so a sweeper elsewhere sees the death within seconds (`core::sweep`). A lock can also be lost while
//! the process lives. Then its workers send heartbeats until they are locked again, which tells sweepers to wait. Never
//! used behind a pooler, where a session outlives the process.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use windlass_core::WorkerId;

use crate::pool::Pool;

/// Below the second after which a sweeper looks again.
const RETRY_AFTER: Duration = Duration::from_millis(300);
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// Zero turns the timeout off. A server before version 14 does not have it.
const NEVER_IDLE: &str = "set idle_session_timeout = 0";
/// So that the server notices within a lease that the machine of this process is gone.
const KEEP_ALIVE: &str = "
    select set_config('tcp_keepalives_idle', $1, false), set_config('tcp_keepalives_interval', $1, false),
           set_config('tcp_keepalives_count', '3', false)";
const LOCK: &str = "select pg_try_advisory_lock(key) from unnest($1::bigint[]) key";
const UNLOCK: &str = "select pg_advisory_unlock($1)";

pub(crate) struct LockSession {
    commands: Option<mpsc::UnboundedSender<Command>>,
    schema: String,
    task: Mutex<Option<JoinHandle<()>>>,
}

enum Command {
    Lock { key: i64, lease: Duration, locked: oneshot::Sender<bool> },
    Registered { key: i64, worker: WorkerId },
    Release(WorkerId),
}

/// What a lost session needs to tell sweepers that the process lives.
pub(crate) struct Beats {
    pub(crate) pool: Pool,
    pub(crate) heartbeat: Arc<str>,
    pub(crate) offset: Arc<AtomicI64>,
}

impl LockSession {
    pub(crate) fn start(connect: &PgConnectOptions, schema: &str, beats: Option<Beats>) -> LockSession {
        let (commands, task) = match beats {
            Some(beats) => {
                let (commands, received) = mpsc::unbounded_channel();
                let holder = Holder { connect: connect.clone(), beats, locks: HashMap::new(), received };
                (Some(commands), Some(tokio::spawn(holder.run())))
            }
            None => (None, None),
        };
        LockSession { commands, schema: schema.to_owned(), task: Mutex::new(task) }
    }

    /// Locks a new incarnation. `None` without a session: then only an expired lease shows its death.
    pub(crate) async fn lock(&self, lease: Duration) -> Option<i64> {
        let key = RandomState::new().hash_one(&self.schema).cast_signed();
        let (locked, answer) = oneshot::channel();
        self.commands.as_ref()?.send(Command::Lock { key, lease, locked }).ok()?;
        timeout(OPEN_WITHIN, answer).await.ok()?.ok()?.then_some(key)
    }

    pub(crate) fn registered(&self, key: i64, worker: WorkerId) {
        self.send(Command::Registered { key, worker });
    }

    pub(crate) fn release(&self, worker: WorkerId) {
        self.send(Command::Release(worker));
    }

    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }

    fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // Fails only after `stop`, when the session is gone anyway.
            let _ = commands.send(command);
        }
    }
}

struct Lock {
    worker: Option<WorkerId>,
    lease: Duration,
}

struct Holder {
    connect: PgConnectOptions,
    beats: Beats,
    locks: HashMap<i64, Lock>,
    received: mpsc::UnboundedReceiver<Command>,
}

impl Holder {
    async fn run(mut self) {
        let mut session = None;
        loop {
            let command = match &mut session {
                None if self.locks.is_empty() => self.received.recv().await,
                None => {
                    self.beat().await;
                    session = self.open().await;
                    if session.is_none() {
                        sleep(RETRY_AFTER).await;
                    }
                    continue;
                }
                Some(open) => {
                    let keep_alive = self.shortest_lease() / 4;
                    tokio::select! {
                        command = self.received.recv() => command,
                        lives = lives(open, keep_alive) => {
                            if !lives {
                                tracing::warn!("the lock session was lost; its workers send heartbeats until it is back");
                                session = None;
                            }
                            continue;
                        }
                    }
                }
            };
            let Some(command) = command else { return };
            self.follow(command, &mut session).await;
        }
    }

    async fn follow(&mut self, command: Command, session: &mut Option<PgListener>) {
        match command {
            Command::Lock { key, lease, locked } => {
                self.locks.insert(key, Lock { worker: None, lease });
                if session.is_none() {
                    *session = self.open().await;
                } else if let Some(open) = session
                    && !take(open, &[key]).await
                {
                    *session = None;
                }
                if session.is_none() || locked.send(true).is_err() {
                    self.locks.remove(&key);
                }
            }
            Command::Registered { key, worker } => {
                if let Some(lock) = self.locks.get_mut(&key) {
                    lock.worker = Some(worker);
                }
            }
            Command::Release(worker) => {
                let key =
                    self.locks.iter().find(|(_, lock)| lock.worker == Some(worker)).map(|(key, _)| *key);
                let Some(key) = key else { return };
                self.locks.remove(&key);
                if let Some(open) = session
                    && open.execute(sqlx::query(UNLOCK).bind(key)).await.is_err()
                {
                    *session = None;
                }
            }
        }
    }

    fn shortest_lease(&self) -> Duration {
        self.locks.values().map(|lock| lock.lease).min().unwrap_or(Duration::from_secs(60))
    }

    /// A session with all locks.
    async fn open(&self) -> Option<PgListener> {
        let opened = timeout(OPEN_WITHIN, open(&self.connect, self.shortest_lease())).await;
        let mut session = match opened {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the lock session could not be opened; it is tried again");
                return None;
            }
            Err(_) => return None,
        };
        let keys: Vec<i64> = self.locks.keys().copied().collect();
        take(&mut session, &keys).await.then_some(session)
    }

    async fn beat(&self) {
        for worker in self.locks.values().filter_map(|lock| lock.worker) {
            let query = sqlx::query(AssertSqlSafe(self.beats.heartbeat.clone()))
                .bind(self.beats.offset.load(Ordering::Relaxed))
                .bind(worker.0);
            if let Err(error) = query.execute(&self.beats.pool).await {
                tracing::debug!(%worker, %error, "a heartbeat without a lock session failed");
            }
        }
    }
}

/// Waits until the session ends or is due for a sign of life. Reading shows at once that the server closed it.
async fn lives(session: &mut PgListener, keep_alive: Duration) -> bool {
    match timeout(keep_alive, session.try_recv()).await {
        Ok(received) => matches!(received, Ok(Some(_))),
        Err(_) => session.execute("select 1").await.is_ok(),
    }
}

/// False where a session that the server has not given up yet holds a lock: the next try follows soon.
async fn take(session: &mut PgListener, keys: &[i64]) -> bool {
    let query = sqlx::query_scalar::<_, bool>(LOCK).bind(keys.to_vec());
    query.fetch_all(session).await.is_ok_and(|locked| locked.into_iter().all(|locked| locked))
}

async fn open(connect: &PgConnectOptions, lease: Duration) -> Result<PgListener, sqlx::Error> {
    let connect = connect.clone().application_name("windlass lock");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(OPEN_WITHIN)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_with(connect)
        .await?;
    let mut session = PgListener::connect_with(&pool).await?;
    session.eager_reconnect(false);
    // Unknown to older servers, which have no such timeout.
    let _ = session.execute(NEVER_IDLE).await;
    let seconds = (lease.as_secs() / 5).max(1).to_string();
    session.execute(sqlx::query(KEEP_ALIVE).bind(seconds)).await?;
    Ok(session)
}
