//! Budgets: reservations, bookings, alerts that fired, and operators' changes.
//!
//! Owns the tables of budgets. `core::budget` decides whether a call fits, under the lock of the month's row. A change
//! locks the row of its month first and no other month after it, so that changes cannot deadlock.

mod call;
mod change;
mod month;
mod read;
mod spec;

use async_trait::async_trait;
use windlass_core::budget::{Alert, BudgetChange, BudgetMonth, BudgetSpec, Month, Usage};
use windlass_core::store::{Ask, Budget, BudgetStore, Changed, Charged, Costs, Entry, Leak, Reserved};
use windlass_core::{ReservationId, StoreError, Time, Token};

use crate::PostgresStore;

type Result<T> = std::result::Result<T, StoreError>;

#[async_trait]
impl BudgetStore for PostgresStore {
    async fn sync_budgets(&self, specs: &[BudgetSpec]) -> Result<()> {
        self.write_budgets(specs).await
    }

    async fn budgets(&self) -> Result<Vec<Budget>> {
        self.list_budgets().await
    }

    async fn reserve(&self, ask: &Ask) -> Result<Reserved> {
        self.reserve_call(ask).await
    }

    async fn settle_reservation(&self, id: ReservationId, token: Token, usage: &Usage) -> Result<Charged> {
        self.settle_call(id, token, usage).await
    }

    async fn sweep_reservations(&self) -> Result<Vec<Leak>> {
        self.sweep_calls().await
    }

    async fn history(&self, budget: &str, months: u32) -> Result<Option<Vec<BudgetMonth>>> {
        self.list_months(budget, months).await
    }

    async fn alerts_since(&self, since: Time) -> Result<Vec<Alert>> {
        self.list_alerts(since).await
    }

    async fn costs(&self, budget: &str, month: Month) -> Result<Costs> {
        self.list_costs(budget, month).await
    }

    async fn ledger(&self, budget: &str, month: Month, limit: u32) -> Result<Vec<Entry>> {
        self.list_ledger(budget, month, limit).await
    }

    async fn change_budget(&self, change: &BudgetChange) -> Result<Changed> {
        self.write_change(change).await
    }
}
