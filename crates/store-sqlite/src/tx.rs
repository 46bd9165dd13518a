//! Callers' transactions: application data and jobs in one commit.
//!
//! Owns: `begin`, and the checks on a transaction that the caller opened. A transaction from `begin` waits its turn
//! at the gate like any write. A caller's own is accepted when it can write. One that has only read is refused: as
//! soon as anyone else has written, SQLite answers its first write with BUSY. Never commits for a caller.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, TransactionState};
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection as _};
use windlass_core::store::{Sql, StoreTx, Wake, Wakers};
use windlass_core::{StoreError, TxRef};

use crate::error::{Answer, from_sql, from_sqlx, held_outside};
use crate::gate::Pass;
use crate::scope::Scope;
use crate::sql::SqliteSql;
use crate::writer::{Broken, broken_error};
use crate::{SqliteStore, connect, raw};

const REMEDY: &str =
    "open it with BEGIN IMMEDIATE (sqlx: begin_with(\"BEGIN IMMEDIATE\")) or use windlass.begin()";

/// Idle connections for callers' transactions.
#[derive(Default)]
pub(crate) struct Idle(Mutex<Vec<SqliteConnection>>);

const KEPT: usize = 2;

impl Idle {
    fn take(&self) -> Option<SqliteConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, connection: SqliteConnection) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(connection);
        }
    }

    pub(crate) async fn close(&self) {
        let kept = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in kept {
            let _ = connection.close().await;
        }
    }
}

pub(crate) struct SqliteTx {
    // Drop order: the connection rolls back, then the gate opens.
    connection: SqliteConnection,
    pass: Pass,
    idle: Arc<Idle>,
    wakers: Arc<Wakers>,
    broken: Broken,
}

#[async_trait]
impl StoreTx for SqliteTx {
    fn tx(&mut self) -> TxRef<'_> {
        TxRef::new(&mut self.connection)
    }

    fn sql(&mut self) -> Box<dyn Sql + '_> {
        Box::new(SqliteSql::new(&mut self.connection))
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let SqliteTx { mut connection, pass, idle, wakers, broken } = *self;
        match sqlx::query("commit").execute(&mut connection).await {
            Ok(_) => {
                drop(pass);
                idle.put(connection);
                wakers.call(Wake::Any);
                Ok(())
            }
            Err(error) => {
                let error = from_sqlx("commit", error);
                if let StoreError::Broken { source, .. } = &error {
                    let _ = broken.set(source.to_string());
                }
                // Closing the connection rolls back what is left.
                let _ = connection.close().await;
                Err(error)
            }
        }
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        let SqliteTx { mut connection, pass, idle, .. } = *self;
        let ended = sqlx::query("rollback").execute(&mut connection).await;
        drop(pass);
        if ended.is_ok() {
            idle.put(connection);
        }
        ended.map(drop).map_err(|error| from_sqlx("roll back", error))
    }
}

impl SqliteStore {
    pub(crate) async fn begin(&self) -> Result<Box<dyn StoreTx>, StoreError> {
        const OP: &str = "begin a transaction";
        let shared = &self.shared;
        shared.check_open(OP)?;
        if let Some(why) = shared.broken.get() {
            return Err(broken_error(OP, why));
        }
        let pass = shared.gate.enter(OP).await?;
        let mut connection = match shared.idle.take() {
            Some(connection) => connection,
            None => {
                let options = connect::for_callers(&shared.path, shared.gate.patience);
                options.connect().await.map_err(|error| from_sqlx(OP, error))?
            }
        };
        let begun = sqlx::query("begin immediate").execute(&mut connection).await;
        begun.map_err(|error| match from_sqlx(OP, error) {
            StoreError::Busy { op, .. } => {
                StoreError::Busy { op, source: held_outside(shared.gate.patience).into() }
            }
            other => other,
        })?;
        let (idle, wakers, broken) = (shared.idle.clone(), shared.wakers.clone(), shared.broken.clone());
        Ok(Box::new(SqliteTx { connection, pass, idle, wakers, broken }))
    }

    /// Runs `work` inside the caller's transaction, all or nothing.
    pub(crate) async fn write_in<T>(
        &self,
        op: &'static str,
        tx: TxRef<'_>,
        work: impl FnOnce(&mut Scope<'_>) -> Answer<T> + Send,
    ) -> Result<T, StoreError> {
        let connection = connection(tx)?;
        self.check_and_lock(op, connection).await?;
        let now = self.now_here();
        let mut handle = connection.lock_handle().await.map_err(|error| from_sqlx(op, error))?;
        let done = raw::lend(&mut handle, |connection| {
            in_savepoint(connection, |connection| work(&mut Scope::new(connection, now)))
        });
        done.map_err(|error| from_sql(op, error))?.map_err(|fault| fault.named(op))
    }

    /// Checks that the transaction can write to this store, and takes the write lock.
    pub(crate) async fn check_and_lock(
        &self,
        op: &'static str,
        connection: &mut SqliteConnection,
    ) -> Result<(), StoreError> {
        self.shared.check_open(op)?;
        if !self.ready_to_write(op, connection).await? {
            // Begun but not used yet: this takes the write lock on sqlx's thread, which may wait.
            sqlx::query("update windlass_migrations set version = version where false")
                .execute(&mut *connection)
                .await
                .map_err(|error| from_sqlx(op, error))?;
        }
        Ok(())
    }

    /// Returns true when the transaction holds the write lock, false when it can still get it.
    async fn ready_to_write(
        &self,
        op: &'static str,
        connection: &mut SqliteConnection,
    ) -> Result<bool, StoreError> {
        let mut handle = connection.lock_handle().await.map_err(|error| from_sqlx(op, error))?;
        let path = &self.shared.path;
        raw::lend(&mut handle, |connection| check(connection, path)).map_err(|error| from_sql(op, error))?
    }
}

pub(crate) fn connection<'a>(tx: TxRef<'a>) -> Result<&'a mut SqliteConnection, StoreError> {
    tx.connection::<SqliteConnection>().ok_or_else(|| StoreError::WrongTransaction {
        why: "it is not a sqlx::SqliteConnection, and this store is SQLite".to_owned(),
        remedy: "pass a connection of the same database",
    })
}

fn check(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    let wrong = |why: &str, remedy| Err(StoreError::WrongTransaction { why: why.to_owned(), remedy });
    let here = connection.path().map(Path::new).is_some_and(|there| same_file(there, path));
    if !here {
        return wrong(
            "its connection is open on another database file",
            "pass a connection of the same database",
        );
    }
    if connection.is_autocommit() {
        return wrong("the connection is not inside a transaction", REMEDY);
    }
    match connection.transaction_state(Some("main")) {
        Ok(TransactionState::Write) => Ok(true),
        Ok(TransactionState::Read) => wrong(
            "it has only read so far, and SQLite would refuse its first write as soon as another connection has written",
            REMEDY,
        ),
        _ => Ok(false),
    }
}

fn same_file(there: &Path, here: &Path) -> bool {
    there == here || std::fs::canonicalize(there).is_ok_and(|there| there == here)
}

fn in_savepoint<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Answer<T>) -> Answer<T> {
    connection.execute_batch("savepoint windlass_call")?;
    match work(connection) {
        Ok(answer) => {
            connection.execute_batch("release windlass_call")?;
            Ok(answer)
        }
        Err(fault) => {
            // This fails only when SQLite has already rolled back the whole transaction.
            let _ = connection.execute_batch("rollback to windlass_call; release windlass_call");
            Err(fault)
        }
    }
}
