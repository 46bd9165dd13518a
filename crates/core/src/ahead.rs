//! How many jobs a worker leases beyond its free slots. Pure.
//!
//! Leasing ahead hides the round trip of a claim. That helps only if a job ends before the next claim could be
//! answered. Longer jobs are claimed when a slot is free; until then any process can take them.

use std::time::Duration;

/// Jobs up to this long are leased [`MOST`] ahead.
const SHORT: Duration = Duration::from_millis(5);
/// Jobs that take at least this long are not leased ahead.
const LONG: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_millis(100);

/// How much work to lease ahead, as time at the current rate, if one job takes `run`.
pub fn ahead(run: Duration) -> Duration {
    let left = LONG.saturating_sub(run).min(LONG - SHORT);
    MOST.mul_f64(left.as_secs_f64() / (LONG - SHORT).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_jobs_are_leased_ahead() {
        let ms = Duration::from_millis;
        assert_eq!([0, 1, 5].map(|run| ahead(ms(run))), [ms(100); 3]);
        assert_eq!([20, 200, 60_000].map(|run| ahead(ms(run))), [Duration::ZERO; 3]);
        assert!(ahead(ms(6)) < ms(100) && ahead(ms(6)) > ms(90), "no jump between the two");
        assert!(ahead(ms(19)) < ms(10));
    }
}
