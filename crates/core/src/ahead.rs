//! How much work a worker leases ahead of its free slots. Pure.
//!
//! Leasing ahead hides the round trip of a claim, which is worth something only where a job is over before the next claim
//! could have been answered. A longer one is claimed when its slot is free: until then it waits where any process may take it.

use std::time::Duration;

/// Jobs up to this long are leased [`MOST`] ahead.
const SHORT: Duration = Duration::from_millis(5);
/// Jobs from this long on are not leased ahead at all.
const LONG: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_millis(100);

/// For how much time at the present rate to lease ahead, where one job runs for `run`.
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
        assert!(ahead(ms(6)) < ms(100) && ahead(ms(6)) > ms(90), "no step between the two");
        assert!(ahead(ms(19)) < ms(10));
    }
}
