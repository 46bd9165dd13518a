//! Lines as this process last read them: who stands behind whom, so that a settlement need not look for the next.
//!
//! Owns that memory and what is known of its age. Who gets in line, or stands elsewhere in it from then on, leaves a look in
//! the same transaction, and a number is drawn from `line_seq` before those that were followed are gone. So a line is as it
//! was read, less those who left it, while there is no look and the sequence stands where it stood *before* it was
//! read: read later, it could count somebody whom the reader did not see. Who is offered a slot by memory is looked at by
//! the claim, as anybody is. As claims do, it trusts the hints for what nobody announced: a commit that comes more than a
//! second after its statement, and is not told of, is seen by the next claim. Never decides who is next where it does not
//! know.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sqlx::postgres::PgRow;
use windlass_core::{JobId, LaneId, StoreError};

use crate::row::{PgAddress, get};

/// Read at once. A longer list is cheaper per job and more often in vain.
const LENGTH: i64 = 24;
/// Lanes remembered; beyond that all are read anew.
const MOST: usize = 20_000;
/// No sequence stands there.
const UNKNOWN: i64 = 0;

#[derive(Default)]
pub(crate) struct Remembered {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Where the sequence stood when a settlement last told.
    known: i64,
    /// It stood there twice in a row: where somebody always gets in line, lists would be read in vain.
    steady: bool,
    lines: HashMap<LaneId, Line>,
}

/// Due jobs of one priority, from who was offered the slot when they were read.
struct Line {
    queue: i32,
    priority: i16,
    jobs: Vec<(JobId, PgAddress)>,
}

/// Who is next, to be offered a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Next {
    pub(crate) queue: i32,
    pub(crate) priority: i16,
    pub(crate) id: i64,
    pub(crate) address: PgAddress,
}

/// What a settlement is given, and gives back with what it was told.
pub(crate) struct Recalled {
    pub(crate) known: i64,
    /// How many to read where nobody is known.
    pub(crate) length: i64,
    /// For each job that ended.
    pub(crate) next: Vec<Option<Next>>,
}

impl Recalled {
    /// Of which nothing is remembered afterwards either.
    pub(crate) fn nothing() -> Recalled {
        Recalled { known: UNKNOWN, length: 1, next: Vec::new() }
    }
}

impl Remembered {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who stands behind each of these.
    pub(crate) fn recall(&self, ended: impl Iterator<Item = Option<(LaneId, JobId)>>) -> Recalled {
        let inner = self.lock();
        let next = |(lane, ended): (LaneId, JobId)| {
            let Line { queue, priority, jobs } = inner.lines.get(&lane)?;
            let stood = jobs.iter().position(|(job, _)| *job == ended)?;
            let (id, address) = jobs.get(stood + 1)?;
            Some(Next { queue: *queue, priority: *priority, id: id.0, address: *address })
        };
        let next = ended.map(|ended| ended.and_then(next)).collect();
        Recalled { known: inner.known, length: if inner.steady { LENGTH } else { 1 }, next }
    }

    /// The settlement that was given `known` found the sequence at `now`, and read these lines.
    pub(crate) fn learn(&self, known: i64, now: i64, read: Vec<(LaneId, Read)>) {
        let mut inner = self.lock();
        if inner.known != known {
            // Another settlement has told since; what this one read may be older than that.
            return;
        }
        inner.steady = known == now && known != UNKNOWN;
        if !inner.steady {
            inner.known = now;
            inner.lines.clear();
            return;
        }
        if inner.lines.len() + read.len() > MOST {
            inner.lines.clear();
        }
        inner.lines.extend(read.into_iter().map(|(lane, read)| (lane, read.0)));
    }

    /// A server that lost its last moments may count them again.
    pub(crate) fn forget(&self) {
        *self.lock() = Inner::default();
    }
}

/// A line as a settlement told it.
pub(crate) struct Read(Line);

impl Read {
    pub(crate) fn of(row: &PgRow) -> Result<Read, StoreError> {
        let (ids, addresses): (Vec<i64>, Vec<PgAddress>) = (get(row, "ids")?, get(row, "addresses")?);
        let jobs = ids.into_iter().map(JobId).zip(addresses).collect();
        Ok(Read(Line { queue: get(row, "queue")?, priority: get(row, "priority")?, jobs }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneId = LaneId(7);

    fn read(jobs: &[i64]) -> Vec<(LaneId, Read)> {
        let address = |id| PgAddress { page: id as u32, line: 1 };
        let jobs = jobs.iter().map(|id| (JobId(*id), address(*id))).collect();
        vec![(LANE, Read(Line { queue: 1, priority: 5, jobs }))]
    }

    fn next(lines: &Remembered, ended: i64) -> Option<i64> {
        lines.recall([Some((LANE, JobId(ended)))].into_iter()).next[0].map(|next| next.id)
    }

    fn steady() -> Remembered {
        let lines = Remembered::default();
        lines.learn(UNKNOWN, 3, Vec::new());
        lines.learn(3, 3, read(&[1, 2, 3]));
        lines
    }

    #[test]
    fn who_stands_behind_is_known_until_the_list_ends() {
        let lines = steady();
        assert_eq!([1, 2, 3, 9].map(|ended| next(&lines, ended)), [Some(2), Some(3), None, None]);
        assert_eq!(lines.recall([None].into_iter()).next, [None], "a job without a lane");
    }

    #[test]
    fn lists_are_asked_for_while_nobody_gets_in_line() {
        let lines = Remembered::default();
        let length = || lines.recall(std::iter::empty()).length;
        assert_eq!(length(), 1);
        lines.learn(UNKNOWN, 3, Vec::new());
        assert_eq!(length(), 1, "it is not known yet whether the sequence stands still");
        lines.learn(3, 3, Vec::new());
        assert_eq!(length(), LENGTH);
        lines.learn(3, 4, Vec::new());
        assert_eq!(length(), 1);
    }

    /// Read by a settlement that began before the sequence moved on: who got in line may stand before all of these.
    #[test]
    fn what_was_read_under_another_number_is_not_believed() {
        let lines = steady();
        lines.learn(3, 4, read(&[1, 2, 3]));
        assert_eq!(next(&lines, 1), None);
        lines.learn(3, 3, read(&[1, 2, 3]));
        assert_eq!(next(&lines, 1), None, "told late");
    }

    #[test]
    fn memory_has_an_end() {
        let lines = steady();
        let many = (0..MOST as i64)
            .map(|lane| (LaneId(100 + lane), Read(Line { queue: 1, priority: 5, jobs: vec![] })));
        lines.learn(3, 3, many.collect());
        assert_eq!(lines.lock().lines.len(), MOST);
        assert_eq!(next(&lines, 1), None);
    }
}
