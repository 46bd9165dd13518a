//! One budget in one month: the row that all decisions are based on, and its alerts.

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::Time;
use windlass_core::budget::{Alert, Amount, BudgetMonth, BudgetSpec, Limits, Month, Sums};

use super::spec::Known;
use crate::error::{Answer, Fault};
use crate::scope::Scope;

/// Input limits keep counts far below the maximum.
pub(super) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn month_of(text: &str) -> Answer<Month> {
    text.parse().map_err(|_| Fault::corrupt(format!("`{text}` is not a month")))
}

pub(super) const STANDING: &str =
    "month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens";

/// Reads the columns of [`STANDING`].
pub(super) fn figures(row: &Row<'_>) -> rusqlite::Result<(String, BudgetMonth)> {
    let sums = |amount, tokens| -> rusqlite::Result<Sums> {
        Ok(Sums { amount: Amount(row.get(amount)?), tokens: row.get::<_, i64>(tokens)?.unsigned_abs() })
    };
    let limits = Limits {
        amount: row.get::<_, Option<i64>>(1)?.map(Amount),
        tokens: row.get::<_, Option<i64>>(2)?.map(i64::unsigned_abs),
    };
    // A placeholder: [`dated`] sets the month from its text.
    let month = Month::of(Time(0));
    Ok((row.get(0)?, BudgetMonth { month, limits, settled: sums(3, 4)?, reserved: sums(5, 6)? }))
}

pub(super) fn dated((month, figures): (String, BudgetMonth)) -> Answer<BudgetMonth> {
    Ok(BudgetMonth { month: month_of(&month)?, ..figures })
}

/// A month without usage.
pub(super) fn fresh(spec: &BudgetSpec, month: Month) -> BudgetMonth {
    let limits = Limits { amount: spec.limit, tokens: spec.tokens };
    BudgetMonth { month, limits, settled: Sums::default(), reserved: Sums::default() }
}

pub(super) fn find(connection: &Connection, budget: &Known, month: Month) -> Answer<Option<BudgetMonth>> {
    let sql = format!("select {STANDING} from windlass_budget_months where budget = ?1 and month = ?2");
    let row =
        connection.prepare_cached(&sql)?.query_row((budget.id, month.to_string()), figures).optional()?;
    row.map(dated).transpose()
}

/// The month's row, created when missing.
pub(super) fn open(scope: &Scope<'_>, budget: &Known, month: Month) -> Answer<BudgetMonth> {
    if let Some(figures) = find(scope.connection, budget, month)? {
        return Ok(figures);
    }
    let figures = fresh(&budget.spec, month);
    scope
        .connection
        .prepare_cached(
            "insert into windlass_budget_months (budget, month, limit_amount, limit_tokens, updated_at)
             values (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            budget.id,
            month.to_string(),
            figures.limits.amount.map(|limit| limit.0),
            figures.limits.tokens.map(whole),
            scope.now.0,
        ))?;
    Ok(figures)
}

pub(super) fn put(scope: &Scope<'_>, budget: &Known, figures: &BudgetMonth) -> Answer<()> {
    let (settled, reserved) = (figures.settled, figures.reserved);
    scope
        .connection
        .prepare_cached(
            "update windlass_budget_months
             set settled_amount = ?3, settled_tokens = ?4, reserved_amount = ?5, reserved_tokens = ?6, updated_at = ?7
             where budget = ?1 and month = ?2",
        )?
        .execute((
            budget.id,
            figures.month.to_string(),
            settled.amount.0,
            whole(settled.tokens),
            reserved.amount.0,
            whole(reserved.tokens),
            scope.now.0,
        ))?;
    Ok(())
}

/// Records and returns the alerts that are new this month.
pub(super) fn fire(scope: &Scope<'_>, budget: &Known, figures: &BudgetMonth) -> Answer<Vec<Alert>> {
    let mut fired = Vec::new();
    for alert in figures.alerts(&budget.spec, scope.now) {
        let (percent, level) = (alert.threshold.percent, alert.threshold.level.name());
        let new = scope
            .connection
            .prepare_cached(
                "insert into windlass_budget_alerts (budget, month, percent, level, at) values (?1, ?2, ?3, ?4, ?5)
                 on conflict do nothing",
            )?
            .execute((budget.id, figures.month.to_string(), percent, level, scope.now.0))?;
        if new > 0 {
            fired.push(alert);
        }
    }
    Ok(fired)
}

/// Removes alerts that no longer hold, so that they may fire again.
pub(super) fn rearm(scope: &Scope<'_>, budget: &Known, figures: &BudgetMonth) -> Answer<()> {
    let month = figures.month.to_string();
    let mut statement = scope
        .connection
        .prepare_cached("select percent from windlass_budget_alerts where budget = ?1 and month = ?2")?;
    let percents = statement.query_map((budget.id, &month), |row| row.get::<_, u16>(0))?;
    for percent in percents.collect::<Result<Vec<_>, _>>()? {
        if !figures.reaches(percent) {
            scope
                .connection
                .prepare_cached(
                    "delete from windlass_budget_alerts where budget = ?1 and month = ?2 and percent = ?3",
                )?
                .execute((budget.id, &month, percent))?;
        }
    }
    Ok(())
}
