//! What an operator changes about one budget in one month.

use serde_json::{Map, Value, json};

use super::spec::check_amount;
use super::{Amount, Month, Standing, Sums};
use crate::Invalid;
use crate::input::MAX_TOKENS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetChange {
    pub budget: String,
    pub month: Month,
    /// Holds for that month only; the next one has the configured limit again.
    pub limit: Option<Amount>,
    pub tokens: Option<u64>,
    /// What is settled becomes nothing; what is reserved stays, because those calls are under way.
    pub reset: bool,
    /// Who does it.
    pub actor: String,
}

impl BudgetChange {
    /// What the audit calls it.
    pub const ACT: &'static str = "budget.change";

    /// Changes nothing yet.
    pub fn new(budget: &str, month: Month, actor: &str) -> BudgetChange {
        BudgetChange {
            budget: budget.to_owned(),
            month,
            limit: None,
            tokens: None,
            reset: false,
            actor: actor.to_owned(),
        }
    }

    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        if self.limit.is_none() && self.tokens.is_none() && !self.reset {
            invalid.add("body", "must change something: limit, tokens or reset");
        }
        if let Some(limit) = self.limit {
            check_amount(&mut invalid, "limit", limit);
        }
        if self.tokens.is_some_and(|tokens| tokens > MAX_TOKENS) {
            invalid.add("tokens", format!("must be at most {MAX_TOKENS}"));
        }
        invalid.into_result()
    }

    pub fn apply(&self, before: &Standing) -> Standing {
        let mut after = *before;
        after.limits.amount = self.limit.or(before.limits.amount);
        after.limits.tokens = self.tokens.or(before.limits.tokens);
        if self.reset {
            after.settled = Sums::default();
        }
        after
    }

    /// For the audit: what it was and what it is now.
    pub fn detail(&self, before: &Standing) -> Value {
        let mut detail = Map::new();
        if let Some(limit) = self.limit {
            detail.insert("limit".to_owned(), json!({ "from": before.limits.amount, "to": limit }));
        }
        if let Some(tokens) = self.tokens {
            detail.insert("tokens".to_owned(), json!({ "from": before.limits.tokens, "to": tokens }));
        }
        if self.reset {
            let Sums { amount, tokens } = before.settled;
            detail.insert("reset".to_owned(), json!({ "amount": amount, "tokens": tokens }));
        }
        Value::Object(detail)
    }

    /// What the audit says it was done to.
    pub fn subject(&self) -> String {
        format!("budget/{}/{}", self.budget, self.month)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;

    #[test]
    fn a_change_says_what_was_and_what_is() {
        let before = Standing {
            month: "2026-11".parse().unwrap(),
            limits: Limits { amount: Some(Amount::from_cents(50_000)), tokens: None },
            settled: Sums { amount: Amount(412_345_678), tokens: 9 },
            reserved: Sums { amount: Amount(6_000), tokens: 1 },
        };
        let nothing = BudgetChange::new("ai", before.month, "me");
        assert!(nothing.check().unwrap_err().to_string().contains("must change something"));
        let change = BudgetChange { limit: Some(Amount::from_cents(75_000)), reset: true, ..nothing };
        assert_eq!(change.check(), Ok(()));
        let after = change.apply(&before);
        assert_eq!((after.limits.amount, after.limits.tokens), (Some(Amount::from_cents(75_000)), None));
        assert_eq!((after.settled, after.reserved), (Sums::default(), before.reserved));
        let detail =
            r#"{"limit":{"from":"500.00","to":"750.00"},"reset":{"amount":"412.345678","tokens":9}}"#;
        assert_eq!(
            (change.detail(&before).to_string(), change.subject()),
            (detail.to_owned(), "budget/ai/2026-11".to_owned())
        );
    }
}
