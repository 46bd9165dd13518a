//! How far ahead to lease, by the present rate and how long jobs run.
//!
//! Short jobs are leased hundreds at a time, which is what makes one statement carry many; long ones are leased
//! only when a slot is free, so nothing waits in a busy process while another is idle. `windlass_core::ahead` decides
//! what is short.

use std::time::{Duration, Instant};

use windlass_core::ahead::ahead;

const WINDOW: Duration = Duration::from_millis(20);
const FADES_AFTER: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    /// Time of one job, as its part of a run.
    run: Duration,
    /// Start of the window that is being counted.
    since: Instant,
    count: u32,
    took: Duration,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { per_second: 0.0, run: Duration::ZERO, since: now, count: 0, took: Duration::ZERO }
    }

    /// A run of `jobs` jobs took `took`.
    pub(crate) fn finished(&mut self, jobs: u32, took: Duration, now: Instant) {
        self.count += jobs;
        self.took += took;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= WINDOW {
            let seen = f64::from(self.count) / elapsed.as_secs_f64();
            self.per_second = (self.per_second + seen) / 2.0;
            self.run = (self.run + self.took / self.count.max(1)) / 2;
            self.since = now;
            (self.count, self.took) = (0, Duration::ZERO);
        }
    }

    /// Jobs to lease ahead. A rate that nothing confirms fades: the next jobs may be longer ones.
    pub(crate) fn prefetch(&self, most: u32, now: Instant) -> u32 {
        self.ahead(ahead(self.run), now).min(most)
    }

    /// Jobs that end within `time` at the present rate.
    pub(crate) fn ahead(&self, time: Duration, now: Instant) -> u32 {
        let silent = now.saturating_duration_since(self.since).as_secs_f64();
        let fade = (FADES_AFTER.as_secs_f64() / silent.max(f64::EPSILON)).min(1.0);
        (self.per_second * fade * time.as_secs_f64()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn paced(jobs: u32, took: Duration, every: Duration, rounds: u32) -> (Pace, Instant) {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..rounds {
            now += every;
            pace.finished(jobs, took * jobs, now);
        }
        (pace, now)
    }

    #[test]
    fn long_jobs_are_not_leased_ahead() {
        let (pace, now) = paced(1, Duration::from_secs(5), Duration::from_secs(5), 20);
        assert_eq!(pace.prefetch(2_000, now), 0);
    }

    /// However many end per second: a slot is filled when it gets free.
    #[test]
    fn many_slots_of_long_jobs_are_not_leased_ahead_either() {
        let (pace, now) = paced(100, Duration::from_millis(200), Duration::from_millis(20), 20);
        assert_eq!(pace.prefetch(2_000, now), 0);
    }

    #[test]
    fn short_jobs_are_leased_a_tenth_of_a_second_ahead() {
        let (pace, now) = paced(100, SHORT, Duration::from_millis(20), 20);
        let ahead = pace.prefetch(2_000, now);
        assert!((450..=500).contains(&ahead), "{ahead}");
        let (pace, now) = paced(5_000, SHORT, Duration::from_millis(20), 20);
        assert_eq!(pace.prefetch(2_000, now), 2_000);
    }

    #[test]
    fn a_rate_fades_when_nothing_ends() {
        let (pace, now) = paced(100, SHORT, Duration::from_millis(20), 20);
        assert!(pace.prefetch(2_000, now + Duration::from_secs(10)) <= 10);
    }
}
