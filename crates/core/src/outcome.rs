//! How an attempt ends, and what that means for the job.

use std::time::Duration;

use crate::input::MAX_DELAY;
use crate::lane::Lane;
use crate::{Backoff, JobId, JobState, LeasedJob, QueueId, Time, Token, WorkflowId};

/// Longer error texts are truncated.
pub const MAX_ERROR_BYTES: usize = 16 * 1024;

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done {
        result: Option<Vec<u8>>,
    },
    /// Retry; uses up an attempt. `after` overrides the backoff.
    Retry {
        after: Option<Duration>,
        error: String,
    },
    /// Run again later without using up an attempt: rate limit, no budget, unreachable server.
    Snooze {
        delay: Duration,
        /// Stored as the attempt's error, to explain why the job waits.
        why: Option<String>,
    },
    /// No retry.
    Fail {
        error: String,
    },
    /// Leased but not completed because the worker shuts down. Uses up no attempt.
    HandBack,
    /// Stopped at an operator's request.
    Cancelled,
}

impl Outcome {
    /// Without a reason.
    pub fn snooze(delay: Duration) -> Outcome {
        Outcome::Snooze { delay, why: None }
    }
}

/// What is written for an ended attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job is finished.
    End { state: JobState, result: Option<Vec<u8>>, error: Option<String> },
    /// The job returns to its queue.
    Return(Return),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    pub why: ReturnWhy,
    /// Attempts used so far; the next run has this number plus one.
    pub attempts_used: u16,
    pub run_at: ReturnAt,
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnAt {
    /// Relative to the database clock.
    In(Duration),
    /// Its `run_at` from before the claim.
    Place(Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnWhy {
    Retry,
    Snooze,
    HandBack,
    Lost,
}

impl ReturnWhy {
    /// The outcome stored with the attempt.
    pub fn name(self) -> &'static str {
        match self {
            ReturnWhy::Retry => "retry",
            ReturnWhy::Snooze => "snooze",
            ReturnWhy::HandBack => "handed_back",
            ReturnWhy::Lost => "lost",
        }
    }
}

/// The fenced write that ends an attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub id: JobId,
    pub token: Token,
    pub queue: QueueId,
    pub attempt: u16,
    /// The worker's estimate of the database clock.
    pub started_at: Time,
    /// From the lease: the workflow to advance.
    pub workflow: Option<WorkflowId>,
    /// From the lease: the lane whose slot becomes free.
    pub lane: Option<Lane>,
    /// From the lease: whether its unique key is released at the end.
    pub holds_key: bool,
    pub verdict: Verdict,
}

/// From outcome to verdict. `unit` is a random number in 0–1 for the jitter.
pub fn decide(job: &LeasedJob, outcome: Outcome, backoff: &Backoff, unit: f64) -> Verdict {
    let back =
        |why, attempts_used, run_at, error| Verdict::Return(Return { why, attempts_used, run_at, error });
    let unburnt = job.attempt.saturating_sub(1);
    match bounded(outcome) {
        Outcome::Done { result } => Verdict::End { state: JobState::Completed, result, error: None },
        Outcome::Fail { error } => Verdict::End { state: JobState::Failed, result: None, error: Some(error) },
        Outcome::Cancelled => Verdict::End { state: JobState::Cancelled, result: None, error: None },
        Outcome::Retry { error, .. } if job.attempt >= job.max_attempts => {
            Verdict::End { state: JobState::DeadLetter, result: None, error: Some(error) }
        }
        Outcome::Retry { after, error } => {
            let delay = after.unwrap_or_else(|| backoff.delay(job.attempt, unit));
            back(ReturnWhy::Retry, job.attempt, ReturnAt::In(delay), Some(error))
        }
        Outcome::Snooze { delay, why } => back(ReturnWhy::Snooze, unburnt, ReturnAt::In(delay), why),
        Outcome::HandBack => back(ReturnWhy::HandBack, unburnt, ReturnAt::Place(job.run_at), None),
    }
}

/// Values from handlers may come from outside, such as a `Retry-After` or a server's error page. Limits them to what
/// can be stored.
fn bounded(outcome: Outcome) -> Outcome {
    let text = |mut error: String| {
        error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
        error
    };
    match outcome {
        Outcome::Retry { after, error } => {
            Outcome::Retry { after: after.map(|after| after.min(MAX_DELAY)), error: text(error) }
        }
        Outcome::Snooze { delay, why } => Outcome::Snooze { delay: delay.min(MAX_DELAY), why: why.map(text) },
        Outcome::Fail { error } => Outcome::Fail { error: text(error) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KindId;

    fn leased(attempt: u16, max_attempts: u16) -> LeasedJob {
        LeasedJob {
            id: JobId(1),
            token: Token(1),
            kind: KindId(1),
            queue: QueueId(1),
            priority: 5,
            payload: Vec::new(),
            attempt,
            max_attempts,
            timeout: None,
            run_at: Time(77),
            created_at: Time(7),
            claimed_at: Time(90),
            workflow: None,
            lane: None,
            holds_key: false,
            suspicion: crate::sweep::Suspicion::NONE,
        }
    }

    fn retry() -> Outcome {
        Outcome::Retry { after: None, error: "no".to_owned() }
    }

    #[test]
    fn max_attempts_counts_all_runs() {
        let backoff = Backoff::default();
        assert!(matches!(
            decide(&leased(4, 5), retry(), &backoff, 0.5),
            Verdict::Return(Return { attempts_used: 4, .. })
        ));
        assert!(matches!(
            decide(&leased(5, 5), retry(), &backoff, 0.5),
            Verdict::End { state: JobState::DeadLetter, .. }
        ));
        assert!(matches!(
            decide(&leased(1, 1), retry(), &backoff, 0.5),
            Verdict::End { state: JobState::DeadLetter, .. }
        ));
    }

    #[test]
    fn snooze_and_hand_back_use_up_no_attempt_even_the_last() {
        let backoff = Backoff::default();
        for outcome in [Outcome::snooze(Duration::from_secs(9)), Outcome::HandBack] {
            let Verdict::Return(back) = decide(&leased(5, 5), outcome, &backoff, 0.5) else {
                panic!("ended")
            };
            assert_eq!(back.attempts_used, 4);
        }
    }

    #[test]
    fn values_from_handlers_are_bounded() {
        let far = Outcome::Snooze { delay: Duration::MAX, why: Some("é".repeat(MAX_ERROR_BYTES)) };
        let Verdict::Return(back) = decide(&leased(1, 5), far, &Backoff::default(), 0.5) else {
            panic!("ended")
        };
        assert_eq!(back.run_at, ReturnAt::In(MAX_DELAY));
        assert!(back.error.unwrap().len() <= MAX_ERROR_BYTES);
        let long = Outcome::Fail { error: "é".repeat(MAX_ERROR_BYTES) };
        let Verdict::End { error, .. } = decide(&leased(1, 5), long, &Backoff::default(), 0.5) else {
            panic!()
        };
        assert!(error.unwrap().len() <= MAX_ERROR_BYTES);
    }

    #[test]
    fn a_handed_back_job_keeps_its_place() {
        let Verdict::Return(back) = decide(&leased(1, 5), Outcome::HandBack, &Backoff::default(), 0.5) else {
            panic!("ended")
        };
        assert_eq!(back.run_at, ReturnAt::Place(Time(77)));
    }
}
