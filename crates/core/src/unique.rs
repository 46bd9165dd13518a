//! Unique keys: how long a job keeps its key, and what becomes of another job with the key.

use std::time::Duration;

/// At most one job per key, until it starts or until it has finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    pub key: String,
    pub until: UniqueUntil,
    pub on_conflict: OnConflict,
    /// For this long after the job was accepted, another job that asks for a window under the key is a duplicate, even
    /// if the first has ended. A waiting job can still be replaced, which does not prolong the window.
    pub window: Option<Duration>,
}

impl Unique {
    /// Until it has started, without a window.
    pub fn until_started(key: impl Into<String>, on_conflict: OnConflict) -> Unique {
        Unique { until: UniqueUntil::Started, ..Unique::new(key, on_conflict) }
    }

    /// Until it has finished, without a window.
    pub fn new(key: impl Into<String>, on_conflict: OnConflict) -> Unique {
        Unique { key: key.into(), until: UniqueUntil::Finished, on_conflict, window: None }
    }

    /// The new job meets a job with its key: one that waits, one that runs, or one whose window lasts.
    pub fn meets(&self, existing: Existing) -> Meeting {
        match (self.on_conflict, existing) {
            (OnConflict::Reject, _) => Meeting::Refuse,
            (OnConflict::Keep, _) | (OnConflict::Replace, Existing::Claimed) => Meeting::Duplicate,
            (OnConflict::Replace, Existing::Waiting) => Meeting::Replace,
        }
    }
}

/// How long a job keeps its unique key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueUntil {
    /// Another job with the key may wait while this one runs. A job that comes back and meets that one ends superseded.
    Started,
    /// No other job with the key is accepted before this one has ended.
    #[default]
    Finished,
}

impl UniqueUntil {
    pub const ALL: [UniqueUntil; 2] = [UniqueUntil::Started, UniqueUntil::Finished];

    pub fn name(self) -> &'static str {
        match self {
            UniqueUntil::Started => "started",
            UniqueUntil::Finished => "finished",
        }
    }

    pub fn from_name(name: &str) -> Option<UniqueUntil> {
        UniqueUntil::ALL.into_iter().find(|until| until.name() == name)
    }
}

/// The job that has a unique key when another job with the key arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Waiting,
    /// It runs, or has ended and its window lasts.
    Claimed,
}

/// What becomes of a new job that meets an existing one with its unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// The existing job ends as `superseded`. The new one takes its `run_at` if that is earlier.
    Replace,
    /// The existing job is returned.
    Duplicate,
    Refuse,
}

/// What a caller wants when a job with the unique key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// A waiting job is superseded. One that was claimed is kept.
    Replace,
    /// The existing job stays and is returned.
    Keep,
    /// The enqueue is refused.
    Reject,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_waiting_job_is_replaced() {
        let meets = |on_conflict, existing| Unique::new("k", on_conflict).meets(existing);
        assert_eq!(meets(OnConflict::Replace, Existing::Waiting), Meeting::Replace);
        assert_eq!(meets(OnConflict::Replace, Existing::Claimed), Meeting::Duplicate);
        for existing in [Existing::Waiting, Existing::Claimed] {
            assert_eq!(meets(OnConflict::Keep, existing), Meeting::Duplicate);
            assert_eq!(meets(OnConflict::Reject, existing), Meeting::Refuse);
        }
    }
}
