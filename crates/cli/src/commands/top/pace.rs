//! The rate of a queue between two readings.

use std::time::Duration;

use windlass_core::Time;

use super::reading::QueueLine;

/// Workers write their counts every ten seconds. So the rate is taken between the last two readings that differ, and is
/// zero if nothing changed for longer than that.
#[derive(Debug)]
pub(super) struct Pace {
    at: Time,
    completed: u64,
    per_s: Option<f64>,
}

/// Twice the interval at which workers write.
const NO_NEWS: Duration = Duration::from_secs(20);

impl Pace {
    pub(super) fn new(queue: &QueueLine, at: Time) -> Pace {
        Pace { at, completed: queue.completed_last_hour, per_s: None }
    }

    /// Sets the recent rate if it is known.
    pub(super) fn look(&mut self, queue: &mut QueueLine, now: Time) {
        let completed = queue.completed_last_hour;
        let since = now.since(self.at);
        if completed != self.completed {
            let per_s = completed.saturating_sub(self.completed) as f64 / since.as_secs_f64().max(1.0);
            *self = Pace { at: now, completed, per_s: Some(per_s) };
        } else if since > NO_NEWS {
            self.per_s = Some(0.0);
        }
        if let Some(per_s) = self.per_s {
            queue.completed_per_s = per_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An idle queue soon shows zero, whatever it did a minute ago.
    #[test]
    fn rates_cover_the_last_seconds() {
        let (mut completed, mut now) = (699, Time(6_030_000_000));
        let mut look = |pace: &mut Option<Pace>, more: u64, seconds: i64| {
            completed += more;
            now = Time(now.0 + seconds * 1_000_000);
            let mut queue = crate::commands::top::screen::queue("Q", 0, false);
            (queue.completed_last_hour, queue.completed_per_s) = (completed, 1.0);
            pace.get_or_insert_with(|| Pace::new(&queue, now)).look(&mut queue, now);
            queue.completed_per_s
        };
        let mut pace = None;
        assert_eq!(look(&mut pace, 0, 0), 1.0, "the first reading only knows the current minute");
        assert_eq!(look(&mut pace, 50, 10), 5.0);
        assert_eq!(look(&mut pace, 0, 5), 5.0, "the workers write every ten seconds");
        assert_eq!(look(&mut pace, 20, 5), 2.0);
        assert_eq!(look(&mut pace, 0, 21), 0.0, "no job finishes any more");
    }
}
