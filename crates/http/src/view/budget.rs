//! A budget with its figures. Money is a decimal text, so that no reader rounds it, plus a number of whole cents.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use windlass_core::budget::{Amount, BudgetMonth, BudgetSpec, BudgetState, Level, Threshold, Trigger};
use windlass_core::store::{Budget, Cost, Costs, Fired};
use windlass_pack::{Schemas, Shape, shape};

use super::Stamp;

/// `412.345678`.
#[derive(Clone, Copy, Debug)]
pub struct Money(pub Amount);

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl Shape for Money {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "pattern": r"^-?[0-9]+\.[0-9]{2,6}$" })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct BudgetStateName(pub BudgetState);

impl Serialize for BudgetStateName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl Shape for BudgetStateName {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": BudgetState::ALL.map(BudgetState::name) })
    }
}

shape! {
    /// One budget in one month.
    pub struct BudgetMonthView as "BudgetMonth" {
        pub name: String,
        /// UTC, such as 2026-11.
        pub month: String,
        pub currency: String,
        pub state: BudgetStateName,
        /// The larger of the shares of money and tokens. Above 100 if calls cost more than was reserved.
        pub percent_used: f64,
        /// null if money is not limited.
        pub limit: Option<Money>,
        pub limit_cents: Option<i64>,
        /// Settled plus reserved.
        pub used: Money,
        pub used_cents: i64,
        /// Completed calls.
        pub settled: Money,
        /// Running calls, at their estimates.
        pub reserved: Money,
        /// Input and output together; null if tokens are not limited.
        pub tokens_limit: Option<u64>,
        pub tokens_used: u64,
        pub tokens_settled: u64,
        pub tokens_reserved: u64,
    }
}

impl BudgetMonthView {
    pub fn new(budget: &BudgetSpec, figures: &BudgetMonth) -> BudgetMonthView {
        let (used, limits) = (figures.used(), figures.limits);
        BudgetMonthView {
            name: budget.name.clone(),
            month: figures.month.to_string(),
            currency: budget.currency.clone(),
            state: BudgetStateName(figures.state()),
            percent_used: figures.percent(),
            limit: limits.amount.map(Money),
            limit_cents: limits.amount.map(Amount::cents),
            used: Money(used.amount),
            used_cents: used.amount.cents(),
            settled: Money(figures.settled.amount),
            reserved: Money(figures.reserved.amount),
            tokens_limit: limits.tokens,
            tokens_used: used.tokens,
            tokens_settled: figures.settled.tokens,
            tokens_reserved: figures.reserved.tokens,
        }
    }
}

shape! {
    /// A budget with this month's figures and costs.
    pub struct BudgetView as "Budget" {
        #[serde(flatten)]
        pub figures: BudgetMonthView,
        /// An operator set this month's limits.
        pub limits_are_live: bool,
        /// When the next month begins.
        pub resets_at: Stamp,
        /// Items a scheduled run processes at once; 0 means it waits.
        pub batch_size: u32,
        /// Items a manual run processes at once.
        pub manual_batch_size: u32,
        pub thresholds: Vec<ThresholdView>,
        /// Alerts that fired this month.
        pub alerts: Vec<AlertView>,
        pub costs: CostsView,
    }
}

impl BudgetView {
    pub fn new(budget: &Budget, costs: Costs) -> BudgetView {
        BudgetView {
            figures: BudgetMonthView::new(&budget.spec, &budget.figures),
            limits_are_live: budget.live,
            resets_at: Stamp(budget.figures.month.next().start()),
            batch_size: budget.batch_size(Trigger::Scheduled),
            manual_batch_size: budget.batch_size(Trigger::Manual),
            thresholds: budget.spec.thresholds.iter().map(ThresholdView::from).collect(),
            alerts: budget.alerts.iter().map(AlertView::from).collect(),
            costs: CostsView::from(costs),
        }
    }
}

shape! {
    /// The percentage at which an alert fires.
    pub struct ThresholdView as "BudgetThreshold" {
        pub percent: u16,
        pub level: LevelName,
    }
}

impl From<&Threshold> for ThresholdView {
    fn from(threshold: &Threshold) -> ThresholdView {
        ThresholdView { percent: threshold.percent, level: LevelName(threshold.level) }
    }
}

shape! {
    /// An alert that fired. Each fires once a month.
    pub struct AlertView as "BudgetAlert" {
        pub percent: u16,
        pub level: LevelName,
        pub at: Stamp,
    }
}

impl From<&Fired> for AlertView {
    fn from(fired: &Fired) -> AlertView {
        let Threshold { percent, level } = fired.threshold;
        AlertView { percent, level: LevelName(level), at: Stamp(fired.at) }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LevelName(pub Level);

impl Serialize for LevelName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl Shape for LevelName {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": Level::ALL.map(Level::name) })
    }
}

shape! {
    /// Costs, largest first, at most 100 of each; `unknown` if no user or provider was given.
    pub struct CostsView as "BudgetCosts" {
        pub by_kind: Vec<CostView>,
        pub by_user: Vec<CostView>,
        pub by_provider: Vec<CostView>,
    }
}

impl From<Costs> for CostsView {
    fn from(costs: Costs) -> CostsView {
        let views = |costs: Vec<Cost>| costs.into_iter().map(CostView::from).collect();
        CostsView {
            by_kind: views(costs.by_kind),
            by_user: views(costs.by_user),
            by_provider: views(costs.by_provider),
        }
    }
}

shape! {
    /// Total of some calls.
    pub struct CostView as "BudgetCost" {
        /// The kind, user or provider.
        pub key: String,
        pub requests: u64,
        pub tokens_in: u64,
        pub tokens_out: u64,
        pub amount: Money,
        pub amount_cents: i64,
    }
}

impl From<Cost> for CostView {
    fn from(cost: Cost) -> CostView {
        CostView {
            key: cost.key,
            requests: cost.requests,
            tokens_in: cost.tokens_in,
            tokens_out: cost.tokens_out,
            amount: Money(cost.amount),
            amount_cents: cost.amount.cents(),
        }
    }
}
