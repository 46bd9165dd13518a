//! Lanes: jobs of one kind that share a concurrency key, of which only so many may be ready or running at once.
//!
//! Who runs holds one of its lane's **slots** until the attempt ends; the others wait in line, where no claim looks. A
//! settlement hands its slot on to who stands first there, who from then on stands among the ready jobs: by a **turn** that
//! stands there for it, or as a **head** that was moved there, as the store keeps it. Whatever else may make room or need it, such
//! as a cancel, a raised limit or a job whose time comes, leaves a **look**: the next claim looks at that lane and gives
//! away what is free. Pure rules.

use sha2::{Digest, Sha256};

use crate::outcome::ReturnWhy;
use crate::{KindId, LaneId, Time};

/// Jobs of one lane that may be ready or running at once when nobody says otherwise.
pub const DEFAULT_KEY_CONCURRENCY: u16 = 1;
pub const MAX_KEY_CONCURRENCY: u16 = 10_000;

/// A lane and the kind it is of, which says how many may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub id: LaneId,
    pub kind: KindId,
}

/// A slot as the job holds it that was leased with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub lane: Lane,
    /// Priority and time under which the job stood in line: who is next stands behind it, most likely. None when it was not
    /// taken from there, or the store does not ask.
    pub stood: Option<(u8, Time)>,
}

impl LaneId {
    /// The same in every process and for ever, so that nobody has to keep a list of keys. Of a million keys two share a
    /// number once in forty million databases; they would then share their slots, so never run too many.
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
    /// A job that goes back unrun stands before its line; one that waits for its retry or its snooze goes back in line and
    /// blocks nobody.
    pub fn keeps_slot(self) -> bool {
        match self {
            ReturnWhy::HandBack | ReturnWhy::Lost => true,
            ReturnWhy::Retry | ReturnWhy::Snooze => false,
        }
    }
}

/// Where who gets a slot stands among all that are ready: at its own time when it did not have to wait for its lane, else at
/// the moment the slot got free. So keys take turns, and a key with thousands of jobs delays no other.
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
    fn a_job_that_waited_for_its_lane_stands_where_its_slot_got_free() {
        assert_eq!(place(Time(5), None), Time(5));
        assert_eq!(place(Time(5), Some(Time(9))), Time(9));
        assert_eq!(place(Time(5), Some(Time(3))), Time(5), "free before its time came");
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
