//! Opening the store: address, pool, schema name, clock offset.
//!
//! Owns [`PostgresStore`] and the rendering of statements for its schema. Never runs a job verb itself.

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
use crate::wake::Waker;
use crate::warm::TRUSTED_IDLE;

#[derive(Clone, Debug)]
pub struct Options {
    /// Connections in the pool; the one that listens comes on top, and as many again at most, opened when they are
    /// needed, for the transactions that `begin` hands out.
    pub pool_size: u32,
    /// LISTEN and NOTIFY between processes. Off, work is found by polling alone.
    pub notify: bool,
    /// How long a call waits for a free connection before it fails.
    pub acquire_timeout: Duration,
    /// How long one statement may run before the server stops it.
    pub statement_timeout: Duration,
    /// The address is that of a pooler that may give each transaction another session (PgBouncer, in session mode too: it
    /// takes no settings at the start of one). LISTEN and NOTIFY are off then, whatever `notify` says.
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
    /// For callers' transactions: as the server and the address set it up, without what suits our own statements. Apart
    /// also because a plan made there would be kept, and because callers must not take the connections heartbeats need.
    pub(crate) callers: Pool,
    pub(crate) schema: String,
    pub(crate) waker: Arc<Waker>,
    pub(crate) hints: Arc<Hints>,
    /// Queues with a global concurrency.
    pub(crate) limited: Arc<Noted>,
    offset: Arc<AtomicI64>,
    rendered: Arc<RwLock<Rendered>>,
    _listens: Arc<Listens>,
}

/// Statements for this schema, by address and length of their text.
type Rendered = HashMap<(usize, usize), Arc<str>>;

/// While any clone is there. The waker's tasks hold the pool: without this a handle dropped without `close` keeps its
/// sessions for ever.
struct Listens(Arc<Waker>);

impl Drop for Listens {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

const DEFAULT_SCHEMA: &str = "windlass";
/// How PgBouncer answers a session that wants settings of its own. No server says so.
const POOLER_REFUSES: &str = "unsupported startup parameter";
const A_POOLER: &str =
    "the address is a pooler's (PgBouncer): set `database.pooler = true`, in session mode too";
/// How long a connection may be refused before the server counts as not there.
const REFUSED_FOR: Duration = Duration::from_secs(2);
const BETWEEN_KNOCKS: Duration = Duration::from_millis(200);

impl PostgresStore {
    /// `url` is a Postgres address; `schema=NAME` among its parameters names our schema.
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
        // What a session would remember is said in each transaction; a pooler refuses to be told more at the start.
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
        knock(&ours, options.acquire_timeout).await?;
        let pool = pooled().connect_with(ours.clone()).await.map_err(opened)?;
        let (pool, callers) = match options.pooler {
            true => (Pool::through_pooler(pool, &settings), Pool::through_pooler(callers, &[])),
            false => (Pool::direct(pool), Pool::direct(callers)),
        };
        let hints = Arc::new(Hints::default());
        let notify = options.notify && !options.pooler;
        let waker = Waker::start(&pool, &ours, &schema, notify, hints.clone());
        Ok(PostgresStore {
            pool,
            callers,
            schema,
            _listens: Arc::new(Listens(waker.clone())),
            waker,
            hints,
            limited: Arc::default(),
            offset: Arc::default(),
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

    /// A statement written against `windlass.` for this store's schema, rendered once.
    pub(crate) fn sql(&self, statement: &'static str) -> AssertSqlSafe<Arc<str>> {
        let key = (statement.as_ptr() as usize, statement.len());
        if let Some(text) = self.rendered.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return AssertSqlSafe(text.clone());
        }
        let text: Arc<str> = self.render(statement).into();
        self.rendered.write().unwrap_or_else(PoisonError::into_inner).insert(key, text.clone());
        AssertSqlSafe(text)
    }

    /// What was sent so far, with the schema's usual name; for the golden file of the tests.
    #[doc(hidden)]
    pub fn statements(&self) -> Vec<String> {
        let rendered = self.rendered.read().unwrap_or_else(PoisonError::into_inner);
        rendered.values().map(|text| text.replace(&format!("{}.", self.schema), "windlass.")).collect()
    }

    /// The schema's name was checked when the store was opened: nothing of a caller's gets into the text.
    pub(crate) fn render(&self, statement: &str) -> String {
        let statement = limit::render(&JobState::render(&without_comments(statement)));
        if self.schema == DEFAULT_SCHEMA {
            return statement;
        }
        statement.replace("windlass.", &format!("{}.", self.schema))
    }

    pub(crate) fn dynamic(&self, statement: &str) -> SqlStr {
        sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(self.render(statement)))
    }
}

/// The server shows the beginning of a statement that waits or is slow: it should be the statement.
fn without_comments(statement: &str) -> String {
    let lines: Vec<&str> = statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    lines.join("\n")
}

/// One connection before the pool's: the pool tries again until its time is up and then knows no cause. A server that
/// restarts refuses for a moment; one that refuses for longer is not there.
async fn knock(connect: &PgConnectOptions, patience: Duration) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        let why = match tokio::time::timeout(patience, PgConnection::connect_with(connect)).await {
            // What the server says about user and database the pool hears too.
            Ok(Ok(_) | Err(sqlx::Error::Database(_))) => return Ok(()),
            Ok(Err(sqlx::Error::Io(error))) if begun.elapsed() < REFUSED_FOR && is_refusal(&error) => {
                tokio::time::sleep(BETWEEN_KNOCKS).await;
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

/// What a server in the middle of a restart answers.
fn is_refusal(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}

/// Nobody listens in on the loopback, and there TLS halves the throughput: sqlx 0.9.0 does not set TCP_NODELAY
/// (transact-rs/sqlx#4335), so a batch split into TLS records waits 40 ms for an acknowledgement. Whoever wants TLS
/// there says so.
fn names_ssl_mode(url: &str) -> bool {
    url.contains("sslmode=") || url.contains("ssl-mode=") || std::env::var_os("PGSSLMODE").is_some()
}

/// Takes our own `schema` parameter out of the address.
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
    fn the_schema_parameter_is_ours() {
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
    async fn a_server_that_is_not_there_is_named_soon() {
        let begun = Instant::now();
        let opened = PostgresStore::connect("postgres://me@127.0.0.1:1/none", Options::default()).await;
        let said = opened.err().unwrap().chain();
        assert!(said.ends_with("cannot connect to 127.0.0.1:1: connection refused"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
