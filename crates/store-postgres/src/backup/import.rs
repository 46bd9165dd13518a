//! Restoring rows with COPY: one connection, one transaction, committed at the end or not at all.

use std::fmt::Write;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Postgres, Row as _, Transaction};
use windlass_core::backup::{ABOVE_NOW, Cell, Holdings, Row, Table, largest_token};
use windlass_core::id::JOB_ID_SEQUENCE_BITS;
use windlass_core::store::Import;
use windlass_core::{StoreError, Time};

use crate::PostgresStore;
use crate::error::{failed, translate};
use crate::hint::Hints;
use crate::row::{get, text_array, text_in};
use crate::wake::Waker;

const OP: &str = "restore";

const SETTINGS: &str = "set local statement_timeout = 0;
                        set local idle_in_transaction_session_timeout = 0;
                        set local timezone = 'UTC'";

/// The days of these numbers that have no partitions yet.
const MISSING_DAYS: &str = "
    select day, (d * 86400000) << 22 as lo, ((d + 1) * 86400000) << 22 as hi
    from (select d, to_char(to_timestamp(d * 86400) at time zone 'UTC', 'YYYYMMDD') as day
          from unnest($1::bigint[]) d) days
    where to_regclass('windlass.jobs_d' || day) is null order by d";

pub(super) struct PgImport {
    tx: Transaction<'static, Postgres>,
    /// Our own schema, as a prefix of names.
    schema: String,
    tables: Vec<&'static Table>,
    /// The feed position of every restored entity: this transaction.
    changed: String,
    now: Time,
    /// The largest token restored.
    token: i64,
    hints: std::sync::Arc<Hints>,
    waker: std::sync::Arc<Waker>,
}

impl PostgresStore {
    pub(super) async fn begin_import(&self, holdings: &Holdings) -> Result<Box<dyn Import>, StoreError> {
        self.do_check_schema().await?;
        let now = self.do_now().await?;
        let mut tx = self.callers.begin().await.map_err(failed(OP))?;
        sqlx::raw_sql(SETTINGS).execute(&mut *tx).await.map_err(failed(OP))?;
        holdings.check(&self.packs_in(&mut tx).await?)?;
        for name in holdings.tables.iter().map(|table| table.name).chain(["workers"]) {
            // Excludes a second restore, and a worker that starts meanwhile.
            let lock = format!("lock table windlass.{name} in share row exclusive mode");
            sqlx::raw_sql(self.dynamic(&lock)).execute(&mut *tx).await.map_err(failed(OP))?;
            let there = format!("select exists (select from windlass.{name}) as there");
            let row = sqlx::query(self.dynamic(&there)).fetch_one(&mut *tx).await.map_err(failed(OP))?;
            if get::<bool>(&row, "there")? {
                return Err(StoreError::NotEmpty { table: name });
            }
        }
        let row = sqlx::query("select pg_current_xact_id()::text as id").fetch_one(&mut *tx).await;
        let changed = get(&row.map_err(failed(OP))?, "id")?;
        let (hints, waker) = (self.hints.clone(), self.waker.clone());
        let (schema, tables) = (self.schema().to_owned(), holdings.tables.clone());
        Ok(Box::new(PgImport { tx, schema, tables, changed, now, token: 0, hints, waker }))
    }
}

#[async_trait]
impl Import for PgImport {
    async fn put(
        &mut self,
        table: &'static Table,
        columns: &[usize],
        rows: Vec<Row>,
    ) -> Result<(), StoreError> {
        self.token = self.token.max(largest_token(table, columns, &rows));
        if matches!(table.name, "jobs" | "finished") {
            self.make_days(table, columns, &rows).await?;
        }
        let mut names: Vec<&str> = columns.iter().map(|at| table.columns[*at].name).collect();
        let changed = (table.name == "entities").then(|| self.changed.clone());
        names.extend(changed.is_some().then_some("changed"));
        let mut text = String::new();
        for row in &rows {
            for (n, cell) in row.iter().enumerate() {
                text.push_str(if n > 0 { "\t" } else { "" });
                write_cell(&mut text, cell);
            }
            if let Some(changed) = &changed {
                text.push('\t');
                text.push_str(changed);
            }
            text.push('\n');
        }
        let copy = format!("copy {}.{} ({}) from stdin", self.schema, table.name, names.join(", "));
        let mut sink = self.tx.copy_in_raw(&copy).await.map_err(failed(OP))?;
        sink.send(text.into_bytes()).await.map_err(failed(OP))?;
        sink.finish().await.map_err(failed(OP))?;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.advance_sequences().await?;
        self.run(SLOTS.replace("windlass.", &format!("{}.", self.schema))).await?;
        self.tx.commit().await.map_err(failed(OP))?;
        self.hints.forget();
        self.waker.any();
        Ok(())
    }
}

/// Ready jobs of lanes keep their slots, and so do leased ones, which are restored as handed back.
const SLOTS: &str = "
    with h as (
        update windlass.ready r set slot = h.slot
        from (select id, row_number() over (partition by lane order by id) as slot
              from windlass.ready where queue > 0 and lane is not null) h
        where r.id = h.id
        returning r.lane, r.slot)
    insert into windlass.lane_slots (lane, slot) select lane, slot from h";

impl PgImport {
    async fn run(&mut self, sql: String) -> Result<(), StoreError> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *self.tx).await.map_err(failed(OP))?;
        Ok(())
    }

    /// Restored jobs go to the partitions of their days, so that retention can drop whole days.
    async fn make_days(&mut self, table: &Table, columns: &[usize], rows: &[Row]) -> Result<(), StoreError> {
        let Some(id) = columns.iter().position(|at| table.columns[*at].name == "id") else { return Ok(()) };
        let day = |row: &Row| match row.get(id) {
            Some(Cell::Int(id)) => Some((id >> JOB_ID_SEQUENCE_BITS) / 86_400_000),
            _ => None,
        };
        let mut days: Vec<i64> = rows.iter().filter_map(day).collect();
        days.sort_unstable();
        days.dedup();
        let missing = MISSING_DAYS.replace("windlass.", &format!("{}.", self.schema));
        let missing = sqlx::query(AssertSqlSafe(missing)).bind(days).fetch_all(&mut *self.tx).await;
        for row in missing.map_err(failed(OP))? {
            let read = |error| translate(OP, error);
            let day: String = row.try_get("day").map_err(read)?;
            let (lo, hi): (i64, i64) = (row.try_get("lo").map_err(read)?, row.try_get("hi").map_err(read)?);
            for table in ["jobs", "finished"] {
                let schema = &self.schema;
                let make = format!(
                    "create table if not exists {schema}.{table}_d{day}
                     partition of {schema}.{table} for values from ({lo}) to ({hi})"
                );
                self.run(make).await?;
            }
        }
        Ok(())
    }

    async fn advance_sequences(&mut self) -> Result<(), StoreError> {
        let schema = self.schema.clone();
        for table in self.tables.clone() {
            for column in table.columns.iter().filter(|column| column.serial) {
                let (table, column) = (table.name, column.name);
                self.run(format!(
                    "select setval(pg_get_serial_sequence('{schema}.{table}', '{column}'), max({column}))
                     from {schema}.{table} having max({column}) is not null"
                ))
                .await?;
            }
        }
        for (table, column) in ABOVE_NOW {
            // Tokens and workers have their own sequences.
            let last = if *table == "claims" { self.now.0.max(self.token) } else { self.now.0 };
            let sequence = match *table {
                "claims" => format!("'{schema}.token_seq'"),
                "workers" => format!("'{schema}.worker_seq'"),
                table => format!("pg_get_serial_sequence('{schema}.{table}', '{column}')"),
            };
            self.run(format!("select setval({sequence}, {last})")).await?;
        }
        Ok(())
    }
}

/// Writes the text format of COPY.
fn write_cell(out: &mut String, cell: &Cell) {
    let _ = match cell {
        Cell::Null => out.write_str("\\N"),
        Cell::Int(number) => write!(out, "{number}"),
        Cell::Real(number) => write!(out, "{number}"),
        Cell::Double(number) => write!(out, "{number}"),
        Cell::Flag(flag) => out.write_str(if *flag { "t" } else { "f" }),
        // A job that waits for its workflow has no time, which is stored as infinity.
        Cell::Time(i64::MAX) => out.write_str("infinity"),
        Cell::Time(micros) => write!(out, "{}", Time(*micros)),
        Cell::Text(text) => write_text(out, &text_in(text)),
        Cell::Bytes(bytes) => {
            let _ = out.write_str("\\\\x");
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        Cell::Ints(ints) => {
            let ints: Vec<String> = ints.iter().map(i64::to_string).collect();
            write!(out, "{{{}}}", ints.join(","))
        }
        Cell::Texts(texts) => write_text(out, &text_array(texts.iter().map(String::as_str))),
    };
}

fn write_text(out: &mut String, text: &str) -> std::fmt::Result {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_restores_special_characters() {
        let written = |cell| {
            let mut out = String::new();
            write_cell(&mut out, &cell);
            out
        };
        assert_eq!(written(Cell::Null), "\\N");
        assert_eq!(written(Cell::Text("\\N\t\n".to_owned())), "\\\\N\\t\\n");
        assert_eq!(written(Cell::Bytes(vec![0, 255])), "\\\\x00ff");
        assert_eq!(written(Cell::Texts(vec!["a\"\\".to_owned()])), r#"{"a\\"\\\\"}"#);
        assert_eq!(written(Cell::Time(0)), "1970-01-01T00:00:00Z");
        assert_eq!(written(Cell::Time(i64::MAX)), "infinity");
    }
}
