//! Lanes: jobs of one kind that share a concurrency key.
//!
//! A lane has `key_concurrency` **slots**, which its kind sets. A ready or running job of a lane holds a slot. All
//! others are **blocked**, and claims do not see them. A settlement passes its slot to the next blocked job of the lane
//! in the same transaction. Other events can also free a slot or add work: a new job, a job that becomes due, a cancel,
//! a raised limit. They leave a **lane check**, a row that asks the next claim to fill the lane's free slots.
//!
//! Pure rules. [`crate::order::next_in_lane`] picks the next blocked job.

use sha2::{Digest, Sha256};

use crate::outcome::ReturnWhy;
use crate::{KindId, LaneId, Time};

/// Slots per lane if not configured.
pub const DEFAULT_KEY_CONCURRENCY: u16 = 1;
pub const MAX_KEY_CONCURRENCY: u16 = 10_000;

/// A lane and its kind, which sets the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub id: LaneId,
    pub kind: KindId,
}

impl LaneId {
    /// A hash, so no table of keys is needed. It is stored, so it must never change. Keys that collide share their
    /// slots, which is safe. With a million keys that happens in one of forty million databases.
    pub fn of(kind: KindId, key: &str) -> LaneId {
        let mut hash = Sha256::new();
        hash.update(kind.0.to_be_bytes());
        hash.update(key.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        LaneId(i64::from_be_bytes(first))
    }
}

impl ReturnWhy {
    /// A job that was not run keeps its slot. One that waits for a retry or a snooze releases it, so that it blocks no
    /// other job.
    pub fn keeps_slot(self) -> bool {
        match self {
            ReturnWhy::HandBack | ReturnWhy::Lost => true,
            ReturnWhy::Retry | ReturnWhy::Snooze => false,
        }
    }
}

/// The `run_at` by which a job that gets a slot is ordered among ready jobs: its own if it was never blocked, else the
/// time the slot became free. So keys take turns, and a key with thousands of jobs does not delay the others.
pub fn place(run_at: Time, freed_at: Option<Time>) -> Time {
    freed_at.map_or(run_at, |freed| freed.max(run_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_a_kind_and_a_key() {
        let lane = LaneId::of(KindId(1), "tenant 7");
        assert_eq!(lane, LaneId::of(KindId(1), "tenant 7"));
        assert_ne!(lane, LaneId::of(KindId(2), "tenant 7"));
        assert_ne!(lane, LaneId::of(KindId(1), "tenant 8"));
        // Stored in databases: it must never change.
        assert_eq!(LaneId::of(KindId(1), "a"), LaneId(8_286_459_498_212_470_165));
    }

    #[test]
    fn a_blocked_job_is_ordered_by_the_time_its_slot_became_free() {
        assert_eq!(place(Time(5), None), Time(5));
        assert_eq!(place(Time(5), Some(Time(9))), Time(9));
        assert_eq!(place(Time(5), Some(Time(3))), Time(5), "free before it was due");
    }

    #[test]
    fn only_a_job_that_was_not_run_keeps_its_slot() {
        let keep: Vec<&str> = [ReturnWhy::Retry, ReturnWhy::Snooze, ReturnWhy::HandBack, ReturnWhy::Lost]
            .into_iter()
            .filter(|why| why.keeps_slot())
            .map(ReturnWhy::name)
            .collect();
        assert_eq!(keep, ["handed_back", "lost"]);
    }
}
