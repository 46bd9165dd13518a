//! Budgets with their figures, and an operator's changes of one month.

use windlass_core::audit::Actor;
use windlass_core::budget::{Amount, BudgetChange, BudgetMonth, BudgetSpec, Month};
use windlass_core::input::shown;
use windlass_core::store::{Budget, Changed, Costs, Live};
use windlass_core::{Invalid, StoreError};

use super::OperateError;
use crate::{Client, EngineError};

/// `None` leaves a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonthChange {
    pub limit: Option<Live<Option<Amount>>>,
    pub tokens: Option<Live<Option<u64>>>,
    /// Sets what was used back to zero.
    pub reset: bool,
}

impl Client {
    /// Every budget by name, with this month's figures and costs by item.
    pub async fn budgets(&self) -> Result<Vec<(Budget, Costs)>, StoreError> {
        let mut budgets = Vec::new();
        for budget in self.store().budgets().await? {
            let costs = self.store().costs(&budget.spec.name, budget.figures.month).await?;
            budgets.push((budget, costs));
        }
        Ok(budgets)
    }

    /// The last `months` months that have figures, and future ones whose limits were set; newest first.
    pub async fn budget_history(
        &self,
        name: &str,
        months: u32,
    ) -> Result<(BudgetSpec, Vec<BudgetMonth>), OperateError> {
        let budget = self.known_budget(name).await?;
        let standings = self.store().history(name, months).await?.unwrap_or_default();
        Ok((budget.spec, standings))
    }

    /// Returns the month as it is after the change.
    pub async fn change_month(
        &self,
        name: &str,
        month: Option<Month>,
        said: &MonthChange,
        found: Invalid,
        actor: &Actor,
    ) -> Result<(BudgetSpec, BudgetMonth), OperateError> {
        let MonthChange { limit, tokens, reset } = *said;
        // Without a month the rest is checked all the same; any month does for that.
        let checked = month.unwrap_or(Month::of(windlass_core::Time(0)));
        let change = BudgetChange { limit, tokens, reset, ..BudgetChange::new(name, checked, Some(actor)) };
        let mut invalid = change.check().err().unwrap_or_default();
        if !found.problems.is_empty() {
            invalid.problems.retain(|problem| problem.field != "body");
        }
        found.and(invalid).into_result()?;
        let Some(month) = month else { return Err(Invalid::one("month", "is required").into()) };
        let budget = self.known_budget(name).await?;
        let changed = self.change_budget(&change).await.map_err(|error| match error {
            EngineError::Invalid(invalid) => OperateError::Invalid(invalid),
            EngineError::Store(error) => OperateError::Store(error),
        })?;
        match changed {
            Changed::Done { figures, .. } => Ok((budget.spec, figures)),
            Changed::Unknown => Err(missing(name, &[])),
            Changed::Over => {
                let why = format!("{month} is over and its books are closed; nothing was written");
                Err(OperateError::Conflict { code: "month_over", why })
            }
            Changed::Unbounded => {
                Err(Invalid::one("limit", "or tokens has to stay: a budget bounds something").into())
            }
        }
    }

    async fn known_budget(&self, name: &str) -> Result<Budget, OperateError> {
        let mut budgets = self.store().budgets().await?;
        match budgets.iter().position(|budget| budget.spec.name == name) {
            Some(place) => Ok(budgets.swap_remove(place)),
            None => Err(missing(name, &budgets)),
        }
    }
}

fn missing(name: &str, known: &[Budget]) -> OperateError {
    let names: Vec<&str> = known.iter().map(|budget| budget.spec.name.as_str()).collect();
    let known = match names.as_slice() {
        [] => "none is configured".to_owned(),
        names => format!("known: {}", names.join(", ")),
    };
    OperateError::Missing(format!("there is no budget `{}`; {known}", shown(name)))
}
