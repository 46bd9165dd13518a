//! Changes of a budget by operators, with their audit records.

use windlass_core::budget::{BudgetChange, BudgetMonth, Month};
use windlass_core::store::Changed;

use super::month::{self, whole};
use super::spec::{self, Known};
use crate::audit;
use crate::error::Answer;
use crate::scope::Scope;

pub(super) fn change_budget(scope: &mut Scope<'_>, change: &BudgetChange) -> Answer<Changed> {
    let Some(budget) = spec::named(scope.connection, &change.budget)? else { return Ok(Changed::Unknown) };
    if change.month < Month::of(scope.now) {
        return Ok(Changed::Over);
    }
    let before = month::open(scope, &budget, change.month)?;
    let Some(figures) = change.apply(&before, &budget.spec) else { return Ok(Changed::Unbounded) };
    scope
        .connection
        .prepare_cached(
            "update windlass_budget_months
             set limit_amount = ?3, limit_tokens = ?4, live_amount = coalesce(?5, live_amount),
                 live_tokens = coalesce(?6, live_tokens)
             where budget = ?1 and month = ?2",
        )?
        .execute((
            budget.id,
            change.month.to_string(),
            figures.limits.amount.map(|limit| limit.0),
            figures.limits.tokens.map(whole),
            change.limit.map(|limit| limit.is_set()),
            change.tokens.map(|tokens| tokens.is_set()),
        ))?;
    if change.reset {
        take_back(scope, &budget, &before)?;
    }
    audit::note(scope, change.actor.as_ref(), change.note(&before, &figures).as_ref())?;
    month::rearm(scope, &budget, &figures)?;
    month::put(scope, &budget, &figures)?;
    let alerts = month::fire(scope, &budget, &figures)?;
    Ok(Changed::Done { figures, alerts })
}

/// Books one ledger entry that cancels the month's bookings, so that the ledger still adds up. The sums by kind,
/// user and provider start again at zero.
fn take_back(scope: &Scope<'_>, budget: &Known, before: &BudgetMonth) -> Answer<()> {
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
