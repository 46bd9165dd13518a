//! Restoring rows: one connection, one transaction behind the gate, committed at the end or not at all.

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use windlass_core::backup::{ABOVE_NOW, Cell, Holdings, Row, Table, largest_token};
use windlass_core::store::{Import, Wake};
use windlass_core::{JobId, StoreError, Time};

use crate::error::{self, Answer};
use crate::gate::Pass;
use crate::{SqliteStore, connect, migrate};

const OP: &str = "restore";

pub(super) struct SqliteImport {
    // Drop order: the connection rolls back, then the gate opens.
    connection: Option<Connection>,
    _pass: Pass,
    store: SqliteStore,
    /// The largest restored token. Tokens from Postgres can be larger than the current time in microseconds.
    token: i64,
}

impl SqliteStore {
    pub(super) async fn begin_import(&self, holdings: &Holdings) -> Result<Box<dyn Import>, StoreError> {
        self.shared.check_open(OP)?;
        let pass = self.shared.gate.enter(OP).await?;
        let (path, holdings) = (self.shared.path.clone(), holdings.clone());
        let opened = tokio::task::spawn_blocking(move || -> Answer<Connection> {
            let connection = connect::writing(&path)?;
            connection.execute_batch("begin immediate")?;
            migrate::check_schema(&connection)?;
            holdings.check(&migrate::pack_migrations(&connection)?)?;
            check_empty(&connection, &holdings)?;
            Ok(connection)
        });
        let connection = opened.await.map_err(panicked)?.map_err(|fault| fault.named(OP))?;
        Ok(Box::new(SqliteImport {
            connection: Some(connection),
            _pass: pass,
            store: self.clone(),
            token: 0,
        }))
    }
}

fn panicked(error: tokio::task::JoinError) -> StoreError {
    error::other(OP, error.to_string())
}

fn check_empty(connection: &Connection, holdings: &Holdings) -> Answer<()> {
    for name in holdings.tables.iter().map(|table| table.name).chain(["workers"]) {
        let sql = format!("select exists (select 1 from windlass_{name})");
        if connection.query_row(&sql, [], |row| row.get::<_, bool>(0))? {
            return Err(StoreError::NotEmpty { table: name }.into());
        }
    }
    Ok(())
}

impl SqliteImport {
    /// Runs on a blocking thread. After an error nothing more can be put.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Connection) -> Answer<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let connection = self.connection.take().ok_or_else(|| error::closed(OP))?;
        let done = tokio::task::spawn_blocking(move || work(&connection).map(|answer| (answer, connection)));
        let (answer, connection) = done.await.map_err(panicked)?.map_err(|fault| fault.named(OP))?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

#[async_trait]
impl Import for SqliteImport {
    async fn put(
        &mut self,
        table: &'static Table,
        columns: &[usize],
        rows: Vec<Row>,
    ) -> Result<(), StoreError> {
        let sql = insert(table, columns);
        self.token = self.token.max(largest_token(table, columns, &rows));
        self.with(move |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            for row in rows {
                statement.execute(params_from_iter(row.into_iter().map(value)))?;
            }
            Ok(())
        })
        .await
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let (now, token) = (self.store.now_here(), self.token);
        self.with(move |connection| {
            advance_sequences(connection, now, token)?;
            connection.execute_batch(LANES)?;
            connection.execute_batch("commit")?;
            Ok(())
        })
        .await?;
        self.store.shared.wakers.call(Wake::Any);
        Ok(())
    }
}

/// The slots of ready jobs, and of leased ones, which are restored as handed back.
const LANES: &str = "
    insert into windlass_lane_slots (lane, slot)
    select lane, row_number() over (partition by lane) from windlass_ready where queue > 0 and lane is not null";

/// Each restored entity is a separate change in the feed.
fn insert(table: &Table, columns: &[usize]) -> String {
    let mut names: Vec<&str> = columns.iter().map(|at| table.columns[*at].name).collect();
    let mut values: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
    if table.name == "entities" {
        names.push("seq");
        values.push("(select coalesce(max(seq), 0) + 1 from windlass_entities)".to_owned());
    }
    format!("insert into windlass_{} ({}) values ({})", table.name, names.join(", "), values.join(", "))
}

fn value(cell: Cell) -> Value {
    let list = |json: Result<String, serde_json::Error>| json.map_or(Value::Null, Value::Text);
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) | Cell::Time(number) => Value::Integer(number),
        Cell::Real(number) => Value::Real(f64::from(number)),
        Cell::Double(number) => Value::Real(number),
        Cell::Flag(flag) => Value::Integer(i64::from(flag)),
        Cell::Text(text) => Value::Text(text),
        Cell::Bytes(bytes) => Value::Blob(bytes),
        Cell::Ints(ints) => list(serde_json::to_string(&ints)),
        Cell::Texts(texts) => list(serde_json::to_string(&texts)),
    }
}

// Differs from Postgres: row ids start above the largest by themselves, and job ids above the highest ever
// assigned.
fn advance_sequences(connection: &Connection, now: Time, token: i64) -> Answer<()> {
    for (table, _) in ABOVE_NOW {
        let last = if *table == "claims" { now.0.max(token) } else { now.0 };
        let name = format!("windlass_{table}");
        connection.execute("delete from sqlite_sequence where name = ?1", [&name])?;
        connection.execute("insert into sqlite_sequence (name, seq) values (?1, ?2)", (&name, last))?;
    }
    connection.execute("update windlass_deleted set last_id = ?1", [JobId::floor(now).0])?;
    Ok(())
}
