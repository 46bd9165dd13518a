//! How often jobs of one kind may start, in all processes together.
//!
//! Owns the notation (`500/s`, `30/m`) and the number of tokens a lease gets: GCRA over one stored time, up to which
//! tokens have been given out. Pure: a store passes in the state and writes the result. A token is the right to start
//! one job. Tokens are leased ahead, in bulk, and valid for [`TOKEN_LIFE`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Time;
use crate::input::shown;
use crate::time::micros;

/// The burst allowed after a pause, as time at the full rate. It also absorbs late leases: a worker that asks a little
/// late loses nothing.
pub const SLACK: Duration = Duration::from_millis(500);

/// A leased token that is not used for this long expires.
pub const TOKEN_LIFE: Duration = Duration::from_secs(1);

pub const MAX_TOKENS: u32 = 1_000_000;

const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// Starts per second, minute, hour or day, evenly spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u32,
    per_seconds: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rate; write it as 500/s, 30/m, 1000/h or 25/d, with 1 to {MAX_TOKENS} before the slash"
)]
pub struct BadRate(String);

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<Rate, BadRate> {
        let bad = || BadRate(shown(text));
        let (tokens, unit) = text.trim().split_once('/').ok_or_else(bad)?;
        let tokens: u32 = tokens.trim().parse().map_err(|_| bad())?;
        let unit = unit.trim().to_ascii_lowercase();
        let (_, per_seconds) = *UNITS.iter().find(|(word, _)| *word == unit).ok_or_else(bad)?;
        if !(1..=MAX_TOKENS).contains(&tokens) {
            return Err(bad());
        }
        Ok(Rate { tokens, per_seconds })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| *seconds == self.per_seconds);
        write!(f, "{}/{}", self.tokens, unit.map_or("s", |(word, _)| word))
    }
}

/// The result of a token lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    pub granted: u32,
    /// When one more token will be available.
    pub wait: Duration,
    /// The new state to store: tokens are given out up to this time.
    pub given_until: Time,
}

impl Rate {
    pub fn per_second(&self) -> f64 {
        f64::from(self.tokens) / self.per_seconds as f64
    }

    /// Takes back `unspent`, then grants at most `wanted`. Over any period, the tokens granted and not returned are at
    /// most the rate's share of that period, plus [`SLACK`], plus one.
    pub fn lease(&self, given_until: Time, now: Time, wanted: u32, unspent: u32) -> TokenGrant {
        let horizon = now.plus(SLACK);
        // No lease goes beyond this. A later time is left over from a lower rate or a clock that ran ahead, and must
        // not delay anyone.
        let furthest = horizon.0.saturating_add(self.cost(1));
        let left = given_until.0.min(furthest).saturating_sub(self.worth(unspent));
        let from = left.max(now.0);
        let room = i128::from(horizon.0) - i128::from(from);
        let most = (room * i128::from(self.tokens)).div_euclid(self.per_micros()) + 1;
        let granted = u32::try_from(most.clamp(0, i128::from(wanted))).unwrap_or(wanted);
        let until = if granted == 0 { left } else { from.saturating_add(self.cost(granted)) };
        TokenGrant { granted, wait: Time(until).since(horizon), given_until: Time(until) }
    }

    fn per_micros(&self) -> i128 {
        i128::from(micros(Duration::from_secs(self.per_seconds)))
    }

    /// The time that this many tokens take, rounded up.
    fn cost(&self, tokens: u32) -> i64 {
        let exact = i128::from(tokens) * self.per_micros();
        i64::try_from((exact + i128::from(self.tokens) - 1) / i128::from(self.tokens)).unwrap_or(i64::MAX)
    }

    fn worth(&self, tokens: u32) -> i64 {
        let exact = i128::from(tokens) * self.per_micros() / i128::from(self.tokens);
        i64::try_from(exact).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_700_000_000_000_000);

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    fn after(millis: u64) -> Time {
        START.plus(Duration::from_millis(millis))
    }

    #[test]
    fn rates_survive_a_round_trip_through_text() {
        for text in ["500/s", "30/m", "1000/h", "25/d", "1/s", "1000000/s"] {
            assert_eq!(rate(text).to_string(), text);
        }
        assert_eq!(rate(" 30 / M "), rate("30/m"));
        for bad in ["", "500", "/s", "0/s", "-1/s", "1.5/s", "1/w", "1000001/s", "1/s/s", "5/1s"] {
            let error = bad.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("500/s"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_burst_after_a_pause_is_half_a_second_plus_one() {
        let got = rate("500/s").lease(Time(0), START, 10_000, 0);
        assert_eq!(got.granted, 251);
        assert_eq!(got.wait, Duration::from_millis(2));
        let got = rate("30/m").lease(Time(0), START, 10, 0);
        assert_eq!((got.granted, got.wait), (1, Duration::from_millis(1_500)));
        let got = rate("1/h").lease(Time(0), START, 10, 0);
        assert_eq!((got.granted, got.wait), (1, Duration::from_secs(3_600) - SLACK));
    }

    #[test]
    fn a_lease_grants_no_more_than_wanted_and_leaves_the_rest() {
        let first = rate("500/s").lease(Time(0), START, 10, 0);
        assert_eq!((first.granted, first.wait), (10, Duration::ZERO));
        let second = rate("500/s").lease(first.given_until, START, 10_000, 0);
        assert_eq!(second.granted, 241);
        let none = rate("500/s").lease(second.given_until, START, 10, 0);
        assert_eq!((none.granted, none.given_until), (0, second.given_until));
    }

    /// However many ask, however often, and however late within the slack: the total matches the rate.
    #[test]
    fn leases_add_up_to_the_rate() {
        for (text, seconds) in [("500/s", 60), ("7/s", 60), ("30000/s", 10), ("30/m", 600), ("3/s", 100)] {
            let rate = rate(text);
            let (mut until, mut total, mut now) = (Time(0), 0u64, START);
            let mut step = 0;
            let end = START.plus(Duration::from_secs(seconds));
            while now < end {
                let got = rate.lease(until, now, 1_000_000, 0);
                (until, total) = (got.given_until, total + u64::from(got.granted));
                // Intervals of 3 to 450 ms, never the same twice in a row.
                step = (step * 7 + 3) % 450;
                now = now.plus(got.wait.max(Duration::from_millis(3 + step)));
            }
            let exact = rate.per_second() * seconds as f64;
            let most = exact + rate.per_second() * SLACK.as_secs_f64() + 1.0;
            assert!(total as f64 <= most.ceil(), "{text}: {total} in {seconds} s, at most {most}");
            assert!(total as f64 >= exact * 0.998 - 1.0, "{text}: {total} in {seconds} s of {exact}");
        }
    }

    #[test]
    fn returned_tokens_can_be_leased_again() {
        let rate = rate("1/h");
        let first = rate.lease(Time(0), START, 1, 0);
        assert_eq!(rate.lease(first.given_until, after(900), 1, 0).granted, 0);
        let back = rate.lease(first.given_until, after(900), 0, 1);
        assert_eq!((back.granted, back.wait), (0, Duration::ZERO));
        let again = rate.lease(back.given_until, after(910), 1, 0);
        assert_eq!(again.granted, 1);
        // Returning more tokens than were given out must not cause a burst.
        let flood = rate.lease(again.given_until, after(920), 1_000, 1_000);
        assert_eq!(flood.granted, 1);
    }

    #[test]
    fn a_raised_rate_or_a_clock_set_back_delays_no_lease() {
        let slow = rate("1/h").lease(Time(0), START, 1, 0);
        let got = rate("100/s").lease(slow.given_until, after(10), 50, 0);
        assert!(got.wait <= Duration::from_millis(20), "{got:?}");
        assert_eq!(rate("100/s").lease(got.given_until, after(110), 50, 0).granted, 10);
        let ahead = rate("100/s").lease(Time(0), START.plus(Duration::from_secs(3_600)), 50, 0);
        let back = rate("100/s").lease(ahead.given_until, START, 50, 0);
        assert!(back.wait <= Duration::from_millis(20), "{back:?}");
    }
}
