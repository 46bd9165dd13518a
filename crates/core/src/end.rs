//! The end of a job: what has to happen in the transaction that ends it, whichever way it ends.
//!
//! A store runs every [`EndStep`] for every job that ends, whether by a settle, an operator or a crash. A new step is added
//! here; both stores then fail to compile until they take it.

use crate::store::Settled;
use crate::{JobId, JobState, Settlement, Verdict};

/// A job that has just ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub id: JobId,
    pub state: JobState,
    pub error: Option<String>,
    /// False when it is known to belong to no workflow.
    pub in_workflow: bool,
    /// False when it is known to hold no unique key.
    pub holds_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStep {
    /// The entity that waits for this box is failed, unless the box completed or was superseded.
    Entities,
    /// The workflow of the job moves on.
    Workflows,
    /// The unique key that the job held until its end is free.
    UniqueKeys,
}

impl EndStep {
    /// In the order in which stores take their locks.
    pub const ALL: [EndStep; 3] = [EndStep::Entities, EndStep::Workflows, EndStep::UniqueKeys];
}

impl Ended {
    /// An end about which nothing more is known than the job's row says.
    pub fn new(id: JobId, state: JobState, error: Option<String>) -> Ended {
        Ended { id, state, error, in_workflow: true, holds_key: true }
    }

    /// How a settlement ended its job; `None` when it did not.
    pub fn by(settlement: &Settlement, answer: Settled) -> Option<Ended> {
        let error = match &settlement.verdict {
            Verdict::End { error, .. } => error,
            Verdict::Return(back) => &back.error,
        };
        let state = match (answer, &settlement.verdict) {
            (Settled::Accepted, Verdict::End { state, .. }) => *state,
            (Settled::Cancelled, _) => JobState::Cancelled,
            (Settled::Superseded, _) => JobState::Superseded,
            _ => return None,
        };
        let (in_workflow, holds_key) = (settlement.workflow.is_some(), settlement.holds_key);
        Some(Ended { id: settlement.id, state, error: error.clone(), in_workflow, holds_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Return, ReturnAt, ReturnWhy};
    use crate::{QueueId, Time, Token};

    #[test]
    fn only_what_was_written_ends_a_job() {
        let settlement = |verdict| Settlement {
            id: JobId(1),
            token: Token(1),
            queue: QueueId(1),
            attempt: 1,
            started_at: Time(0),
            workflow: None,
            lane: None,
            holds_key: false,
            verdict,
        };
        let error = Some("no".to_owned());
        let end = settlement(Verdict::End { state: JobState::Failed, result: None, error: error.clone() });
        let run_at = ReturnAt::Place(Time(0));
        let back =
            settlement(Verdict::Return(Return { why: ReturnWhy::Retry, attempts_used: 1, run_at, error }));
        let state = |settlement, answer| Ended::by(settlement, answer).map(|ended| ended.state);
        assert_eq!(state(&end, Settled::Accepted), Some(JobState::Failed));
        assert_eq!(state(&back, Settled::Cancelled), Some(JobState::Cancelled));
        assert_eq!(state(&back, Settled::Superseded), Some(JobState::Superseded));
        assert_eq!(Ended::by(&back, Settled::Cancelled).and_then(|ended| ended.error).as_deref(), Some("no"));
        for (settlement, answer) in
            [(&end, Settled::Stale), (&back, Settled::Accepted), (&back, Settled::Stale)]
        {
            assert_eq!(state(settlement, answer), None, "{answer:?}");
        }
    }
}
