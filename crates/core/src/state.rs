//! The states of a job and the table of legal transitions.
//!
//! Code, schema constraints, tests and `docs/state-machine.md` follow [`MOVES`], as does which [`Action`] an operator
//! can apply in which state. A waiting job is one row. It is `scheduled` before its `run_at` and `pending` after,
//! without a write in between. A job that waits for parents in its workflow is `scheduled` too, without a `run_at`.

use std::fmt;
use std::str::FromStr;

use crate::store::Action;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    Scheduled,
    Pending,
    Running,
    Completed,
    Failed,
    DeadLetter,
    Cancelled,
    Superseded,
}

use JobState::*;

/// Every legal transition and its cause.
pub const MOVES: &[(JobState, JobState, &str)] = &[
    (Scheduled, Pending, "run_at arrives, or the last job it waits for has ended"),
    (Scheduled, Cancelled, "cancelled"),
    (Scheduled, Superseded, "a newer job with its unique key"),
    (Pending, Scheduled, "run_at moved ahead by an operator"),
    (Pending, Running, "claimed"),
    (Pending, Cancelled, "cancelled"),
    (Pending, Superseded, "a newer job with its unique key"),
    (Running, Completed, "the handler is done"),
    (Running, Scheduled, "retry or snooze"),
    (Running, Pending, "handed back at shutdown, or its lease was lost"),
    (Running, Failed, "the handler reported a permanent failure"),
    (Running, DeadLetter, "attempts or crashes ran out"),
    (Running, Cancelled, "cancelled"),
    (Running, Superseded, "returned to its queue, and its unique key was taken"),
    (Failed, Pending, "replayed"),
    (DeadLetter, Pending, "replayed"),
    (Cancelled, Pending, "replayed"),
    (Failed, Scheduled, "replayed with others that it waits for"),
    (DeadLetter, Scheduled, "replayed with others that it waits for"),
    (Cancelled, Scheduled, "replayed with others that it waits for"),
    (Failed, Superseded, "replayed, and its unique key was taken"),
    (DeadLetter, Superseded, "replayed, and its unique key was taken"),
    (Cancelled, Superseded, "replayed, and its unique key was taken"),
];

impl JobState {
    pub const ALL: [JobState; 8] =
        [Scheduled, Pending, Running, Completed, Failed, DeadLetter, Cancelled, Superseded];

    pub fn name(self) -> &'static str {
        match self {
            Scheduled => "scheduled",
            Pending => "pending",
            Running => "running",
            Completed => "completed",
            Failed => "failed",
            DeadLetter => "dead_letter",
            Cancelled => "cancelled",
            Superseded => "superseded",
        }
    }

    /// Stored in `state` columns. CHECK constraints in the schema list the finished states.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Replaces states in SQL such as `{completed}` by their codes. Codes are literals so that partial indexes apply.
    pub fn render(sql: &str) -> String {
        let fill =
            |sql: String, state: JobState| sql.replace(&format!("{{{state}}}"), &state.code().to_string());
        JobState::ALL.into_iter().fold(sql.to_owned(), fill)
    }

    pub fn from_code(code: i16) -> Option<JobState> {
        JobState::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The job will not run again unless an operator retries it.
    pub fn is_finished(self) -> bool {
        !matches!(self, Scheduled | Pending | Running)
    }

    /// Finished without success in a way an operator should look at.
    pub fn is_dead(self) -> bool {
        matches!(self, Failed | DeadLetter)
    }

    pub fn can_move_to(self, next: JobState) -> bool {
        MOVES.iter().any(|(from, to, _)| *from == self && *to == next)
    }

    pub fn can_replay(self) -> bool {
        self.is_finished() && self.can_move_to(Pending)
    }
}

impl Action {
    pub fn word(self) -> &'static str {
        match self {
            Action::Cancel => "cancel",
            Action::Retry => "retry",
            Action::Delete => "delete",
        }
    }

    /// Whether an operator can apply this to a job in `state`. Others are skipped and counted.
    pub fn fits(self, state: JobState) -> bool {
        match self {
            Action::Cancel => state.can_move_to(Cancelled),
            Action::Retry => state == Scheduled || state.can_replay(),
            Action::Delete => state.is_finished(),
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a job state; known are {list}", list = names().join(", "))]
pub struct UnknownState(String);

fn names() -> Vec<&'static str> {
    JobState::ALL.iter().map(|s| s.name()).collect()
}

impl FromStr for JobState {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.replace('-', "_").to_ascii_lowercase();
        JobState::ALL.into_iter().find(|s| s.name() == wanted).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_one_to_one() {
        for state in JobState::ALL {
            assert_eq!(state.name().parse::<JobState>().unwrap(), state);
            assert_eq!(JobState::from_code(state.code()), Some(state));
        }
        assert_eq!(JobState::from_code(99), None);
        assert!("runing".parse::<JobState>().unwrap_err().to_string().contains("running"));
    }

    #[test]
    fn success_is_final_and_nothing_leaves_superseded() {
        for state in JobState::ALL {
            assert!(!Completed.can_move_to(state));
            assert!(!Superseded.can_move_to(state));
        }
    }

    #[test]
    fn every_live_state_can_be_cancelled_and_every_dead_one_replayed() {
        for state in JobState::ALL {
            assert_eq!(state.can_move_to(Cancelled), !state.is_finished(), "{state}");
            if state.is_dead() {
                assert!(state.can_replay(), "{state}");
            }
        }
    }

    #[test]
    fn each_action_fits_the_states_it_is_described_for() {
        let fitting = |action: Action| -> Vec<JobState> {
            JobState::ALL.into_iter().filter(|state| action.fits(*state)).collect()
        };
        assert_eq!(fitting(Action::Cancel), [Scheduled, Pending, Running]);
        assert_eq!(fitting(Action::Retry), [Scheduled, Failed, DeadLetter, Cancelled]);
        assert_eq!(fitting(Action::Delete), [Completed, Failed, DeadLetter, Cancelled, Superseded]);
    }

    /// Keeps the documentation equal to the code.
    #[test]
    fn the_documentation_lists_exactly_these_transitions() {
        let page = include_str!("../../../docs/state-machine.md");
        let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> =
            MOVES.iter().map(|(from, to, why)| format!("| `{from}` | `{to}` | {why} |")).collect();
        assert_eq!(listed, expected);
    }
}
