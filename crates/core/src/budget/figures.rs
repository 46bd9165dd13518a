//! The figures of a budget in a month, and whether one more call fits.

use std::fmt;
use std::time::Duration;

use super::{Alert, Amount, BudgetSpec, BudgetState, Estimate, Month, STATES, Threshold, Trigger};
use crate::Time;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub amount: Amount,
    pub tokens: u64,
}

impl Sums {
    pub fn plus(self, other: Sums) -> Sums {
        Sums { amount: self.amount.plus(other.amount), tokens: self.tokens.saturating_add(other.tokens) }
    }

    pub fn minus(self, other: Sums) -> Sums {
        Sums { amount: self.amount.minus(other.amount), tokens: self.tokens.saturating_sub(other.tokens) }
    }
}

/// The limits of a month; at least one is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub amount: Option<Amount>,
    pub tokens: Option<u64>,
}

/// The limits and figures of one budget in one month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetMonth {
    pub month: Month,
    pub limits: Limits,
    /// Completed calls.
    pub settled: Sums,
    /// Running calls, at their estimates.
    pub reserved: Sums,
}

impl BudgetMonth {
    pub fn used(&self) -> Sums {
        self.settled.plus(self.reserved)
    }

    /// The larger of the shares of money and tokens, in percent of the limit.
    pub fn percent(&self) -> f64 {
        let share = |(used, limit): (i128, i128)| match limit {
            0 => 100.0,
            limit => used as f64 * 100.0 / limit as f64,
        };
        pairs(self.used(), self.limits).map(share).fold(0.0, f64::max)
    }

    /// Exact, unlike [`BudgetMonth::percent`].
    pub fn reaches(&self, percent: u16) -> bool {
        reaches(self.used(), self.limits, percent)
    }

    pub fn state(&self) -> BudgetState {
        state(self.used(), self.limits)
    }

    /// The thresholds reached by these figures.
    pub fn alerts(&self, budget: &BudgetSpec, at: Time) -> Vec<Alert> {
        let due = budget.thresholds.iter().filter(|threshold| self.reaches(threshold.percent));
        let alert = |threshold: &Threshold| Alert {
            budget: budget.name.clone(),
            currency: budget.currency.clone(),
            threshold: *threshold,
            at,
            figures: *self,
        };
        due.map(alert).collect()
    }

    /// Decides one more call: the figures with it, or why it must wait. Call it under the month's lock, so that no two
    /// calls reserve the same money.
    pub fn reserve(&self, estimate: &Estimate, trigger: Trigger, now: Time) -> Result<BudgetMonth, Refusal> {
        let stops = self.state().stops(trigger);
        let after = BudgetMonth { reserved: self.reserved.plus(estimate.sums()), ..*self };
        let fits = pairs(after.used(), self.limits).all(|(used, limit)| used <= limit);
        if !stops && fits {
            return Ok(after);
        }
        let why = if stops { RefusedWhy::Stopped } else { RefusedWhy::TooLarge };
        Err(Refusal { why, state: self.state(), figures: *self, now, until: self.again(now) })
    }

    /// The figures after a call that reserved `estimate` and cost `cost`.
    pub fn settle(&self, estimate: Sums, cost: Sums) -> BudgetMonth {
        BudgetMonth { reserved: self.reserved.minus(estimate), settled: self.settled.plus(cost), ..*self }
    }

    /// When to ask again. Settled sums stay until the month ends; reserved ones may be released within the hour.
    fn again(&self, now: Time) -> Time {
        match state(self.settled, self.limits) {
            BudgetState::HardStop => Month::of(now).next().start(),
            _ => Time(now.0 - now.0.rem_euclid(HOUR) + HOUR),
        }
    }
}

/// In microseconds.
const HOUR: i64 = 3_600_000_000;
/// Waiting runs resume spread over this long, not all in the first second of the hour.
const SPREAD: Duration = Duration::from_secs(10 * 60);

/// Pairs of used and limit.
fn pairs(used: Sums, limits: Limits) -> impl Iterator<Item = (i128, i128)> {
    let money = limits.amount.map(|limit| (i128::from(used.amount.0), i128::from(limit.0)));
    let tokens = limits.tokens.map(|limit| (i128::from(used.tokens), i128::from(limit)));
    money.into_iter().chain(tokens)
}

fn reaches(used: Sums, limits: Limits, percent: u16) -> bool {
    pairs(used, limits).any(|(used, limit)| used * 100 >= limit * i128::from(percent))
}

fn state(used: Sums, limits: Limits) -> BudgetState {
    let reached = STATES.iter().rev().find(|step| reaches(used, limits, step.from_percent));
    reached.map_or(BudgetState::Normal, |step| step.state)
}

/// A call that must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub why: RefusedWhy,
    pub state: BudgetState,
    pub figures: BudgetMonth,
    /// By the database clock.
    pub now: Time,
    /// When to ask again.
    pub until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedWhy {
    /// The state does not allow this trigger.
    Stopped,
    /// The call would exceed the limit.
    TooLarge,
}

impl Refusal {
    /// Time until then, plus a random part; `unit` is in 0–1.
    pub fn delay(&self, unit: f64) -> Duration {
        self.until.since(self.now) + SPREAD.mul_f64(unit.clamp(0.0, 1.0))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            RefusedWhy::Stopped => "no call of this trigger is made",
            RefusedWhy::TooLarge => "the call would pass the limit",
        };
        let (state, figures) = (self.state, self.figures);
        write!(f, "{why} in state {state} ({:.1} % used: {figures}); ", figures.percent())?;
        write!(f, "again from {}", self.until)
    }
}

/// `412.50 of 500.00, 1200 of 5000 tokens`.
impl fmt::Display for BudgetMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.used();
        if let Some(limit) = self.limits.amount {
            write!(f, "{} of {limit}", used.amount)?;
        }
        if let Some(limit) = self.limits.tokens {
            let comma = if self.limits.amount.is_some() { ", " } else { "" };
            write!(f, "{comma}{} of {limit} tokens", used.tokens)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(settled: i64, reserved: i64) -> BudgetMonth {
        BudgetMonth {
            month: "2026-11".parse().unwrap(),
            limits: Limits { amount: Some(Amount::from_cents(10_000)), tokens: None },
            settled: Sums { amount: Amount::from_cents(settled), tokens: 0 },
            reserved: Sums { amount: Amount::from_cents(reserved), tokens: 0 },
        }
    }

    fn ask(cents: i64) -> Estimate {
        Estimate { amount: Amount::from_cents(cents), ..Estimate::default() }
    }

    fn noon() -> Time {
        "2026-11-15T12:34:56Z".parse().unwrap()
    }

    #[test]
    fn each_state_begins_at_its_percentage() {
        for pair in STATES.windows(2) {
            let at = i64::from(pair[1].from_percent) * 100;
            assert_eq!(money(at - 1, 0).state(), pair[0].state);
            assert_eq!(money(at, 0).state(), pair[1].state);
            assert_eq!(money(0, at).state(), pair[1].state, "reserved counts");
        }
        assert_eq!(money(123_456, 0).state(), BudgetState::HardStop);
        assert_eq!(money(7_500, 0).percent(), 75.0);
    }

    #[test]
    fn the_larger_share_counts_and_a_limit_of_zero_is_always_reached() {
        let limits = Limits { amount: Some(Amount::from_cents(10_000)), tokens: Some(1_000) };
        let settled = Sums { amount: Amount::from_cents(100), tokens: 910 };
        let figures = BudgetMonth { limits, settled, ..money(0, 0) };
        assert_eq!((figures.state(), figures.percent()), (BudgetState::Queue, 91.0));
        let none = BudgetMonth { limits: Limits { amount: Some(Amount::ZERO), tokens: None }, ..money(0, 0) };
        assert_eq!((none.state(), none.percent()), (BudgetState::HardStop, 100.0));
    }

    #[test]
    fn a_call_is_refused_if_its_trigger_is_stopped_or_the_limit_would_be_exceeded() {
        use {RefusedWhy::*, Trigger::*};
        for (settled, asked, trigger, refused) in [
            (0, 10_000, Scheduled, None),
            (0, 10_001, Scheduled, Some(TooLarge)),
            (8_999, 1_001, Scheduled, None),
            (8_999, 1_002, Scheduled, Some(TooLarge)),
            (9_000, 1, Scheduled, Some(Stopped)),
            (9_000, 1_000, Manual, None),
            (9_000, 1_001, Manual, Some(TooLarge)),
            (10_000, 0, Manual, Some(Stopped)),
        ] {
            for figures in [money(settled, 0), money(0, settled)] {
                let got = figures.reserve(&ask(asked), trigger, noon());
                assert_eq!(got.err().map(|refusal| refusal.why), refused, "{settled} {asked} {trigger:?}");
            }
        }
        let after = money(100, 20).reserve(&ask(5), Scheduled, noon()).unwrap();
        assert_eq!(after, money(100, 25));
    }

    #[test]
    fn tokens_alone_are_a_budget_too() {
        let limits = Limits { amount: None, tokens: Some(100) };
        let figures = BudgetMonth { limits, ..money(0, 0) };
        let tokens = |tokens| Estimate { tokens, ..ask(1) };
        assert!(figures.reserve(&tokens(100), Trigger::Scheduled, noon()).is_ok());
        assert!(figures.reserve(&tokens(101), Trigger::Scheduled, noon()).is_err());
    }

    #[test]
    fn a_refused_call_waits_for_the_next_hour_or_month() {
        let until = |figures: BudgetMonth| figures.reserve(&ask(9_999), Trigger::Manual, noon()).unwrap_err();
        let hour: Time = "2026-11-15T13:00:00Z".parse().unwrap();
        assert_eq!(until(money(9_500, 0)).until, hour, "QUEUE");
        assert_eq!(until(money(9_999, 1)).until, hour, "reserved money may be released");
        assert_eq!(until(money(10_000, 0)).until, "2026-12-01T00:00:00Z".parse().unwrap(), "HARD_STOP");
        let refusal = until(money(9_500, 0));
        assert_eq!(refusal.delay(0.0), hour.since(noon()));
        assert_eq!(refusal.delay(1.0), hour.since(noon()) + SPREAD);
        let message = refusal.to_string();
        assert!(
            message.contains("QUEUE (95.0 % used: 95.00 of 100.00); again from 2026-11-15T13:00:00Z"),
            "{message}"
        );
    }
}
