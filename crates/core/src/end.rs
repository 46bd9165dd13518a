//! What must happen in the transaction that ends a job.
//!
//! A store runs every [`EndStep`] for every job that ends, whether by settlement, by an operator or after a crash. Add
//! new steps here: both stores then fail to compile until they implement them.

use crate::store::Settled;
use crate::{JobId, JobState, Settlement, Verdict};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub id: JobId,
    pub state: JobState,
    pub error: Option<String>,
    /// False if it is known to belong to no workflow.
    pub in_workflow: bool,
    /// False if it is known to hold no unique key.
    pub holds_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStep {
    /// The entity that waits for this box becomes failed, unless the box completed or was superseded.
    Entities,
    /// The job's workflow advances.
    Workflows,
    /// The unique key that the job held until its end is released.
    UniqueKeys,
}

impl EndStep {
    /// In the order in which stores take locks.
    pub const ALL: [EndStep; 3] = [EndStep::Entities, EndStep::Workflows, EndStep::UniqueKeys];
}

impl Ended {
    /// With nothing known beyond the job's row.
    pub fn new(id: JobId, state: JobState, error: Option<String>) -> Ended {
        Ended { id, state, error, in_workflow: true, holds_key: true }
    }

    /// The end caused by a settlement; `None` if it did not end the job.
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
    fn only_an_accepted_settlement_ends_a_job() {
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
