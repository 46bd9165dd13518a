//! Budgets as configured.

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::StoreError;
use windlass_core::budget::{Amount, BudgetSpec, Month};

use super::month::whole;
use crate::error::{Answer, Fault};
use crate::scope::Scope;

/// A budget with its id.
pub(super) struct Known {
    pub(super) id: i64,
    pub(super) spec: BudgetSpec,
}

const COLUMNS: &str = "id, name, currency, amount, tokens, thresholds";

struct Raw {
    known: Known,
    thresholds: String,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let spec = BudgetSpec {
        name: row.get(1)?,
        currency: row.get(2)?,
        limit: row.get::<_, Option<i64>>(3)?.map(Amount),
        tokens: row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
        thresholds: Vec::new(),
    };
    Ok(Raw { known: Known { id: row.get(0)?, spec }, thresholds: row.get(5)? })
}

fn read(raw: Raw) -> Answer<Known> {
    let Raw { mut known, thresholds } = raw;
    known.spec.thresholds = serde_json::from_str(&thresholds)
        .map_err(|error| Fault::corrupt(format!("thresholds of budget {}: {error}", known.spec.name)))?;
    Ok(known)
}

pub(super) fn named(connection: &Connection, name: &str) -> Answer<Option<Known>> {
    let sql = format!("select {COLUMNS} from windlass_budgets where name = ?1");
    connection.prepare_cached(&sql)?.query_row([name], raw).optional()?.map(read).transpose()
}

pub(super) fn all(connection: &Connection) -> Answer<Vec<Known>> {
    let sql = format!("select {COLUMNS} from windlass_budgets order by name");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], raw)?.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter().map(read).collect()
}

pub(super) fn sync_budgets(scope: &mut Scope<'_>, specs: &[BudgetSpec]) -> Answer<()> {
    for spec in specs {
        keep_currency(scope.connection, spec)?;
        let thresholds = serde_json::to_string(&spec.thresholds)
            .map_err(|error| Fault::corrupt(format!("thresholds: {error}")))?;
        let (amount, tokens) = (spec.limit.map(|limit| limit.0), spec.tokens.map(whole));
        let id: i64 = scope
            .connection
            .prepare_cached(
                "insert into windlass_budgets (name, currency, amount, tokens, thresholds)
                 values (?1, ?2, ?3, ?4, ?5)
                 on conflict (name) do update set currency = excluded.currency, amount = excluded.amount,
                     tokens = excluded.tokens, thresholds = excluded.thresholds
                 returning id",
            )?
            .query_row((&spec.name, &spec.currency, amount, tokens, thresholds), |row| row.get(0))?;
        // Past months keep the limit they had.
        scope
            .connection
            .prepare_cached(
                "update windlass_budget_months
                 set limit_amount = case when live_amount then limit_amount else ?3 end,
                     limit_tokens = case when live_tokens then limit_tokens else ?4 end
                 where budget = ?1 and month >= ?2",
            )?
            .execute((id, Month::of(scope.now).to_string(), amount, tokens))?;
    }
    Ok(())
}

/// Sums of two currencies would be meaningless.
fn keep_currency(connection: &Connection, spec: &BudgetSpec) -> Answer<()> {
    let stored: Option<String> = connection
        .prepare_cached(
            "select currency from windlass_budgets b where name = ?1 and currency <> ?2
             and exists (select 1 from windlass_budget_months m where m.budget = b.id
                         and (m.settled_amount > 0 or m.reserved_amount > 0))",
        )?
        .query_row((&spec.name, &spec.currency), |row| row.get(0))
        .optional()?;
    match stored {
        None => Ok(()),
        Some(stored) => {
            let (budget, wanted) = (spec.name.clone(), spec.currency.clone());
            Err(StoreError::CurrencyChanged { budget, stored, wanted }.into())
        }
    }
}
