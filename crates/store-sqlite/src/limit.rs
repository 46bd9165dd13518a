//! Limits of queues, kinds and resources.
//!
//! Owns the limit columns listed in `core::limit`, and the layers behind them, `configured` and `live`. Only this
//! module writes them. `core` decides which layer is in force.

use rusqlite::types::Value as Bound;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use serde_json::Value as Json;
use windlass_core::Rate;
use windlass_core::limit::{
    LayerChange, Layers, Limit, LimitForm, LimitOwner, LimitValue, Limited, LiveOverride,
};

use crate::error::{Answer, Fault};

/// The limit columns for a statement that reads queues as `q`, kinds as `k` and their resources as `r`.
pub(crate) fn columns<S: Limited>() -> String {
    let column = |limit: &Limit| match limit.owner {
        LimitOwner::Queue => format!("q.{}", limit.column),
        LimitOwner::Kind => format!("k.{}", limit.column),
        LimitOwner::Resource => format!("r.{}", limit.column),
    };
    S::limits().map(column).collect::<Vec<_>>().join(", ")
}

/// Reads the columns of [`columns`].
pub(crate) fn read_limits<S: Limited>(row: &Row<'_>, spec: &mut S) -> Answer<()> {
    for limit in S::limits() {
        let stored = match limit.form {
            LimitForm::Number { .. } | LimitForm::Duration => {
                Json::from(row.get::<_, Option<i64>>(limit.column)?)
            }
            LimitForm::Rate => Json::from(row.get::<_, Option<String>>(limit.column)?),
        };
        spec.set_limit(limit.name, limit.form.from_stored(&stored)?);
    }
    Ok(())
}

/// Reads the column `rate`.
pub(crate) fn rate(row: &Row<'_>, column: usize) -> Answer<Option<Rate>> {
    let text: Option<String> = row.get(column)?;
    let read = text.map(|text| text.parse::<Rate>()).transpose();
    read.map_err(|error| Fault::corrupt(error.to_string()))
}

/// Changes the layers of one row and the values in force. Does nothing when there is no such row.
pub(crate) fn change(
    connection: &Connection,
    of: LimitOwner,
    name: &str,
    change: impl FnOnce(&mut Layers),
) -> Answer<Option<LayerChange>> {
    let kept = connection
        .prepare_cached(&format!("select configured, live from windlass_{} where name = ?1", of.table()))?
        .query_row([name], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((configured, live)) = kept else { return Ok(None) };
    let before = Layers::read(of, &configured, &live)?;
    let mut after = before.clone();
    change(&mut after);
    if after != before {
        let mut values: Vec<Bound> =
            vec![name.to_owned().into(), after.configured_text().into(), after.live_text().into()];
        values.extend(of.limits().iter().map(|limit| bound(after.in_force(limit.name))));
        connection.prepare_cached(&write(of))?.execute(params_from_iter(values))?;
    }
    Ok(Some(LayerChange { before, after }))
}

/// `update windlass_queues set configured = ?2, live = ?3, concurrency = ?4, … where name = ?1`.
fn write(of: LimitOwner) -> String {
    let set = of.limits().into_iter().zip(4..).map(|(limit, n)| format!(", {} = ?{n}", limit.column));
    let set: String = set.collect();
    format!("update windlass_{} set configured = ?2, live = ?3{set} where name = ?1", of.table())
}

fn bound(value: Option<LimitValue>) -> Bound {
    match value.map(LimitValue::stored) {
        Some(Json::String(text)) => text.into(),
        Some(stored) => stored.as_i64().map_or(Bound::Null, Bound::Integer),
        None => Bound::Null,
    }
}

/// Configured values that an operator's live value overrides.
pub(crate) fn live_overrides(connection: &Connection) -> Answer<Vec<LiveOverride>> {
    let mut found = Vec::new();
    for of in [LimitOwner::Queue, LimitOwner::Kind, LimitOwner::Resource] {
        let mut statement = connection.prepare_cached(&format!(
            "select name, configured, live from windlass_{} where live <> '{{}}' order by name",
            of.table()
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, configured, live): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            found.extend(LiveOverride::of(&name, &Layers::read(of, &configured, &live)?));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use windlass_core::KindSpec;

    use super::*;

    #[test]
    fn every_limit_of_a_row_is_read_and_written() {
        assert_eq!(
            write(LimitOwner::Kind),
            "update windlass_kinds set configured = ?2, live = ?3, rate = ?4, key_concurrency = ?5 where name = ?1"
        );
        assert_eq!(columns::<KindSpec>(), "k.rate, r.permits, k.key_concurrency");
    }
}
