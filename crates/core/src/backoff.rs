//! When a failed attempt is retried: `base × 2^(attempt-1) × jitter`, capped.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Wait after the first failed attempt, before jitter.
    pub base: Duration,
    /// No wait is longer than this, jitter included.
    pub cap: Duration,
}

/// Jitter spreads retries over 0.75–1.25 of the nominal wait.
pub const JITTER: std::ops::RangeInclusive<f64> = 0.75..=1.25;

impl Default for Backoff {
    fn default() -> Self {
        Backoff { base: Duration::from_secs(30), cap: Duration::from_secs(3_600) }
    }
}

impl Backoff {
    /// Delay after attempt number `attempt`, starting at 1. `unit` is a random number in 0–1; the caller supplies it,
    /// which keeps the rule pure.
    pub fn delay(&self, attempt: u16, unit: f64) -> Duration {
        let doublings = i32::from(attempt.saturating_sub(1).min(40));
        let jitter = JITTER.start() + unit.clamp(0.0, 1.0) * (JITTER.end() - JITTER.start());
        let seconds = self.base.as_secs_f64() * 2f64.powi(doublings) * jitter;
        Duration::from_secs_f64(seconds.min(self.cap.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_within_the_documented_ranges() {
        let backoff = Backoff::default();
        for (attempt, low, high) in
            [(1, 22.5, 37.5), (2, 45.0, 75.0), (3, 90.0, 150.0), (4, 180.0, 300.0), (5, 360.0, 600.0)]
        {
            assert_eq!(backoff.delay(attempt, 0.0).as_secs_f64(), low);
            assert_eq!(backoff.delay(attempt, 1.0).as_secs_f64(), high);
        }
    }

    #[test]
    fn delays_are_capped_and_never_overflow() {
        assert_eq!(Backoff::default().delay(u16::MAX, 1.0), Duration::from_secs(3_600));
        assert_eq!(Backoff::default().delay(0, 0.5), Backoff::default().delay(1, 0.5));
    }
}
