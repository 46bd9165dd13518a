//! Order beyond priority: which jobs are late, and how they get ahead.
//!
//! A job is **late** when it has been due for longer than its queue's `boost_after`, or for three quarters of its SLA.
//! One slot in four is reserved for late jobs, longest due first, regardless of priority. So urgent work loses at most
//! a quarter of the slots, and no job waits forever. In a lane, where only one job can be next, the priority of an
//! overdue job rises instead.
//!
//! Pure rules. Stores find due jobs; workers track the reserve.

use std::time::Duration;

use crate::{JobId, Time};

pub const DEFAULT_BOOST_AFTER: Duration = Duration::from_secs(600);
/// One slot in this many is for late jobs.
pub const RESERVED: u32 = 4;
/// Maximum number of slots that late jobs can save up.
const MOST_SAVED: u32 = 1_000;

/// How long a job must be due to be late. `None` if boosting is off.
pub fn late_after(boost_after: Option<Duration>, sla: Option<Duration>) -> Option<Duration> {
    let boost_after = boost_after?;
    Some(sla.map_or(boost_after, |sla| boost_after.min(sla * 3 / 4)))
}

/// Slots of one worker and queue that are owed to late jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// In fractions of a slot: [`RESERVED`] make one.
    saved: u32,
}

impl Reserve {
    /// Records that this many slots were filled.
    pub fn earn(&mut self, slots: u32) {
        self.saved = self.saved.saturating_add(slots).min(MOST_SAVED * RESERVED);
    }

    /// How many of the given slots are for late jobs.
    pub fn share(&self, slots: u32) -> u32 {
        (self.saved / RESERVED).min(slots)
    }

    /// Records that `tried` slots were offered to late jobs and `late` of them were used. If no late job is waiting,
    /// all offered slots count as spent. If some are waiting but had no room, they keep their claim.
    pub fn spend(&mut self, tried: u32, late: u32, waiting: bool) {
        let spent = if waiting { late } else { tried };
        self.saved = self.saved.saturating_sub(spent * RESERVED);
    }
}

/// How many jobs of each priority are among the `most` that have been due longest. `due` must contain the first `most`
/// of each priority, by time.
pub fn longest_due(due: &[(u8, Time)], most: u32) -> Vec<(u8, u32)> {
    let mut due = due.to_vec();
    due.sort_by_key(|(priority, at)| (*at, *priority));
    let mut counts: Vec<(u8, u32)> = Vec::new();
    for (priority, _) in due.into_iter().take(most as usize) {
        match counts.iter_mut().find(|(known, _)| *known == priority) {
            Some((_, count)) => *count += 1,
            None => counts.push((priority, 1)),
        }
    }
    counts
}

/// The priority used within a lane: one step more urgent for each `boost_after` a job is overdue, down to 0. So a
/// steady flow of urgent jobs under one key does not starve that key's other jobs.
pub fn effective_priority(priority: u8, overdue: Duration, boost_after: Option<Duration>) -> u8 {
    let Some(step) = boost_after.filter(|step| !step.is_zero()) else { return priority };
    let steps = overdue.as_micros() / step.as_micros().max(1);
    priority.saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX))
}

/// The first `most` due jobs of a lane, by effective priority, then time, then id. `due` needs only the first `most` of
/// each priority: within a priority, the job due longest is boosted most.
pub fn next_in_lane(
    mut due: Vec<(u8, Time, JobId)>,
    now: Time,
    boost_after: Option<Duration>,
    most: usize,
) -> Vec<JobId> {
    due.sort_by_key(|(priority, run_at, id)| {
        (effective_priority(*priority, now.since(*run_at), boost_after), *run_at, *id)
    });
    due.into_iter().take(most).map(|(_, _, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn late_is_ten_minutes_or_near_the_sla() {
        let default = Some(DEFAULT_BOOST_AFTER);
        assert_eq!(late_after(default, None), Some(10 * MINUTE));
        assert_eq!(late_after(default, Some(30 * MINUTE)), Some(10 * MINUTE));
        assert_eq!(late_after(default, Some(4 * MINUTE)), Some(3 * MINUTE));
        assert_eq!(late_after(None, Some(4 * MINUTE)), None, "turned off");
    }

    #[test]
    fn a_quarter_of_the_slots_is_reserved() {
        let mut reserve = Reserve::default();
        let mut one_by_one = Vec::new();
        for _ in 0..9 {
            let share = reserve.share(1);
            reserve.spend(share, share, false);
            reserve.earn(1);
            one_by_one.push(share);
        }
        assert_eq!(one_by_one, [0, 0, 0, 0, 1, 0, 0, 0, 1]);
        reserve = Reserve::default();
        reserve.earn(10);
        assert_eq!(reserve.share(10), 2);
        reserve.spend(2, 1, false);
        reserve.earn(2);
        assert_eq!(reserve.share(10), 1, "unused slots are carried over");
        reserve.earn(u32::MAX);
        assert_eq!(reserve.share(2_000), 1_000, "no more is saved");
    }

    /// Late jobs keep what they earned while there is no room for them.
    #[test]
    fn a_share_that_found_no_room_is_not_spent() {
        let mut reserve = Reserve::default();
        reserve.earn(8);
        reserve.spend(2, 0, true);
        assert_eq!(reserve.share(4), 2);
        reserve.spend(2, 1, true);
        assert_eq!(reserve.share(4), 1, "room for one");
        reserve.spend(1, 0, false);
        assert_eq!(reserve.share(4), 0, "no job is late");
    }

    #[test]
    fn the_longest_due_come_first_whatever_their_priority() {
        let due = [(0, Time(5)), (0, Time(6)), (7, Time(1)), (7, Time(9)), (9, Time(1)), (9, Time(2))];
        assert_eq!(longest_due(&due, 4), [(7, 1), (9, 2), (0, 1)]);
        assert_eq!(longest_due(&due, 1), [(7, 1)], "of two due equally long, the more urgent");
        assert_eq!(longest_due(&[], 4), []);
    }

    #[test]
    fn an_overdue_job_in_a_lane_rises_step_by_step() {
        let effective = |overdue| effective_priority(7, overdue, Some(10 * MINUTE));
        assert_eq!(effective(9 * MINUTE), 7);
        assert_eq!(effective(10 * MINUTE), 6);
        assert_eq!(effective(39 * MINUTE), 4);
        assert_eq!(effective(Duration::MAX), 0, "never past the most urgent");
        assert_eq!(effective_priority(7, 90 * MINUTE, None), 7, "turned off");
    }

    #[test]
    fn the_next_job_in_a_lane_is_the_most_urgent_after_boosting() {
        let at = |minutes: u64| Time(0).plus(Duration::from_secs(minutes * 60));
        let (now, boost) = (at(100), Some(10 * MINUTE));
        let due =
            vec![(2, at(99), JobId(1)), (2, at(98), JobId(2)), (9, at(20), JobId(3)), (5, at(75), JobId(4))];
        // Priority 9 rises by 8 steps to 1; 5 rises by 2 to 3.
        let next = |most| next_in_lane(due.clone(), now, boost, most);
        assert_eq!(next(9), [3, 2, 1, 4].map(JobId));
        assert_eq!(next(1), [JobId(3)]);
        assert_eq!(next_in_lane(due.clone(), now, None, 9), [2, 1, 4, 3].map(JobId));
    }
}
