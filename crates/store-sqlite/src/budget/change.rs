//! What operators change about a budget, with its line in the audit.

use windlass_core::budget::{BudgetChange, Month, Standing};
use windlass_core::store::Changed;

use super::month::{self, whole};
use super::spec::{self, Known};
use crate::error::Answer;
use crate::scope::Scope;

pub(super) fn change_budget(scope: &mut Scope<'_>, change: &BudgetChange) -> Answer<Changed> {
    let Some(budget) = spec::named(scope.connection, &change.budget)? else { return Ok(Changed::Unknown) };
    if change.month < Month::of(scope.now) {
        return Ok(Changed::Over);
    }
    let before = month::open(scope, &budget, change.month)?;
    let standing = change.apply(&before);
    scope
        .connection
        .prepare_cached(
            "update windlass_budget_months
             set limit_amount = ?3, limit_tokens = ?4, live_amount = live_amount or ?5, live_tokens = live_tokens or ?6
             where budget = ?1 and month = ?2",
        )?
        .execute((
            budget.id,
            change.month.to_string(),
            standing.limits.amount.map(|limit| limit.0),
            standing.limits.tokens.map(whole),
            change.limit.is_some(),
            change.tokens.is_some(),
        ))?;
    if change.reset {
        take_back(scope, &budget, &before)?;
    }
    scope
        .connection
        .prepare_cached(
            "insert into windlass_audit (at, actor, act, subject, detail) values (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            scope.now.0,
            &change.actor,
            BudgetChange::ACT,
            change.subject(),
            change.detail(&before).to_string(),
        ))?;
    month::rearm(scope, &budget, &standing)?;
    month::put(scope, &budget, &standing)?;
    let alerts = month::fire(scope, &budget, &standing)?;
    Ok(Changed::Done { standing, alerts })
}

/// One line that takes back what was booked, so that the ledger still adds up; the sums by kind, user and provider begin
/// anew.
fn take_back(scope: &Scope<'_>, budget: &Known, before: &Standing) -> Answer<()> {
    let month = before.month.to_string();
    scope
        .connection
        .prepare_cached(
            "insert into windlass_usage_ledger (at, budget, month, how, tokens_in, tokens_out, amount)
             select ?1, ?2, ?3, 'reset', -coalesce(sum(tokens_in), 0), -coalesce(sum(tokens_out), 0), ?4
             from windlass_budget_costs where budget = ?2 and month = ?3 and dimension = 'kind'",
        )?
        .execute((scope.now.0, budget.id, &month, -before.settled.amount.0))?;
    scope
        .connection
        .prepare_cached(
            "update windlass_budget_costs set requests = 0, tokens_in = 0, tokens_out = 0, amount = 0, updated_at = ?3
             where budget = ?1 and month = ?2",
        )?
        .execute((budget.id, &month, scope.now.0))?;
    Ok(())
}
