//! One provider call: its estimate, its actual cost, and the alerts it fired.

use super::spec::check_amount;
use super::{Amount, BudgetMonth, Sums, Threshold, Trigger};
use crate::input::MAX_TOKENS;
use crate::{Invalid, Time};

/// The most a call is expected to cost. A higher cost is still booked, but the limit did not guard against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    pub amount: Amount,
    /// Input and output together.
    pub tokens: u64,
    /// Defaults to the job's tag or payload, else scheduled.
    pub trigger: Option<Trigger>,
    /// Defaults to the job's tag `user:ID`.
    pub user: Option<String>,
}

impl Estimate {
    pub fn sums(&self) -> Sums {
        Sums { amount: self.amount, tokens: self.tokens }
    }

    /// The estimate's trigger, else that of the job's tags.
    pub fn trigger_among(&self, tags: &[String]) -> Trigger {
        self.trigger.unwrap_or_else(|| Trigger::of_tags(tags))
    }

    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        check_amount(&mut invalid, "amount", self.amount);
        check_tokens(&mut invalid, "tokens", self.tokens);
        if let Some(user) = &self.user {
            invalid.check_key("user", user);
        }
        invalid.into_result()
    }
}

/// The actual cost of a call, from the provider's response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub amount: Amount,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub provider: Option<String>,
    pub model: Option<String>,
}

impl Usage {
    pub fn sums(&self) -> Sums {
        Sums { amount: self.amount, tokens: self.tokens_in.saturating_add(self.tokens_out) }
    }

    pub fn check(&self) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        check_amount(&mut invalid, "amount", self.amount);
        check_tokens(&mut invalid, "tokens_in", self.tokens_in);
        check_tokens(&mut invalid, "tokens_out", self.tokens_out);
        for (field, text) in [("provider", &self.provider), ("model", &self.model)] {
            if let Some(text) = text {
                invalid.check_key(field, text);
            }
        }
        invalid.into_result()
    }
}

fn check_tokens(invalid: &mut Invalid, field: &str, tokens: u64) {
    if tokens > MAX_TOKENS {
        invalid.add(field, format!("must be at most {MAX_TOKENS}, not {tokens}"));
    }
}

const USER_TAG: &str = "user:";

/// The originating user, from a job's tags.
pub fn user_of(tags: &[String]) -> Option<&str> {
    tags.iter().find_map(|tag| tag.strip_prefix(USER_TAG)).filter(|user| !user.is_empty())
}

/// A threshold that was reached. Fires once a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    pub budget: String,
    pub currency: String,
    pub threshold: Threshold,
    /// When it was reached. Distinguishes an alert from a repeat after a reset.
    pub at: Time,
    /// At that time, or the current figures if the alert was read from the database.
    pub figures: BudgetMonth,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_first_tag_that_names_one() {
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        assert_eq!(user_of(&tags(&["nightly", "user:42", "user:7"])), Some("42"));
        assert_eq!(user_of(&tags(&["users:1", "user:"])), None);
    }

    #[test]
    fn the_estimates_trigger_overrides_the_tags() {
        let manual = ["nightly".to_owned(), "trigger:manual".to_owned()];
        let estimate = |trigger| Estimate { trigger, ..Estimate::default() };
        assert_eq!(estimate(None).trigger_among(&manual), Trigger::Manual);
        assert_eq!(estimate(Some(Trigger::Scheduled)).trigger_among(&manual), Trigger::Scheduled);
        assert_eq!(estimate(None).trigger_among(&manual[..1]), Trigger::Scheduled);
        assert_eq!(estimate(Some(Trigger::Manual)).trigger_among(&[]), Trigger::Manual);
    }

    #[test]
    fn impossible_figures_are_refused_by_field_name() {
        let text = |checked: Result<(), Invalid>| checked.err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(Estimate::default().check(), Ok(()));
        let estimate = Estimate {
            amount: Amount(-1),
            tokens: u64::MAX,
            user: Some(String::new()),
            ..Estimate::default()
        };
        let message = text(estimate.check());
        assert!(["amount:", "tokens:", "user:"].iter().all(|field| message.contains(field)), "{message}");
        let usage = Usage {
            amount: Amount(-1),
            tokens_out: u64::MAX,
            model: Some("\0".to_owned()),
            ..Usage::default()
        };
        let message = text(usage.check());
        assert!(
            ["amount:", "tokens_out:", "model:"].iter().all(|field| message.contains(field)),
            "{message}"
        );
    }
}
