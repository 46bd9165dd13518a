//! Opening the store: address, pool, schema name, clock offset.
//!
//! Owns [`PostgresStore`] and the rendering of statements for its schema. Never implements a method of the contract.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqlStr};
use windlass_core::{JobState, StoreError};

use crate::hint::{Hints, Noted};
use crate::limit;
use crate::pool::{Pool, settings};
use crate::session::{Beats, LockSession};
use crate::wake::Waker;
use crate::warm::TRUSTED_IDLE;
use crate::worker::HEARTBEAT;

#[derive(Clone, Debug)]
pub struct Options {
    /// Connections in the pool. The listening connection is additional, and so are the connections for transactions
    /// from `begin`, at most as many again, opened when needed.
    pub pool_size: u32,
    /// LISTEN and NOTIFY between processes. Without them work is found only by polling.
    pub notify: bool,
    /// How long a call waits for a free connection before it fails.
    pub acquire_timeout: Duration,
    /// How long one statement may run before the server stops it.
    pub statement_timeout: Duration,
    /// The address is a pooler that may run each transaction in another session, such as PgBouncer. Needed in session
    /// mode too, because PgBouncer rejects settings in the startup message. Turns LISTEN and NOTIFY off, whatever
    /// `notify` says.
    pub pooler: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pool_size: 10,
            notify: true,
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            pooler: false,
        }
    }
}

/// Cheap to clone; all clones share one pool.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) pool: Pool,
    /// Connections for callers' transactions, with the settings of the server and the address instead of ours. They
    /// are separate because a plan made there would be cached, and because callers must not take the connections that
    /// heartbeats need.
    pub(crate) callers: Pool,
    pub(crate) schema: String,
    pub(crate) waker: Arc<Waker>,
    pub(crate) lock_session: Arc<LockSession>,
    pub(crate) hints: Arc<Hints>,
    /// Queues with a global concurrency.
    pub(crate) limited: Arc<Noted>,
    offset: Arc<AtomicI64>,
    rendered: Arc<RwLock<Rendered>>,
    _listens: Arc<Listens>,
}

/// Statements for this schema, by address and length of their text.
type Rendered = HashMap<(usize, usize), Arc<str>>;

/// Stops the background tasks with the last clone. They hold the pool: a handle dropped without `close` would
/// otherwise keep its sessions for ever.
struct Listens(Arc<Waker>, Arc<LockSession>);

impl Drop for Listens {
    fn drop(&mut self) {
        self.0.abandon();
        self.1.stop();
    }
}

const DEFAULT_SCHEMA: &str = "windlass";
/// PgBouncer's answer to settings in the startup message. No Postgres server sends it.
const POOLER_REFUSES: &str = "unsupported startup parameter";
const A_POOLER: &str =
    "the address is a pooler (PgBouncer): set `database.pooler = true`, in session mode too";
/// How long connections may be refused before the server counts as down.
const REFUSED_FOR: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

impl PostgresStore {
    /// `url` is a Postgres address. Its parameter `schema=NAME` names our schema.
    pub async fn connect(url: &str, options: Options) -> Result<PostgresStore, StoreError> {
        let (url, schema) = split_schema(url)?;
        let open = |why: String| StoreError::Open { what: "Postgres".to_owned(), why };
        let settings = settings(options.statement_timeout);
        let connect: PgConnectOptions = url.parse::<PgConnectOptions>().map_err(|e| open(e.to_string()))?;
        let connect = match connect.get_host() {
            "127.0.0.1" | "localhost" | "::1" if !names_ssl_mode(&url) => {
                connect.ssl_mode(PgSslMode::Disable)
            }
            _ => connect,
        };
        let connect = connect.application_name("windlass");
        let pooled = || {
            PgPoolOptions::new()
                .max_connections(options.pool_size.max(2))
                .acquire_timeout(options.acquire_timeout)
                .test_before_acquire(false)
                .before_acquire(|conn, meta| {
                    Box::pin(async move { Ok(meta.idle_for < TRUSTED_IDLE || conn.ping().await.is_ok()) })
                })
        };
        let opened = |error| match error {
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => crate::error::translate("connect", error),
            sqlx::Error::Database(said) if said.message().contains(POOLER_REFUSES) => {
                open(format!("{}; {A_POOLER}", said.message()))
            }
            other => open(other.to_string()),
        };
        // A pooler rejects these settings at startup, so each transaction sets them instead.
        let connect = match options.pooler {
            true => connect.statement_cache_capacity(0).extra_float_digits(None),
            false => connect,
        };
        let (callers, ours) = (
            pooled().connect_lazy_with(connect.clone()),
            match options.pooler {
                true => connect,
                false => connect.options(settings.clone()),
            },
        );
        check_reachable(&ours, options.acquire_timeout).await?;
        let pool = pooled().connect_with(ours.clone()).await.map_err(opened)?;
        let (pool, callers) = match options.pooler {
            true => (Pool::through_pooler(pool, &settings), Pool::through_pooler(callers, &[])),
            false => (Pool::direct(pool), Pool::direct(callers)),
        };
        let hints = Arc::new(Hints::default());
        let notify = options.notify && !options.pooler;
        let waker = Waker::start(&pool, &ours, &schema, notify, hints.clone());
        let offset: Arc<AtomicI64> = Arc::default();
        let beats = notify.then(|| Beats {
            pool: pool.clone(),
            heartbeat: render(HEARTBEAT, &schema).into(),
            offset: offset.clone(),
        });
        let lock_session = Arc::new(LockSession::start(&ours, &schema, beats));
        Ok(PostgresStore {
            _listens: Arc::new(Listens(waker.clone(), lock_session.clone())),
            pool,
            callers,
            schema,
            waker,
            lock_session,
            hints,
            limited: Arc::default(),
            offset,
            rendered: Arc::default(),
        })
    }

    /// The schema all tables live in.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    pub(crate) fn do_set_clock_offset(&self, micros: i64) {
        self.offset.store(micros, Ordering::Relaxed);
        self.hints.forget();
    }

    /// Renders a statement written for `windlass.` for this store's schema, once.
    pub(crate) fn sql(&self, statement: &'static str) -> AssertSqlSafe<Arc<str>> {
        let key = (statement.as_ptr() as usize, statement.len());
        if let Some(text) = self.rendered.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return AssertSqlSafe(text.clone());
        }
        let text: Arc<str> = self.render(statement).into();
        self.rendered.write().unwrap_or_else(PoisonError::into_inner).insert(key, text.clone());
        AssertSqlSafe(text)
    }

    /// All statements sent so far, with the default schema name; for the golden file of the tests.
    #[doc(hidden)]
    pub fn statements(&self) -> Vec<String> {
        let rendered = self.rendered.read().unwrap_or_else(PoisonError::into_inner);
        rendered.values().map(|text| text.replace(&format!("{}.", self.schema), "windlass.")).collect()
    }

    /// The schema's name was checked when the store was opened: no caller's text gets into a statement.
    pub(crate) fn render(&self, statement: &str) -> String {
        render(statement, &self.schema)
    }

    pub(crate) fn dynamic(&self, statement: &str) -> SqlStr {
        sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(self.render(statement)))
    }
}

fn render(statement: &str, schema: &str) -> String {
    let statement = limit::render(&JobState::render(&without_comments(statement)));
    if schema == DEFAULT_SCHEMA {
        return statement;
    }
    statement.replace("windlass.", &format!("{schema}."))
}

/// The server's views and logs show only the beginning of a statement.
fn without_comments(statement: &str) -> String {
    let lines: Vec<&str> = statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    lines.join("\n")
}

/// Opens one connection before the pool does: the pool retries until its time is up and then reports no cause. A
/// restarting server refuses connections for a moment; one that refuses for longer is down.
async fn check_reachable(connect: &PgConnectOptions, patience: Duration) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        let why = match tokio::time::timeout(patience, PgConnection::connect_with(connect)).await {
            // The pool reports errors about user and database itself.
            Ok(Ok(_) | Err(sqlx::Error::Database(_))) => return Ok(()),
            Ok(Err(sqlx::Error::Io(error))) if begun.elapsed() < REFUSED_FOR && is_refusal(&error) => {
                tokio::time::sleep(BETWEEN_TRIES).await;
                continue;
            }
            Ok(Err(sqlx::Error::Io(error))) => match error.kind() {
                ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                _ => error.to_string(),
            },
            Ok(Err(_)) => return Ok(()),
            Err(_) => format!("no answer within {} s", patience.as_secs()),
        };
        let place = match connect.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", connect.get_host(), connect.get_port()),
        };
        let source = format!("cannot connect to {place}: {why}").into();
        return Err(StoreError::Unavailable { store: crate::error::STORE, op: "connect", source });
    }
}

/// Answers of a restarting server.
fn is_refusal(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}

/// Loopback traffic cannot be intercepted, and TLS halves the throughput there: sqlx 0.9.0 does not set TCP_NODELAY
/// (transact-rs/sqlx#4335), so a batch split into TLS records waits 40 ms for an acknowledgement. An explicit
/// `sslmode` turns TLS on.
fn names_ssl_mode(url: &str) -> bool {
    url.contains("sslmode=") || url.contains("ssl-mode=") || std::env::var_os("PGSSLMODE").is_some()
}

/// Removes our own `schema` parameter from the address.
fn split_schema(url: &str) -> Result<(String, String), StoreError> {
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), DEFAULT_SCHEMA.to_owned()));
    };
    let mut schema = DEFAULT_SCHEMA.to_owned();
    let mut rest = Vec::new();
    for pair in query.split('&') {
        match pair.strip_prefix("schema=") {
            Some(name) => schema = name.to_owned(),
            None => rest.push(pair),
        }
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if !starts || !schema.chars().all(fits) || schema.len() > 48 {
        return Err(StoreError::Open {
            what: "Postgres".to_owned(),
            why: format!("schema `{schema}` must be 1–48 of a–z 0–9 _ and not start with a digit"),
        });
    }
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((url, schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_parameter_is_removed_from_the_address() {
        let split = |url: &str| split_schema(url).unwrap();
        assert_eq!(split("postgres://h/d"), ("postgres://h/d".to_owned(), "windlass".to_owned()));
        assert_eq!(
            split("postgres://h/d?sslmode=require&schema=t_1"),
            ("postgres://h/d?sslmode=require".to_owned(), "t_1".to_owned())
        );
        assert_eq!(split("postgres://h/d?schema=x"), ("postgres://h/d".to_owned(), "x".to_owned()));
        for bad in ["1a", "A", "a;drop", "", "a-b"] {
            assert!(split_schema(&format!("postgres://h/d?schema={bad}")).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_server_is_named_soon() {
        let begun = Instant::now();
        let opened = PostgresStore::connect("postgres://me@127.0.0.1:1/none", Options::default()).await;
        let said = opened.err().unwrap().chain();
        assert!(said.ends_with("cannot connect to 127.0.0.1:1: connection refused"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
