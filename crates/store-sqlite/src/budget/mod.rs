//! Budgets: reservations, bookings, alerts that fired, and operators' changes.
//!
//! Owns the tables of budgets. The single writer serializes changes of a month. `core::budget` decides whether a
//! call fits.

mod call;
mod change;
mod month;
mod read;
mod spec;

use async_trait::async_trait;
use windlass_core::budget::{Alert, BudgetChange, BudgetMonth, BudgetSpec, Month, Usage};
use windlass_core::store::{Ask, Budget, BudgetStore, Changed, Charged, Costs, Entry, Leak, Reserved};
use windlass_core::{ReservationId, StoreError, Time, Token};

use crate::SqliteStore;

#[async_trait]
impl BudgetStore for SqliteStore {
    async fn sync_budgets(&self, specs: &[BudgetSpec]) -> Result<(), StoreError> {
        let specs = specs.to_vec();
        self.write("register budgets", specs.len(), move |scope| spec::sync_budgets(scope, &specs)).await
    }

    async fn budgets(&self) -> Result<Vec<Budget>, StoreError> {
        let now = self.now_here();
        self.read("list budgets", move |connection| read::budgets(connection, now)).await
    }

    async fn reserve(&self, ask: &Ask) -> Result<Reserved, StoreError> {
        let ask = ask.clone();
        self.write("reserve", 2, move |scope| call::reserve(scope, &ask)).await
    }

    async fn settle_reservation(
        &self,
        id: ReservationId,
        token: Token,
        usage: &Usage,
    ) -> Result<Charged, StoreError> {
        let usage = usage.clone();
        self.write("settle a reservation", 6, move |scope| call::settle_reservation(scope, id, token, &usage))
            .await
    }

    /// Reads before it writes: a sweep runs every other second and rarely finds anything.
    async fn sweep_reservations(&self) -> Result<Vec<Leak>, StoreError> {
        const OP: &str = "sweep reservations";
        if !self.read(OP, call::has_leaks).await? {
            return Ok(Vec::new());
        }
        self.write(OP, call::SWEPT_AT_ONCE, call::sweep_reservations).await
    }

    async fn history(&self, budget: &str, months: u32) -> Result<Option<Vec<BudgetMonth>>, StoreError> {
        let (budget, now) = (budget.to_owned(), self.now_here());
        self.read("read a budget's months", move |connection| read::history(connection, &budget, months, now))
            .await
    }

    async fn alerts_since(&self, since: Time) -> Result<Vec<Alert>, StoreError> {
        self.read("read alerts", move |connection| read::alerts_since(connection, since)).await
    }

    async fn costs(&self, budget: &str, month: Month) -> Result<Costs, StoreError> {
        let budget = budget.to_owned();
        self.read("read a budget's costs", move |connection| read::costs(connection, &budget, month)).await
    }

    async fn ledger(&self, budget: &str, month: Month, limit: u32) -> Result<Vec<Entry>, StoreError> {
        let budget = budget.to_owned();
        self.read("read the ledger", move |connection| read::ledger(connection, &budget, month, limit)).await
    }

    async fn change_budget(&self, change: &BudgetChange) -> Result<Changed, StoreError> {
        let change = change.clone();
        self.write("change a budget", 4, move |scope| change::change_budget(scope, &change)).await
    }
}
