//! An operator's change of one budget in one month.

use serde_json::{Map, json};

use super::spec::check_amount;
use super::{Amount, BudgetMonth, BudgetSpec, Month, Sums};
use crate::Invalid;
use crate::audit::{Actor, BUDGET_CHANGE, NewAudit, differences};
use crate::input::MAX_TOKENS;
use crate::store::Live;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetChange {
    pub budget: String,
    pub month: Month,
    /// Applies to that month only; the next month uses the configured limit again. `Set(None)` removes the limit.
    pub limit: Option<Live<Option<Amount>>>,
    pub tokens: Option<Live<Option<u64>>>,
    /// Sets the settled sums to zero. Reserved sums stay, because those calls are still running.
    pub reset: bool,
    /// With an actor, the change is audited.
    pub actor: Option<Actor>,
}

impl BudgetChange {
    /// An empty change.
    pub fn new(budget: &str, month: Month, actor: Option<&Actor>) -> BudgetChange {
        BudgetChange {
            budget: budget.to_owned(),
            month,
            limit: None,
            tokens: None,
            reset: false,
            actor: actor.cloned(),
        }
    }

    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        if self.limit.is_none() && self.tokens.is_none() && !self.reset {
            invalid.add("body", "must change something: limit, tokens or reset");
        }
        if let Some(Live::Set(Some(limit))) = self.limit {
            check_amount(&mut invalid, "limit", limit);
        }
        if matches!(self.tokens, Some(Live::Set(Some(tokens))) if tokens > MAX_TOKENS) {
            invalid.add("tokens", format!("must be at most {MAX_TOKENS}"));
        }
        invalid.into_result()
    }

    /// `None` if no limit would be left: a budget must have one.
    pub fn apply(&self, before: &BudgetMonth, configured: &BudgetSpec) -> Option<BudgetMonth> {
        let mut after = *before;
        if let Some(limit) = self.limit {
            after.limits.amount = limit.set().unwrap_or(configured.limit);
        }
        if let Some(tokens) = self.tokens {
            after.limits.tokens = tokens.set().unwrap_or(configured.tokens);
        }
        if self.reset {
            after.settled = Sums::default();
        }
        (after.limits.amount.is_some() || after.limits.tokens.is_some()).then_some(after)
    }

    /// The audit record; `None` if nothing changed.
    pub fn note(&self, before: &BudgetMonth, after: &BudgetMonth) -> Option<NewAudit> {
        let values = |month: &BudgetMonth| {
            let BudgetMonth { limits, settled, .. } = month;
            let mut values = Map::new();
            values.insert("limit".to_owned(), json!(limits.amount));
            values.insert("tokens".to_owned(), json!(limits.tokens));
            values.insert("settled".to_owned(), json!(settled.amount));
            values.insert("tokens_used".to_owned(), json!(settled.tokens));
            values
        };
        let detail = differences(&values(before), &values(after));
        NewAudit::about(BUDGET_CHANGE, format!("budget/{}/{}", self.budget, self.month), detail)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;

    #[test]
    fn a_change_has_the_values_before_and_after() {
        let before = BudgetMonth {
            month: "2026-11".parse().unwrap(),
            limits: Limits { amount: Some(Amount::from_cents(50_000)), tokens: None },
            settled: Sums { amount: Amount(412_345_678), tokens: 9 },
            reserved: Sums { amount: Amount(6_000), tokens: 1 },
        };
        let nothing = BudgetChange::new("ai", before.month, None);
        assert!(nothing.check().unwrap_err().to_string().contains("must change something"));
        let limit = Some(Live::Set(Some(Amount::from_cents(75_000))));
        let change = BudgetChange { limit, reset: true, ..nothing };
        assert_eq!(change.check(), Ok(()));
        let after = change.apply(&before, &BudgetSpec::named("ai")).unwrap();
        assert_eq!((after.limits.amount, after.limits.tokens), (Some(Amount::from_cents(75_000)), None));
        assert_eq!((after.settled, after.reserved), (Sums::default(), before.reserved));
        let note = change.note(&before, &after).unwrap();
        let detail = r#"{"limit":{"from":"500.00","to":"750.00"},"settled":{"from":"412.345678","to":"0.00"},"tokens_used":{"from":9,"to":0}}"#;
        assert_eq!(
            (serde_json::to_string(&note.detail).unwrap(), note.subject),
            (detail.to_owned(), "budget/ai/2026-11".to_owned())
        );
        assert_eq!(change.note(&after, &after), None, "nothing changed");
    }

    #[test]
    fn a_limit_is_removed_or_reset_to_the_configured_one() {
        let spec = BudgetSpec { tokens: Some(7), ..BudgetSpec::named("ai") };
        let before = BudgetMonth {
            month: "2026-11".parse().unwrap(),
            limits: Limits { amount: Some(Amount(5)), tokens: Some(9) },
            settled: Sums::default(),
            reserved: Sums::default(),
        };
        let limits = |limit, tokens| {
            let change = BudgetChange { limit, tokens, ..BudgetChange::new("ai", before.month, None) };
            change.apply(&before, &spec).map(|after| (after.limits.amount, after.limits.tokens))
        };
        assert_eq!(limits(None, Some(Live::Set(None))), Some((Some(Amount(5)), None)));
        assert_eq!(limits(Some(Live::Set(None)), None), Some((None, Some(9))));
        assert_eq!(limits(None, Some(Live::Configured)), Some((Some(Amount(5)), Some(7))));
        assert_eq!(limits(Some(Live::Configured), None), Some((None, Some(9))), "none is configured");
        assert_eq!(limits(Some(Live::Set(None)), Some(Live::Set(None))), None, "a limit must be left");
        let back = (Some(Live::Configured), Some(Live::Configured));
        assert_eq!(limits(back.0, back.1), Some((None, Some(7))));
    }
}
