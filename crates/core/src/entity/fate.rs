//! What the end of a box says about the entity that waits for it.
//!
//! An entity waits for the newest box that was queued for it and for no other. When that ends without a vector, by its
//! handler, an operator or a crash, the entity is failed and says why; when it is replayed, the entity is pending again.

use crate::store::Settled;
use crate::{JobState, Settlement, Verdict};

/// Why the entity is failed when its box ended like this; `None` where that says nothing against it.
pub fn why_failed(state: JobState, error: Option<&str>) -> Option<String> {
    let how = match state {
        JobState::Cancelled => "was cancelled",
        JobState::DeadLetter => "is a dead letter",
        JobState::Failed => "failed",
        // A superseded box has a newer one to wait for.
        _ => return None,
    };
    Some(match error {
        Some(error) => format!("its box {how}: {error}"),
        None => format!("its box {how}"),
    })
}

/// The same from what was asked and what the store answered.
pub fn why_settled(settlement: &Settlement, answer: Settled) -> Option<String> {
    match (answer, &settlement.verdict) {
        (Settled::Accepted, Verdict::End { state, error, .. }) => why_failed(*state, error.as_deref()),
        (Settled::Cancelled, Verdict::Return(back)) => why_failed(JobState::Cancelled, back.error.as_deref()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Return, ReturnAt, ReturnWhy};
    use crate::{JobId, QueueId, Time, Token};

    #[test]
    fn only_an_end_without_a_vector_is_held_against_it() {
        for state in JobState::ALL {
            let held = matches!(state, JobState::Failed | JobState::DeadLetter | JobState::Cancelled);
            assert_eq!(why_failed(state, None).is_some(), held, "{state}");
        }
        let why = why_failed(JobState::Cancelled, Some("late")).unwrap();
        assert_eq!(why, "its box was cancelled: late");
    }

    #[test]
    fn what_was_not_written_says_nothing() {
        let settlement = |verdict| Settlement {
            id: JobId(1),
            token: Token(1),
            queue: QueueId(1),
            attempt: 1,
            started_at: Time(0),
            workflow: None,
            slot: None,
            verdict,
        };
        let error = Some("no".to_owned());
        let end = settlement(Verdict::End { state: JobState::Failed, result: None, error: error.clone() });
        let run_at = ReturnAt::Place(Time(0));
        let back =
            settlement(Verdict::Return(Return { why: ReturnWhy::Retry, attempts_used: 1, run_at, error }));
        assert_eq!(why_settled(&end, Settled::Accepted).unwrap(), "its box failed: no");
        assert_eq!(why_settled(&back, Settled::Cancelled).unwrap(), "its box was cancelled: no");
        for (settlement, answer) in [
            (&end, Settled::Stale),
            (&back, Settled::Accepted),
            (&back, Settled::Superseded),
            (&back, Settled::Stale),
        ] {
            assert_eq!(why_settled(settlement, answer), None, "{answer:?}");
        }
    }
}
