//! Limits of queues, kinds and resources.
//!
//! Owns the limit columns listed in `core::limit`, and the layers behind them, `configured` and `live`. Only this
//! module writes them. `core` decides which layer is in force. Every change reads the layers under the row's lock, so
//! that no change is lost. Several rows are always locked in one order: queues, kinds, resources, each by name.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};
use windlass_core::limit::{
    LayerChange, Layers, Limit, LimitForm, LimitOwner, LimitValue, Limited, LiveOverride,
};
use windlass_core::{KindSpec, QueueSpec, Rate, StoreError};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::get;

const LIVE_OVERRIDES: [(LimitOwner, &str); 3] = [
    (
        LimitOwner::Queue,
        "select name, configured, live from windlass.queues where live <> '{}' order by name",
    ),
    (LimitOwner::Kind, "select name, configured, live from windlass.kinds where live <> '{}' order by name"),
    (
        LimitOwner::Resource,
        "select name, configured, live from windlass.resources where live <> '{}' order by name",
    ),
];

fn lock(of: LimitOwner) -> &'static str {
    match of {
        LimitOwner::Queue => "select configured, live from windlass.queues where name = $1 for no key update",
        LimitOwner::Kind => "select configured, live from windlass.kinds where name = $1 for no key update",
        LimitOwner::Resource => {
            "select configured, live from windlass.resources where name = $1 for no key update"
        }
    }
}

/// Inserts the limit columns into a statement that reads queues as `q`, kinds as `k` and their resources as `r`.
pub(crate) fn render(statement: &str) -> String {
    statement
        .replace("{queue limits}", &columns(QueueSpec::limits(), "q"))
        .replace("{kind limits}", &columns(KindSpec::limits(), "k"))
}

fn columns(limits: impl Iterator<Item = &'static Limit>, own: &str) -> String {
    let column = |limit: &Limit| match limit.owner {
        LimitOwner::Queue | LimitOwner::Kind => format!("{own}.{}", limit.column),
        LimitOwner::Resource => format!("r.{}", limit.column),
    };
    limits.map(column).collect::<Vec<_>>().join(", ")
}

/// Reads the columns that [`render`] inserted.
pub(crate) fn read_limits<S: Limited>(row: &PgRow, spec: &mut S) -> Result<(), StoreError> {
    for limit in S::limits() {
        spec.set_limit(limit.name, value(row, limit)?);
    }
    Ok(())
}

fn value(row: &PgRow, limit: &Limit) -> Result<Option<LimitValue>, StoreError> {
    let stored = match limit.form {
        LimitForm::Number { .. } | LimitForm::Duration => get::<Option<i64>>(row, limit.column)?.into(),
        LimitForm::Rate => get::<Option<String>>(row, limit.column)?.into(),
    };
    limit.form.from_stored(&stored)
}

/// Reads the column `rate`.
pub(crate) fn parse_rate(text: Option<String>) -> Result<Option<Rate>, StoreError> {
    let read = text.map(|text| text.parse::<Rate>()).transpose();
    read.map_err(|error| StoreError::Corrupt { what: error.to_string() })
}

impl PostgresStore {
    /// Changes the layers of one row and the values in force. Does nothing when there is no such row.
    pub(crate) async fn change_limits(
        &self,
        conn: &mut PgConnection,
        of: LimitOwner,
        name: &str,
        change: impl FnOnce(&mut Layers),
    ) -> Result<Option<LayerChange>, StoreError> {
        let row = sqlx::query(self.sql(lock(of))).bind(name).fetch_optional(&mut *conn).await;
        let Some(row) = row.map_err(failed("read limits"))? else { return Ok(None) };
        let before = layers(of, &row)?;
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            let sql = self.dynamic(&write(of));
            let query = sqlx::query(sql).bind(name).bind(after.configured_text()).bind(after.live_text());
            let query = of
                .limits()
                .into_iter()
                .fold(query, |query, limit| bind(query, limit, after.in_force(limit.name)));
            query.execute(conn).await.map_err(failed("write limits"))?;
        }
        Ok(Some(LayerChange { before, after }))
    }

    pub(crate) async fn do_overruled(&self) -> Result<Vec<LiveOverride>, StoreError> {
        let mut found = Vec::new();
        for (of, statement) in LIVE_OVERRIDES {
            let rows = sqlx::query(self.sql(statement)).fetch_all(&self.pool).await;
            for row in &rows.map_err(failed("read live values"))? {
                found.extend(LiveOverride::of(&get::<String>(row, "name")?, &layers(of, row)?));
            }
        }
        Ok(found)
    }
}

fn layers(of: LimitOwner, row: &PgRow) -> Result<Layers, StoreError> {
    Layers::read(of, &get::<String>(row, "configured")?, &get::<String>(row, "live")?)
}

/// `update windlass.queues set configured = $2, live = $3, concurrency = $4, … where name = $1`.
fn write(of: LimitOwner) -> String {
    let set = of.limits().into_iter().zip(4..).map(|(limit, n)| format!(", {} = ${n}", limit.column));
    let set: String = set.collect();
    format!("update windlass.{} set configured = $2, live = $3{set} where name = $1", of.table())
}

fn bind<'q>(
    query: Query<'q, Postgres, PgArguments>,
    limit: &Limit,
    value: Option<LimitValue>,
) -> Query<'q, Postgres, PgArguments> {
    let stored = value.map(LimitValue::stored);
    match limit.form {
        LimitForm::Number { .. } | LimitForm::Duration => {
            query.bind(stored.and_then(|stored| stored.as_i64()))
        }
        LimitForm::Rate => query.bind(stored.and_then(|stored| stored.as_str().map(str::to_owned))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_a_row_is_read_and_written() {
        assert_eq!(
            write(LimitOwner::Kind),
            "update windlass.kinds set configured = $2, live = $3, rate = $4, key_concurrency = $5 where name = $1"
        );
        assert_eq!(render("select {kind limits}"), "select k.rate, r.permits, k.key_concurrency");
    }
}
