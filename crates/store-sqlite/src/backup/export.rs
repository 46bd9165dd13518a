//! Reading rows for a backup: one connection and one thread per export, one read transaction for all rows.

use std::thread;

use async_trait::async_trait;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as SqlRow};
use tokio::sync::{mpsc, oneshot};
use windlass_core::backup::{Batch, Cell, Column, ColumnKind, Gather, Holdings, Table};
use windlass_core::store::Export;
use windlass_core::{StoreError, Time};

use crate::error::{self, Answer, Fault};
use crate::{SqliteStore, connect, migrate};

const OP: &str = "export";
/// Batches read ahead of the consumer.
const AHEAD: usize = 2;

/// Leased jobs as they would be after a hand-back: at their old place, without the attempt. `duplicate`: another
/// job with the same unique key waits already, or will wait in its place.
macro_rules! leased {
    ($rest:literal) => {
        concat!(
            "with leased as (
                 select c.first_id + e.value as id, c.token, c.worker, c.queue, c.attempt, c.suspicion, c.alone,
                        c.claimed_at, c.place + coalesce(json_extract(c.places, '$[' || e.key || ']'), 0) as run_at,
                        j.kind, j.priority, j.unique_key, j.lane,
                        j.unique_key is not null
                        and (exists (select 1 from windlass_ready r where r.unique_key = j.unique_key)
                             or row_number() over (partition by j.unique_key order by j.id desc) > 1) as duplicate
                 from windlass_claims c, json_each(c.ids) e join windlass_jobs j on j.id = c.first_id + e.value) ",
            $rest
        )
    };
}

const READY: &str = leased!(
    "select queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane from windlass_ready
     union all
     select queue, priority, run_at, id, kind, attempt - 1, suspicion, unique_key,
            lane
     from leased where not duplicate"
);

/// Includes checks for the slots of superseded jobs. A lane has one check at a time.
const CHECKS: &str = leased!(
    "select kind, at, lane, max(freed) as freed
     from (select kind, at, lane, freed from windlass_lane_checks
           union all
           select kind, claimed_at, lane, 1 from leased where duplicate and lane is not null) l
     group by kind, at, lane"
);

const FINISHED: &str = leased!(
    "select id, state, attempt, token, worker, started_at, finished_at, result, error from windlass_finished
     union all
     select id, 7, attempt, token, worker, claimed_at, claimed_at, null, null from leased where duplicate"
);

pub(super) struct SqliteExport {
    taken_at: Time,
    schema: i64,
    batches: mpsc::Receiver<Result<Batch, StoreError>>,
}

#[async_trait]
impl Export for SqliteExport {
    fn taken_at(&self) -> Time {
        self.taken_at
    }

    fn schema(&self) -> i64 {
        self.schema
    }

    async fn next(&mut self) -> Result<Option<Batch>, StoreError> {
        self.batches.recv().await.transpose()
    }
}

impl SqliteStore {
    pub(super) async fn begin_export(&self, holdings: &Holdings) -> Result<Box<dyn Export>, StoreError> {
        self.shared.check_open(OP)?;
        let (send, batches) = mpsc::channel(AHEAD);
        let (begun, ready) = oneshot::channel();
        let (path, clock, holdings) = (self.shared.path.clone(), self.shared.clock.clone(), holdings.clone());
        let run = move || {
            let opened = connect::reading(&path).map_err(Fault::from).and_then(|connection| {
                // The first read takes the snapshot, so the time is read after it.
                connection.execute_batch("begin")?;
                migrate::check_schema(&connection)?;
                holdings.check(&migrate::pack_migrations(&connection)?)?;
                let columns = columns(&connection)?;
                holdings
                    .check_whole(columns.iter().map(|(table, column)| (table.as_str(), column.as_str())))?;
                Ok(connection)
            });
            let connection = match opened {
                Ok(connection) => connection,
                Err(fault) => return drop(begun.send(Err(fault.named(OP)))),
            };
            if begun.send(Ok(clock.now())).is_err() {
                return;
            }
            // A dropped receiver wants neither more rows nor an error.
            if let Err(Some(fault)) = send_rows(&connection, &holdings.tables, &send) {
                let _ = send.blocking_send(Err(fault.named(OP)));
            }
        };
        let thread = thread::Builder::new().name("windlass-export".to_owned()).spawn(run);
        thread.map_err(|error| error::other(OP, error.to_string()))?;
        let taken_at = ready.await.unwrap_or_else(|_| Err(error::closed(OP)))?;
        Ok(Box::new(SqliteExport { taken_at, schema: migrate::newest(), batches }))
    }
}

/// Each column with its table, without generated columns.
fn columns(connection: &Connection) -> Answer<Vec<(String, String)>> {
    let mut statement = connection.prepare(
        "select substr(t.name, 10), c.name from sqlite_schema t, pragma_table_info(t.name) c
         where t.type = 'table' and t.name like 'windlass\\_%' escape '\\'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

type Batches = mpsc::Sender<Result<Batch, StoreError>>;

/// `Err(None)` when the receiver was dropped.
fn send_rows(
    connection: &Connection,
    tables: &[&'static Table],
    batches: &Batches,
) -> Result<(), Option<Fault>> {
    for &table in tables {
        let send = |rows| batches.blocking_send(Ok(Batch { table, rows })).map_err(|_| None);
        let mut gather = Gather::default();
        let mut statement = connection.prepare(&select(table)).map_err(|error| Some(error.into()))?;
        let mut rows = statement.query([]).map_err(|error| Some(error.into()))?;
        while let Some(row) = rows.next().map_err(|error| Some(error.into()))? {
            let cells = table.columns.iter().enumerate().map(|(at, column)| cell(row, at, table, column));
            if let Some(full) = gather.add(cells.collect::<Answer<_>>().map_err(Some)?) {
                send(full)?;
            }
        }
        gather.take().map_or(Ok(()), send)?;
    }
    Ok(())
}

fn select(table: &Table) -> String {
    let source = match table.name {
        "ready" => format!("({READY})"),
        "finished" => format!("({FINISHED})"),
        "lane_checks" => format!("({CHECKS})"),
        name => format!("windlass_{name}"),
    };
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    format!("select {} from {source}", columns.join(", "))
}

fn cell(row: &SqlRow<'_>, at: usize, table: &Table, column: &Column) -> Answer<Cell> {
    let wrong =
        || Fault::corrupt(format!("column {}.{} has a value of the wrong type", table.name, column.name));
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| wrong());
    Ok(match (column.kind, row.get_ref(at)?) {
        (_, ValueRef::Null) => Cell::Null,
        (ColumnKind::Int, ValueRef::Integer(number)) => Cell::Int(number),
        (ColumnKind::Time, ValueRef::Integer(micros)) => Cell::Time(micros),
        (ColumnKind::Flag, ValueRef::Integer(flag)) => Cell::Flag(flag != 0),
        (ColumnKind::Real, ValueRef::Real(number)) => Cell::Real(number as f32),
        (ColumnKind::Double, ValueRef::Real(number)) => Cell::Double(number),
        (ColumnKind::Text | ColumnKind::Json, ValueRef::Text(bytes)) => Cell::Text(text(bytes)?),
        (ColumnKind::Bytes, ValueRef::Blob(bytes)) => Cell::Bytes(bytes.to_vec()),
        (ColumnKind::Ints, ValueRef::Text(json)) => {
            Cell::Ints(serde_json::from_slice(json).map_err(|_| wrong())?)
        }
        (ColumnKind::Texts, ValueRef::Text(json)) => {
            Cell::Texts(serde_json::from_slice(json).map_err(|_| wrong())?)
        }
        _ => return Err(wrong()),
    })
}
