//! Reading rows for a backup: one connection and one task per export, one repeatable-read transaction for all rows.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::PgRow;
use sqlx::{Postgres, SqlStr, Transaction};
use tokio::sync::mpsc;
use windlass_core::backup::{Batch, Cell, Column, ColumnKind, Gather, Holdings, Table};
use windlass_core::store::Export;
use windlass_core::{StoreError, Time};

use crate::PostgresStore;
use crate::error::{failed, translate};
use crate::migrate::newest;
use crate::row::{PgTime, at, time};

const OP: &str = "export";
/// Batches read ahead of the consumer.
const AHEAD: usize = 2;

/// The snapshot has to last as long as the export, so all timeouts are off.
const SETTINGS: &str = "set local statement_timeout = 0;
                        set local idle_in_transaction_session_timeout = 0;
                        set local jit = off";

/// Each column with its table, without generated columns.
const COLUMNS: &str = "
    select c.relname::text, a.attname::text from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p') and not c.relispartition";

const NOW: &str = "select statement_timestamp() + $1::bigint * interval '1 microsecond' as now";

/// Leased jobs as they would be after a hand-back: at their old place, without the attempt. `duplicate`: another job
/// with the same unique key waits already, or will wait in its place.
macro_rules! leased {
    ($rest:literal) => {
        concat!(
            "with leased as (
                 select i.id, c.token, c.worker, c.attempt, c.suspicion, c.alone, c.claimed_at, i.run_at,
                        j.queue, j.kind, j.priority, j.unique_key, j.lane,
                        j.unique_key is not null
                        and (exists (select from windlass.ready r where r.unique_key = j.unique_key)
                             or row_number() over (partition by j.unique_key order by j.id desc) > 1) as duplicate
                 from windlass.claims c cross join unnest(c.ids, c.run_ats) i (id, run_at)
                 join windlass.jobs j on j.id = i.id) ",
            $rest
        )
    };
}

const READY: &str = leased!(
    "select queue, priority, run_at, id, kind, attempt, suspicion, unique_key, lane from windlass.ready
     union all
     select queue, priority, run_at, id, kind, attempt - 1, suspicion, unique_key,
            lane
     from leased where not duplicate"
);

/// Includes checks for the slots of superseded jobs. Differs from SQLite: a check may have several rows here.
const CHECKS: &str = leased!(
    "select kind, at, lane, bool_or(freed) as freed
     from (select kind, at, lane, freed from windlass.lane_checks
           union all
           select kind, claimed_at, lane, true from leased where duplicate and lane is not null) l
     group by kind, at, lane"
);

const FINISHED: &str = leased!(
    "select id, state, attempt, token, worker, started_at, finished_at, result, error from windlass.finished
     union all
     select id, 7, attempt, token, worker, claimed_at, claimed_at, null, null from leased where duplicate"
);

pub(super) struct PgExport {
    taken_at: Time,
    schema: i64,
    batches: mpsc::Receiver<Result<Batch, StoreError>>,
}

#[async_trait]
impl Export for PgExport {
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

impl PostgresStore {
    pub(super) async fn begin_export(&self, holdings: &Holdings) -> Result<Box<dyn Export>, StoreError> {
        self.do_check_schema().await?;
        // Uses a connection for callers: those of the pool are needed for heartbeats.
        let begin = "begin isolation level repeatable read read only";
        let mut tx = self.callers.begin_with(begin).await.map_err(failed(OP))?;
        sqlx::raw_sql(SETTINGS).execute(&mut *tx).await.map_err(failed(OP))?;
        // The first query takes the snapshot.
        let now = sqlx::query(NOW).bind(self.offset()).fetch_one(&mut *tx).await.map_err(failed(OP))?;
        let taken_at = time(&now, "now")?;
        holdings.check(&self.packs_in(&mut tx).await?)?;
        let columns =
            sqlx::query_as::<_, (String, String)>(COLUMNS).bind(&self.schema).fetch_all(&mut *tx).await;
        let columns = columns.map_err(failed(OP))?;
        holdings.check_whole(columns.iter().map(|(table, column)| (table.as_str(), column.as_str())))?;
        let selects = holdings.tables.iter().map(|table| (*table, self.dynamic(&select(table)))).collect();
        let (send, batches) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            // A dropped receiver wants neither more rows nor an error.
            if let Err(Some(error)) = send_rows(tx, selects, &send).await {
                let _ = send.send(Err(error)).await;
            }
        });
        Ok(Box::new(PgExport { taken_at, schema: newest(), batches }))
    }
}

type Batches = mpsc::Sender<Result<Batch, StoreError>>;

/// `Err(None)` when the receiver was dropped.
async fn send_rows(
    mut tx: Transaction<'static, Postgres>,
    selects: Vec<(&'static Table, SqlStr)>,
    batches: &Batches,
) -> Result<(), Option<StoreError>> {
    let broken = |error| Some(translate(OP, error));
    for (table, select) in selects {
        let mut gather = Gather::default();
        let mut rows = sqlx::query(select).persistent(false).fetch(&mut *tx);
        while let Some(row) = rows.try_next().await.map_err(broken)? {
            let cells = table.columns.iter().enumerate().map(|(at, column)| cell(&row, at, column));
            if let Some(rows) = gather.add(cells.collect::<Result<_, _>>().map_err(Some)?) {
                batches.send(Ok(Batch { table, rows })).await.map_err(|_| None)?;
            }
        }
        if let Some(rows) = gather.take() {
            batches.send(Ok(Batch { table, rows })).await.map_err(|_| None)?;
        }
    }
    Ok(())
}

fn select(table: &Table) -> String {
    let source = match table.name {
        "ready" => format!("({READY}) t"),
        "finished" => format!("({FINISHED}) t"),
        "lane_checks" => format!("({CHECKS}) t"),
        name => format!("windlass.{name}"),
    };
    let columns = table.columns.iter().map(|column| match column.kind {
        ColumnKind::Int => format!("{}::bigint", column.name),
        ColumnKind::Double => format!("{}::double precision", column.name),
        ColumnKind::Ints => format!("{}::bigint[]", column.name),
        ColumnKind::Json => format!("{}::text", column.name),
        _ => column.name.to_owned(),
    });
    format!("select {} from {source}", columns.collect::<Vec<_>>().join(", "))
}

fn cell(row: &PgRow, n: usize, column: &Column) -> Result<Cell, StoreError> {
    Ok(match column.kind {
        ColumnKind::Int => at::<Option<i64>>(row, n)?.map(Cell::Int),
        ColumnKind::Real => at::<Option<f32>>(row, n)?.map(Cell::Real),
        ColumnKind::Double => at::<Option<f64>>(row, n)?.map(Cell::Double),
        ColumnKind::Flag => at::<Option<bool>>(row, n)?.map(Cell::Flag),
        ColumnKind::Time => at::<Option<PgTime>>(row, n)?.map(|time| Cell::Time(time.0.0)),
        ColumnKind::Text | ColumnKind::Json => at::<Option<String>>(row, n)?.map(Cell::Text),
        ColumnKind::Bytes => at::<Option<Vec<u8>>>(row, n)?.map(Cell::Bytes),
        ColumnKind::Ints => at::<Option<Vec<i64>>>(row, n)?.map(Cell::Ints),
        ColumnKind::Texts => at::<Option<Vec<String>>>(row, n)?.map(Cell::Texts),
    }
    .unwrap_or(Cell::Null))
}
