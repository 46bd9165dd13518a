//! The pause between calls while the store fails. Pure.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Begins with a failed call and ends with one that succeeds. Each further failure doubles the pause.
#[derive(Debug, Default)]
pub(super) struct Outage {
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Outage {
    /// The end of the pause, while there is one.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.pause.as_ref().map(|pause| pause.until).filter(|until| now < *until)
    }

    /// True when the outage begins with this failure.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        let length = match &self.pause {
            Some(pause) => (pause.length * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        // Jitter, so that the workers that one outage stopped do not come back at the same instant.
        let until = now + length.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.pause.replace(Pause { until, length }).is_none()
    }

    pub(super) fn succeeded(&mut self) {
        self.pause = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_bound_and_ends_with_a_success() {
        let now = Instant::now();
        let mut outage = Outage::default();
        assert_eq!(outage.until(now), None);
        for (failures, length) in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].into_iter().enumerate() {
            assert_eq!(outage.failed(now), failures == 0);
            let pause = outage.until(now).unwrap() - now;
            let (least, most) = (length * 3 / 4, length * 5 / 4);
            assert!((least..=most).contains(&(pause.as_millis() as u64)), "{pause:?} of {length} ms");
            assert_eq!(outage.until(now + pause), None, "over");
        }
        outage.succeeded();
        assert!(outage.failed(now), "the next one is new");
    }
}
