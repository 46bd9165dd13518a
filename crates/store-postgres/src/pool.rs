//! The connections of our own statements, directly to the server or through a pooler.
//!
//! A pooler in transaction mode (PgBouncer) may run each transaction in another session. The driver prepares a
//! statement in one round trip and runs it in the next, so each statement gets its own transaction there, which also
//! repeats the session's settings: no prepared statement outlives its transaction, and timeout and planner settings
//! are local to it. None of this applies to direct connections. Never decides what is written.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{
    AssertSqlSafe, Either, Error, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr, Transaction,
};

use crate::warm::{InUse, Warm};

/// Settings of our sessions. JIT would compile each batch statement for longer than it runs. A plan made while the
/// tables were empty prefers sequential scans and is cached: measured at 11 ms per claim after 100,000 jobs instead of
/// 1 ms. Every frequent statement has its index; a table without one is scanned anyway.
pub(crate) fn settings(statement_timeout: Duration) -> [(&'static str, String); 4] {
    [
        ("jit", "off".to_owned()),
        ("enable_seqscan", "off".to_owned()),
        ("statement_timeout", statement_timeout.as_millis().to_string()),
        ("timezone", "UTC".to_owned()),
    ]
}

#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Direct(Arc<Warm>),
    /// The pooler has its own sessions.
    Shared {
        driver: PgPool,
        /// Sent after each BEGIN.
        preamble: Arc<str>,
    },
}

impl Pool {
    pub(crate) fn direct(driver: PgPool) -> Pool {
        Pool::Direct(Warm::new(driver))
    }

    pub(crate) fn through_pooler(driver: PgPool, settings: &[(&str, String)]) -> Pool {
        let mut preamble = "deallocate all".to_owned();
        for (name, value) in settings {
            preamble.push_str(&format!("; set local {name} = '{value}'"));
        }
        Pool::Shared { driver, preamble: preamble.into() }
    }

    pub(crate) async fn close(&self) {
        match self {
            Pool::Direct(warm) => warm.close().await,
            Pool::Shared { driver, .. } => driver.close().await,
        }
    }

    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        self.begin_with("begin").await
    }

    pub(crate) async fn begin_with(
        &self,
        begin: &'static str,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        match self {
            Pool::Direct(warm) => warm.begin_with(begin).await,
            // No caller's text gets into the statement.
            Pool::Shared { driver, preamble } => {
                driver.begin_with(AssertSqlSafe(format!("{begin}; {preamble}"))).await
            }
        }
    }

    /// For several statements in a row. [`Session::commit`] makes their writes permanent.
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        match self {
            Pool::Direct(warm) => Ok(Session::Plain(warm.acquire().await?)),
            Pool::Shared { .. } => Ok(Session::Transaction(self.begin().await?)),
        }
    }
}

pub(crate) enum Session {
    Plain(InUse),
    Transaction(Transaction<'static, Postgres>),
}

impl Session {
    /// On a direct connection each statement has already committed.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Session::Plain(connection) => {
                connection.keep();
                Ok(())
            }
            Session::Transaction(transaction) => transaction.commit().await,
        }
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Session::Plain(connection) => connection,
            Session::Transaction(transaction) => transaction,
        }
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Session::Plain(connection) => connection,
            Session::Transaction(transaction) => transaction,
        }
    }
}

type Step = Either<PgQueryResult, PgRow>;

/// Returns no row before the whole result arrived and was committed.
impl<'p> Executor<'p> for &'p Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let steps = async move {
            let mut session = self.session().await?;
            let steps: Vec<Step> = (&mut *session).fetch_many(query).try_collect().await?;
            session.commit().await?;
            Ok::<_, Error>(stream::iter(steps.into_iter().map(Ok)))
        };
        stream::once(steps).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let mut session = self.session().await?;
            let row = (&mut *session).fetch_optional(query).await?;
            session.commit().await?;
            Ok(row)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'p: 'e,
    {
        match self {
            Pool::Direct(warm) => warm.driver().prepare_with(sql, parameters),
            Pool::Shared { driver, .. } => driver.prepare_with(sql, parameters),
        }
    }
}
