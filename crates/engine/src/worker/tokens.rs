//! The rate tokens one process holds for one kind: when to ask for more, and when they expire. Pure but for jitter.
//!
//! Tokens are asked for in bulk when the last are spent. After a full grant the next is asked for at once. After a
//! short one the process rests for a random time between 100 and 200 ms, so that no process is always first to find new
//! tokens.

use std::time::{Duration, Instant};

use windlass_core::Rate;
use windlass_core::rate::TOKEN_LIFE;
use windlass_core::store::TokenLease;

/// Tokens for this much work are asked for at once: a little more than the longest rest between two grants.
pub(crate) const ASK_FOR: Duration = Duration::from_millis(250);
const REST: Duration = Duration::from_millis(100);
/// Longest rest, however slow the rate: another process may return a token.
const LONGEST_REST: Duration = Duration::from_secs(1);

pub(crate) struct Tokens {
    rate: Rate,
    held: u32,
    expires_at: Instant,
    asking: bool,
    ask_at: Instant,
}

impl Tokens {
    pub(crate) fn new(rate: Rate, now: Instant) -> Tokens {
        Tokens { rate, held: 0, expires_at: now, asking: false, ask_at: now }
    }

    /// After a change of the rate tokens are asked for at once.
    pub(crate) fn set_rate(&mut self, rate: Rate, now: Instant) {
        if rate != self.rate {
            self.rate = rate;
            self.ask_at = now;
        }
    }

    pub(crate) fn held(&self, now: Instant) -> u32 {
        if now < self.expires_at { self.held } else { 0 }
    }

    /// There are tokens, or there may be some soon.
    pub(crate) fn may_start(&self, now: Instant) -> bool {
        self.held(now) > 0 || self.asking || now >= self.ask_at
    }

    pub(crate) fn spend(&mut self, tokens: u32) {
        self.held = self.held.saturating_sub(tokens);
    }

    /// A claim brought fewer jobs than it had tokens for.
    pub(crate) fn give_back(&mut self, tokens: u32) {
        self.held = self.held.saturating_add(tokens);
    }

    /// What to ask the store for, if anything: how many new tokens, and how many expired ones it takes back.
    pub(crate) fn ask(&mut self, wanted: u32, now: Instant) -> Option<(u32, u32)> {
        if self.asking {
            return None;
        }
        let expired = if now >= self.expires_at { self.held } else { 0 };
        let wanted = if self.held(now) == 0 && now >= self.ask_at { wanted } else { 0 };
        if wanted == 0 && expired == 0 {
            return None;
        }
        self.held -= expired;
        self.asking = true;
        Some((wanted, expired))
    }

    /// Tokens expire counted from the question: they were not granted before it.
    pub(crate) fn answered(&mut self, asked: Instant, wanted: u32, lease: TokenLease, now: Instant) {
        self.asking = false;
        if lease.granted > 0 {
            self.held += lease.granted;
            self.expires_at = asked + TOKEN_LIFE;
        }
        if lease.granted < wanted {
            let rest = REST.mul_f64(1.0 + fastrand::f64());
            self.ask_at = now + lease.wait.max(rest).min(LONGEST_REST.mul_f64(0.75 + fastrand::f64() / 2.0));
        }
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.asking = false;
        self.ask_at = now + LONGEST_REST;
    }

    /// When the next step may differ without anything happening; `waiting` when jobs wait for tokens.
    pub(crate) fn wakes_at(&self, waiting: bool) -> Option<Instant> {
        match self.asking {
            true => None,
            false if self.held > 0 => Some(self.expires_at),
            false => waiting.then_some(self.ask_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(granted: u32, wait_ms: u64) -> TokenLease {
        TokenLease { granted, wait: Duration::from_millis(wait_ms) }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn asked_for_when_the_last_are_spent_and_never_twice_at_once() {
        let now = Instant::now();
        let mut tokens = Tokens::new("500/s".parse().unwrap(), now);
        assert_eq!(tokens.ask(0, now), None, "nothing is wanted");
        assert_eq!(tokens.ask(10, now), Some((10, 0)));
        assert_eq!(tokens.ask(10, now), None, "one question is under way");
        tokens.answered(now, 10, lease(10, 0), now);
        assert_eq!((tokens.held(now), tokens.ask(10, now)), (10, None), "there are some");
        tokens.spend(10);
        assert_eq!(tokens.ask(10, now), Some((10, 0)), "a full lease is followed by the next");
    }

    #[test]
    fn a_short_grant_is_followed_by_a_rest() {
        let now = Instant::now();
        for (wait, from, to) in [(2, 100, 200), (150, 150, 200), (700, 700, 750), (3_600_000, 750, 1_250)] {
            let mut tokens = Tokens::new("500/s".parse().unwrap(), now);
            tokens.ask(10, now);
            tokens.answered(now, 10, lease(3, wait), now);
            tokens.spend(3);
            assert_eq!(tokens.ask(10, now + ms(from) - ms(1)), None, "{wait}");
            assert!(tokens.wakes_at(true).unwrap() <= now + ms(to), "{wait}");
            assert_eq!(tokens.ask(10, now + ms(to)), Some((10, 0)), "{wait}");
        }
    }

    #[test]
    fn unspent_tokens_expire_after_a_second_and_are_given_back() {
        let now = Instant::now();
        let mut tokens = Tokens::new("500/s".parse().unwrap(), now);
        tokens.ask(10, now);
        tokens.answered(now, 10, lease(10, 0), now + ms(30));
        tokens.spend(7);
        tokens.give_back(2);
        assert_eq!((tokens.held(now + ms(999)), tokens.wakes_at(false)), (5, Some(now + ms(1_000))));
        assert_eq!(tokens.held(now + ms(1_000)), 0, "expired");
        assert_eq!(tokens.ask(0, now + ms(1_000)), Some((0, 5)));
        tokens.answered(now + ms(1_000), 0, lease(0, 0), now + ms(1_010));
        assert_eq!((tokens.ask(0, now + ms(2_000)), tokens.wakes_at(false)), (None, None));
    }

    #[test]
    fn a_new_rate_is_asked_for_at_once() {
        let now = Instant::now();
        let mut tokens = Tokens::new("1/h".parse().unwrap(), now);
        tokens.ask(10, now);
        tokens.answered(now, 10, lease(0, 3_600_000), now);
        assert!(!tokens.may_start(now));
        tokens.set_rate("1/h".parse().unwrap(), now);
        assert!(!tokens.may_start(now), "it is the same");
        tokens.set_rate("500/s".parse().unwrap(), now);
        assert_eq!(tokens.ask(10, now), Some((10, 0)));
    }
}
