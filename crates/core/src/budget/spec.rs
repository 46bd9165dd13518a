//! The configuration of a budget.

use serde::{Deserialize, Serialize};

use super::{Amount, Level};
use crate::Invalid;
use crate::input::{MAX_TOKENS, shown};

pub const DEFAULT_CURRENCY: &str = "USD";
/// This budget's figures are also served under fixed names (`ai_usage_tracking`, `ai_budget_percent_used`).
pub const AI: &str = "ai";
pub const MAX_THRESHOLDS: usize = 16;
const MAX_PERCENT: u16 = 1_000;

/// An alert fires once a month when `used` reaches this percentage of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    pub percent: u16,
    pub level: Level,
}

/// Money or tokens per month, or both. The one with the larger share used decides the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetSpec {
    pub name: String,
    pub limit: Option<Amount>,
    /// Input and output together.
    pub tokens: Option<u64>,
    pub currency: String,
    /// In ascending order.
    pub thresholds: Vec<Threshold>,
}

pub fn default_thresholds() -> Vec<Threshold> {
    let at = |percent, level| Threshold { percent, level };
    vec![at(75, Level::Info), at(80, Level::Warning), at(90, Level::Warning), at(100, Level::Critical)]
}

impl BudgetSpec {
    /// Without a limit, which a valid budget needs.
    pub fn named(name: &str) -> BudgetSpec {
        BudgetSpec {
            name: name.to_owned(),
            limit: None,
            tokens: None,
            currency: DEFAULT_CURRENCY.to_owned(),
            thresholds: default_thresholds(),
        }
    }

    /// A monthly limit in money.
    pub fn money(name: &str, limit: Amount) -> BudgetSpec {
        BudgetSpec { limit: Some(limit), ..BudgetSpec::named(name) }
    }

    /// Reports every violated rule, with the field names of the configuration.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        invalid.check_word("name", &self.name);
        if self.limit.is_none() && self.tokens.is_none() {
            invalid.add("limit", "or tokens has to be set: a budget bounds something");
        }
        if let Some(limit) = self.limit {
            check_amount(&mut invalid, "limit", limit);
        }
        if let Some(tokens) = self.tokens {
            invalid.check_tokens("tokens", tokens);
        }
        let currency = &self.currency;
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            invalid.add(
                "currency",
                format!("must be three capital letters such as USD, not `{}`", shown(currency)),
            );
        }
        self.check_thresholds(&mut invalid);
        invalid.into_result()
    }

    fn check_thresholds(&self, invalid: &mut Invalid) {
        let thresholds = &self.thresholds;
        if thresholds.len() > MAX_THRESHOLDS {
            let count = thresholds.len();
            invalid.add("thresholds", format!("has {count} entries; at most {MAX_THRESHOLDS} are allowed"));
        }
        for threshold in thresholds {
            if !(1..=MAX_PERCENT).contains(&threshold.percent) {
                let percent = threshold.percent;
                invalid.add("thresholds", format!("must be 1 to {MAX_PERCENT} percent, not {percent}"));
            }
        }
        if !thresholds.is_sorted_by(|a, b| a.percent < b.percent) {
            invalid.add("thresholds", "must rise, each percentage once");
        }
    }
}

pub(super) fn check_amount(invalid: &mut Invalid, field: &str, amount: Amount) {
    if !(Amount::ZERO..=Amount::MOST).contains(&amount) {
        invalid.add(field, format!("must be 0 to {}, not {amount}", Amount::MOST));
    }
}

impl Invalid {
    fn check_tokens(&mut self, field: &str, tokens: u64) {
        if tokens > MAX_TOKENS {
            self.add(field, format!("must be at most {MAX_TOKENS}, not {tokens}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(spec: &BudgetSpec) -> String {
        spec.check().err().map(|invalid| invalid.to_string()).unwrap_or_default()
    }

    #[test]
    fn all_violated_rules_are_reported_at_once() {
        let good = BudgetSpec::money("ai", Amount::from_cents(50_000));
        assert_eq!(good.check(), Ok(()));
        let at = |percent| Threshold { percent, level: Level::Info };
        let bad = BudgetSpec {
            name: "AI".to_owned(),
            limit: None,
            tokens: None,
            currency: "dollars".to_owned(),
            thresholds: vec![at(90), at(75), at(0)],
        };
        let message = problems(&bad);
        for part in
            ["name: must begin with a–z", "limit: or tokens", "currency: must be three", "0", "must rise"]
        {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(
            problems(&BudgetSpec { limit: Some(Amount(-1)), ..good.clone() }).contains("limit: must be 0 to")
        );
        let many = (1..=17).map(at).collect();
        assert!(problems(&BudgetSpec { thresholds: many, ..good.clone() }).contains("at most 16"));
        assert!(problems(&BudgetSpec { tokens: Some(u64::MAX), ..good }).contains("tokens: must be at most"));
    }
}
