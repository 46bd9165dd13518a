//! One budget in one month: the row that all decisions are based on, and its alerts.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::budget::{Alert, Amount, BudgetMonth, BudgetSpec, Limits, Month, Sums};
use windlass_core::{StoreError, Time};

use super::spec::Known;
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, big_in, count, get};

const LOCK: &str = "
    select month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens
    from windlass.budget_months where budget = $1 and month = $2 for update";

const FIND: &str = "
    select month, limit_amount, limit_tokens, settled_amount, settled_tokens, reserved_amount, reserved_tokens
    from windlass.budget_months where budget = $1 and month = $2";

/// Copies the limits in the statement itself: limits read earlier may miss a change that was just committed.
const MAKE: &str = "
    insert into windlass.budget_months (budget, month, limit_amount, limit_tokens, updated_at)
    select id, $2, amount, tokens, $3 from windlass.budgets where id = $1
    on conflict do nothing";

const PUT: &str = "
    update windlass.budget_months
    set settled_amount = $3, settled_tokens = $4, reserved_amount = $5, reserved_tokens = $6, updated_at = $7
    where budget = $1 and month = $2";

const FIRE: &str = "
    insert into windlass.budget_alerts (budget, month, percent, level, at)
    select $1, $2, percent, level, $5 from unnest($3::smallint[], $4::text[]) u (percent, level)
    on conflict do nothing
    returning percent";

const FIRED: &str = "select percent from windlass.budget_alerts where budget = $1 and month = $2";
const REARM: &str =
    "delete from windlass.budget_alerts where budget = $1 and month = $2 and percent = any ($3)";

const OP: &str = "write a budget's month";

pub(super) fn month_of(text: &str) -> Result<Month, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt { what: format!("`{text}` is not a month") })
}

pub(super) fn figures(row: &PgRow) -> Result<BudgetMonth, StoreError> {
    let sums = |amount, tokens| -> Result<Sums, StoreError> {
        Ok(Sums { amount: Amount(get(row, amount)?), tokens: count(row, tokens)? })
    };
    Ok(BudgetMonth {
        month: month_of(&get::<String>(row, "month")?)?,
        limits: Limits {
            amount: get::<Option<i64>>(row, "limit_amount")?.map(Amount),
            tokens: get::<Option<i64>>(row, "limit_tokens")?.map(i64::unsigned_abs),
        },
        settled: sums("settled_amount", "settled_tokens")?,
        reserved: sums("reserved_amount", "reserved_tokens")?,
    })
}

/// A month without usage.
pub(super) fn fresh(spec: &BudgetSpec, month: Month) -> BudgetMonth {
    let limits = Limits { amount: spec.limit, tokens: spec.tokens };
    BudgetMonth { month, limits, settled: Sums::default(), reserved: Sums::default() }
}

impl PostgresStore {
    pub(super) async fn find_month(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        month: Month,
    ) -> Result<Option<BudgetMonth>, StoreError> {
        let query = sqlx::query(self.sql(FIND)).bind(budget.id).bind(month.to_string());
        let row = query.fetch_optional(conn).await.map_err(failed("read a budget's month"))?;
        row.as_ref().map(figures).transpose()
    }

    /// The locked row of the month, created when missing.
    pub(super) async fn lock_month(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        month: Month,
        now: Time,
    ) -> Result<BudgetMonth, StoreError> {
        let lock = || sqlx::query(self.sql(LOCK)).bind(budget.id).bind(month.to_string());
        if let Some(row) = lock().fetch_optional(&mut *conn).await.map_err(failed(OP))? {
            return figures(&row);
        }
        sqlx::query(self.sql(MAKE))
            .bind(budget.id)
            .bind(month.to_string())
            .bind(PgTime(now))
            .execute(&mut *conn)
            .await
            .map_err(failed(OP))?;
        figures(&lock().fetch_one(conn).await.map_err(failed(OP))?)
    }

    pub(super) async fn put_month(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        figures: &BudgetMonth,
        now: Time,
    ) -> Result<(), StoreError> {
        let (settled, reserved) = (figures.settled, figures.reserved);
        sqlx::query(self.sql(PUT))
            .bind(budget.id)
            .bind(figures.month.to_string())
            .bind(settled.amount.0)
            .bind(big_in(settled.tokens))
            .bind(reserved.amount.0)
            .bind(big_in(reserved.tokens))
            .bind(PgTime(now))
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }

    /// Records and returns the alerts that are new this month.
    pub(super) async fn fire(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        figures: &BudgetMonth,
        now: Time,
    ) -> Result<Vec<Alert>, StoreError> {
        let mut due = figures.alerts(&budget.spec, now);
        if due.is_empty() {
            return Ok(due);
        }
        let rows = sqlx::query(self.sql(FIRE))
            .bind(budget.id)
            .bind(figures.month.to_string())
            .bind(due.iter().map(|alert| percent_in(alert.threshold.percent)).collect::<Vec<_>>())
            .bind(due.iter().map(|alert| alert.threshold.level.name()).collect::<Vec<_>>())
            .bind(PgTime(now))
            .fetch_all(conn)
            .await
            .map_err(failed("fire alerts"))?;
        let new = rows.iter().map(|row| get(row, "percent")).collect::<Result<Vec<i16>, _>>()?;
        due.retain(|alert| new.contains(&percent_in(alert.threshold.percent)));
        Ok(due)
    }

    /// Removes alerts that no longer hold, so that they may fire again.
    pub(super) async fn rearm(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        figures: &BudgetMonth,
    ) -> Result<(), StoreError> {
        let about = |sql| sqlx::query(self.sql(sql)).bind(budget.id).bind(figures.month.to_string());
        let rows = about(FIRED).fetch_all(&mut *conn).await.map_err(failed(OP))?;
        let mut over = Vec::new();
        for row in &rows {
            let percent: i16 = get(row, "percent")?;
            if !figures.reaches(u16::try_from(percent).unwrap_or(0)) {
                over.push(percent);
            }
        }
        about(REARM).bind(over).execute(conn).await.map_err(failed(OP))?;
        Ok(())
    }
}

fn percent_in(percent: u16) -> i16 {
    i16::try_from(percent).unwrap_or(i16::MAX)
}
