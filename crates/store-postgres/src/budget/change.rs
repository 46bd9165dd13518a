//! Changes of a budget by operators, with their audit records.

use sqlx::PgConnection;
use windlass_core::budget::{BudgetChange, BudgetMonth, Month};
use windlass_core::store::Changed;
use windlass_core::{StoreError, Time};

use super::spec::Known;
use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, big_in};

const PUT_LIMITS: &str = "
    update windlass.budget_months
    set limit_amount = $3, limit_tokens = $4, live_amount = coalesce($5, live_amount),
        live_tokens = coalesce($6, live_tokens)
    where budget = $1 and month = $2";

const TAKE_BACK: &str = "
    insert into windlass.usage_ledger (at, budget, month, how, tokens_in, tokens_out, amount)
    select $1, $2, $3, 'reset', -coalesce(sum(tokens_in), 0), -coalesce(sum(tokens_out), 0), $4
    from windlass.budget_costs where budget = $2 and month = $3 and dimension = 'kind'";

const FORGET_COSTS: &str = "
    update windlass.budget_costs set requests = 0, tokens_in = 0, tokens_out = 0, amount = 0, updated_at = $3
    where budget = $1 and month = $2";

const OP: &str = "change a budget";

impl PostgresStore {
    pub(super) async fn write_change(&self, change: &BudgetChange) -> Result<Changed, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let Some(budget) = self.budget_named(&mut tx, &change.budget).await? else {
            return Ok(Changed::Unknown);
        };
        let now = self.now_on(&mut tx).await?;
        if change.month < Month::of(now) {
            return Ok(Changed::Over);
        }
        let before = self.lock_month(&mut tx, &budget, change.month, now).await?;
        let Some(figures) = change.apply(&before, &budget.spec) else {
            tx.rollback().await.map_err(failed(OP))?;
            return Ok(Changed::Unbounded);
        };
        sqlx::query(self.sql(PUT_LIMITS))
            .bind(budget.id)
            .bind(change.month.to_string())
            .bind(figures.limits.amount.map(|limit| limit.0))
            .bind(figures.limits.tokens.map(big_in))
            .bind(change.limit.map(|limit| limit.is_set()))
            .bind(change.tokens.map(|tokens| tokens.is_set()))
            .execute(&mut *tx)
            .await
            .map_err(failed(OP))?;
        if change.reset {
            self.take_back(&mut tx, &budget, &before, now).await?;
        }
        self.note(&mut tx, change.actor.as_ref(), change.note(&before, &figures).as_ref()).await?;
        self.rearm(&mut tx, &budget, &figures).await?;
        self.put_month(&mut tx, &budget, &figures, now).await?;
        let alerts = self.fire(&mut tx, &budget, &figures, now).await?;
        tx.commit().await.map_err(failed(OP))?;
        Ok(Changed::Done { figures, alerts })
    }

    /// Books one ledger entry that cancels the month's bookings, so that the ledger still adds up. The sums by kind,
    /// user and provider start again at zero.
    async fn take_back(
        &self,
        conn: &mut PgConnection,
        budget: &Known,
        before: &BudgetMonth,
        now: Time,
    ) -> Result<(), StoreError> {
        sqlx::query(self.sql(TAKE_BACK))
            .bind(PgTime(now))
            .bind(budget.id)
            .bind(before.month.to_string())
            .bind(-before.settled.amount.0)
            .execute(&mut *conn)
            .await
            .map_err(failed(OP))?;
        sqlx::query(self.sql(FORGET_COSTS))
            .bind(budget.id)
            .bind(before.month.to_string())
            .bind(PgTime(now))
            .execute(conn)
            .await
            .map_err(failed(OP))?;
        Ok(())
    }
}
