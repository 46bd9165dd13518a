//! Order beyond priority: who has been due too long, and which share of the slots is theirs.
//!
//! A job that has been due for longer than its queue's `boost_after`, or for three quarters of its SLA, is **late**. One
//! slot in four is reserved for late jobs, whatever their priority: those due longest first, which are the nearest to
//! their SLA or the furthest beyond. So urgent work never waits for more than a quarter of the slots, and no work waits
//! for ever. In the line of a lane, where only one is next, it is now and then the longest due of those who are late and
//! less urgent than who stands first, but no process lets two ahead of one: urgent work has its turns there too.
//! Pure rules; a store finds who is due, a worker keeps the reserve, the sweeper looks at lines.

use std::collections::HashMap;
use std::time::Duration;

use crate::{JobId, LaneId, Time};

pub const DEFAULT_BOOST_AFTER: Duration = Duration::from_secs(600);
/// One slot in so many is for late jobs.
pub const RESERVED: u32 = 4;
/// Slots that may be saved up for late jobs.
const MOST_SAVED: u32 = 1_000;

/// From when on a due job is late; never, where nothing is boosted.
pub fn late_after(boost_after: Option<Duration>, sla: Option<Duration>) -> Option<Duration> {
    let boost_after = boost_after?;
    Some(sla.map_or(boost_after, |sla| boost_after.min(sla * 3 / 4)))
}

/// The slots of one worker and queue that late jobs have earned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// In parts of a slot.
    saved: u32,
}

impl Reserve {
    /// So many slots were filled.
    pub fn earn(&mut self, slots: u32) {
        self.saved = self.saved.saturating_add(slots).min(MOST_SAVED * RESERVED);
    }

    /// How many of so many slots are for late jobs.
    pub fn share(&self, slots: u32) -> u32 {
        (self.saved / RESERVED).min(slots)
    }

    /// So many of the share were tried for late jobs and brought some. Where no more are waiting the whole share counts as
    /// spent; that others had the slots costs late jobs nothing.
    pub fn spend(&mut self, tried: u32, late: u32, waiting: bool) {
        let spent = if waiting { late } else { tried };
        self.saved = self.saved.saturating_sub(spent * RESERVED);
    }
}

/// How many jobs of each priority are among the `most` that have been due longest. `due` has enough of each priority, by
/// time.
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

/// Who stands first in the line of a lane, and the longest due of each priority behind him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub first: (u8, Time, JobId),
    pub behind: Vec<(u8, Time, JobId)>,
}

/// Who goes ahead of the first, and under which priority: one step above his, where there is one. Nobody who has not been
/// due since `late`, and nobody while the first has been due for longer: that may be one who went ahead before.
fn goes_ahead(line: &Waiting, late: Time) -> Option<(JobId, u8)> {
    let (first, since, _) = line.first;
    let waited =
        line.behind.iter().filter(|(priority, at, _)| *priority > first && *at <= late && *at < since);
    let (_, _, job) = waited.min_by_key(|(priority, at, _)| (*at, *priority))?;
    Some((*job, first.saturating_sub(1)))
}

/// Who was passed last in which lane. Known to one process, and forgotten with the line: what was not met in a whole round of
/// looks is gone after it. So each process lets one ahead of a job at most.
#[derive(Debug, Default)]
pub struct Passed {
    this_round: HashMap<LaneId, JobId>,
    last_round: HashMap<LaneId, JobId>,
}

impl Passed {
    /// Who goes ahead in this line, and under which priority: [`goes_ahead`], unless the first was passed before. Nobody is
    /// late where no time is given.
    pub fn lets_ahead(&mut self, lane: LaneId, line: &Waiting, late: Option<Time>) -> Option<(JobId, u8)> {
        let (_, _, first) = line.first;
        let known = self.this_round.get(&lane).or_else(|| self.last_round.get(&lane)).copied();
        let goes = late.filter(|_| known != Some(first)).and_then(|late| goes_ahead(line, late));
        // Who went ahead stands first meanwhile: whom he passed is not forgotten for that.
        if let Some(passed) = goes.map(|_| first).or(known) {
            self.this_round.insert(lane, passed);
        }
        goes
    }

    /// Every line was looked at.
    pub fn round_ended(&mut self) {
        self.last_round = std::mem::take(&mut self.this_round);
    }
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
        assert_eq!(reserve.share(10), 1, "what was left over counts");
        reserve.earn(u32::MAX);
        assert_eq!(reserve.share(2_000), 1_000, "no more is saved");
    }

    /// Others had all the room: what late jobs have earned is theirs when there is some.
    #[test]
    fn a_share_that_found_no_room_is_not_spent() {
        let mut reserve = Reserve::default();
        reserve.earn(8);
        reserve.spend(2, 0, true);
        assert_eq!(reserve.share(4), 2);
        reserve.spend(2, 1, true);
        assert_eq!(reserve.share(4), 1, "room for one");
        reserve.spend(1, 0, false);
        assert_eq!(reserve.share(4), 0, "nobody is late");
    }

    #[test]
    fn the_longest_due_come_first_whatever_their_priority() {
        let due = [(0, Time(5)), (0, Time(6)), (7, Time(1)), (7, Time(9)), (9, Time(1)), (9, Time(2))];
        assert_eq!(longest_due(&due, 4), [(7, 1), (9, 2), (0, 1)]);
        assert_eq!(longest_due(&due, 1), [(7, 1)], "of two due as long the more urgent");
        assert_eq!(longest_due(&[], 4), []);
    }

    #[test]
    fn the_longest_due_of_a_line_goes_ahead_of_younger_ones() {
        let behind = vec![(7, Time(4), JobId(1)), (9, Time(3), JobId(2)), (10, Time(3), JobId(3))];
        let line = |(first, at)| Waiting { first: (first, at, JobId(7)), behind: behind.clone() };
        assert_eq!(goes_ahead(&line((2, Time(50))), Time(10)), Some((JobId(2), 1)));
        assert_eq!(goes_ahead(&line((0, Time(50))), Time(10)), Some((JobId(2), 0)), "beside him");
        assert_eq!(goes_ahead(&line((2, Time(50))), Time(2)), None, "nobody is late");
        assert_eq!(goes_ahead(&line((2, Time(3))), Time(10)), None, "the first has waited as long");
        assert_eq!(
            goes_ahead(&line((9, Time(50))), Time(10)),
            Some((JobId(3), 8)),
            "he is as urgent himself"
        );
    }

    #[test]
    fn nobody_is_passed_twice() {
        let behind = vec![(9, Time(3), JobId(1))];
        let line = |first| Waiting { first: (2, Time(50), JobId(first)), behind: behind.clone() };
        let (mut passed, lane, late) = (Passed::default(), LaneId(1), Some(Time(10)));
        assert_eq!(passed.lets_ahead(lane, &line(7), late), Some((JobId(1), 1)));
        let ahead = Waiting { first: (1, Time(3), JobId(1)), behind: behind.clone() };
        for round in 0..3 {
            assert_eq!(passed.lets_ahead(lane, &ahead, late), None, "he is not gone yet, round {round}");
            passed.round_ended();
        }
        assert_eq!(passed.lets_ahead(lane, &line(7), late), None);
        assert!(passed.lets_ahead(LaneId(2), &line(7), late).is_some(), "another lane");
        assert!(passed.lets_ahead(lane, &line(8), late).is_some(), "another is first");
        for _ in 0..2 {
            passed.round_ended();
        }
        assert!(passed.last_round.is_empty() && passed.this_round.is_empty(), "nobody stands there any more");
    }
}
