//! Metrics of budgets: usage, cost per kind, alerts, and refusals in this process.

use std::collections::BTreeMap;

use windlass_core::budget::{AI, BudgetState, Level};
use windlass_core::store::{Budget, Costs};
use windlass_engine::Meter;

use super::text::Text;

/// A budget and its costs this month, read for one scrape.
pub(super) type Figure = (Budget, Costs);

/// Writes nothing if no budget is configured.
pub(super) fn database(text: &mut Text, figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    type Read = fn(&Budget) -> Option<f64>;
    let per_budget: [(&str, &str, Read); 5] = [
        ("windlass_budget_percent_used", "Settled plus reserved, of this month's limit.", |b| {
            Some(b.figures.percent())
        }),
        ("windlass_budget_limit_units", "This month's limit in units of its currency.", |b| {
            b.figures.limits.amount.map(|limit| limit.units())
        }),
        ("windlass_budget_used_units", "Settled plus reserved this month.", |b| {
            Some(b.figures.used().amount.units())
        }),
        ("windlass_budget_limit_tokens", "This month's limit of tokens.", |b| {
            b.figures.limits.tokens.map(|limit| limit as f64)
        }),
        ("windlass_budget_used_tokens", "Tokens settled and reserved this month.", |b| {
            Some(b.figures.used().tokens as f64)
        }),
    ];
    for (name, help, read) in per_budget {
        text.gauge(name, help);
        for (budget, _) in figures {
            if let Some(value) = read(budget) {
                text.sample(name, &[("budget", &budget.spec.name)], value);
            }
        }
    }
    let name = "windlass_budget_state";
    text.gauge(name, "1 for the state the budget is in.");
    for (budget, _) in figures {
        for state in BudgetState::ALL {
            let value = f64::from(u8::from(budget.state() == state));
            text.sample(name, &[("budget", &budget.spec.name), ("state", state.name())], value);
        }
    }
    let name = "windlass_budget_alerts";
    text.gauge(name, "Active alerts of this month, fired by any process.");
    for (budget, _) in figures {
        for level in Level::ALL {
            let count = budget.alerts.iter().filter(|fired| fired.threshold.level == level).count();
            text.sample(name, &[("budget", &budget.spec.name), ("level", level.name())], count as f64);
        }
    }
    documents(text, figures);
}

const DOLLARS: &str = "USD";

/// Under legacy names.
fn documents(text: &mut Text, figures: &[Figure]) {
    let name = "job_budget_consumed_dollars";
    text.counter(name, "Dollars booked this month by kind of job; restarts each month.");
    let mut kinds = BTreeMap::<&str, f64>::new();
    let dollars = figures.iter().filter(|(budget, _)| budget.spec.currency == DOLLARS);
    for cost in dollars.flat_map(|(_, costs)| &costs.by_kind) {
        *kinds.entry(&cost.key).or_default() += cost.amount.units();
    }
    for (kind, units) in kinds {
        text.sample(name, &[("job_type", kind)], units);
    }
    if let Some((budget, _)) = figures.iter().find(|(budget, _)| budget.spec.name == AI) {
        let name = "ai_budget_percent_used";
        text.gauge(name, "Settled plus reserved of the budget `ai`, of this month's limit.");
        text.sample(name, &[], budget.figures.percent());
    }
}

/// Counted in this process.
pub(super) fn process(text: &mut Text, meter: &Meter) {
    let name = "windlass_budget_alerts_total";
    text.counter(name, "Alerts fired by any process since this process started.");
    for ((budget, level), count) in meter.alerts() {
        text.sample(name, &[("budget", &budget), ("level", level.name())], count as f64);
    }
    let name = "windlass_budget_refusals_total";
    text.counter(name, "Calls of this process that had to wait for their budget.");
    for ((budget, state), count) in meter.refusals() {
        text.sample(name, &[("budget", &budget), ("state", state.name())], count as f64);
    }
}
