//! The states of a workflow, and the policies for a failed job.

use std::fmt;
use std::str::FromStr;

/// What a job that ends without success means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Jobs that wait for it, directly or indirectly, are cancelled.
    #[default]
    Stop,
    /// Its children run anyway and can see its state.
    Continue,
    /// All waiting jobs are cancelled. When the rest has ended, completed jobs are undone, the last one first.
    Compensate,
}

impl OnFailure {
    pub const ALL: [OnFailure; 3] = [OnFailure::Stop, OnFailure::Continue, OnFailure::Compensate];

    pub fn name(self) -> &'static str {
        match self {
            OnFailure::Stop => "stop",
            OnFailure::Continue => "continue",
            OnFailure::Compensate => "compensate",
        }
    }

    /// Stored in the `on_failure` column.
    pub fn code(self) -> i16 {
        self as i16
    }

    pub fn from_code(code: i16) -> Option<OnFailure> {
        OnFailure::ALL.into_iter().find(|policy| policy.code() == code)
    }
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is none of stop, continue, compensate")]
pub struct UnknownPolicy(String);

impl FromStr for OnFailure {
    type Err = UnknownPolicy;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        OnFailure::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkflowState {
    /// A job waits, is queued or runs.
    Running,
    Completed,
    /// A job failed that must not.
    Failed,
    /// No job failed, but some were cancelled.
    Cancelled,
    /// Completed jobs are being undone.
    Compensating,
    /// Everything that can be undone has been.
    Compensated,
}

use WorkflowState::*;

impl WorkflowState {
    pub const ALL: [WorkflowState; 6] = [Running, Completed, Failed, Cancelled, Compensating, Compensated];

    pub fn name(self) -> &'static str {
        match self {
            Running => "running",
            Completed => "completed",
            Failed => "failed",
            Cancelled => "cancelled",
            Compensating => "compensating",
            Compensated => "compensated",
        }
    }

    /// Stored in the `state` column.
    pub fn code(self) -> i16 {
        self as i16
    }

    pub fn from_code(code: i16) -> Option<WorkflowState> {
        WorkflowState::ALL.into_iter().find(|state| state.code() == code)
    }

    /// No job will run unless an operator retries it.
    pub fn is_ended(self) -> bool {
        !matches!(self, Running | Compensating)
    }
}

impl fmt::Display for WorkflowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a workflow's state; known are {list}", list = names().join(", "))]
pub struct UnknownWorkflowState(String);

fn names() -> Vec<&'static str> {
    WorkflowState::ALL.iter().map(|state| state.name()).collect()
}

impl FromStr for WorkflowState {
    type Err = UnknownWorkflowState;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = WorkflowState::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| UnknownWorkflowState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_one_to_one() {
        for state in WorkflowState::ALL {
            assert_eq!(state.name().parse::<WorkflowState>().unwrap(), state);
            assert_eq!(WorkflowState::from_code(state.code()), Some(state));
        }
        for policy in OnFailure::ALL {
            assert_eq!(policy.name().parse::<OnFailure>().unwrap(), policy);
            assert_eq!(OnFailure::from_code(policy.code()), Some(policy));
        }
        assert!("ended".parse::<WorkflowState>().unwrap_err().to_string().contains("compensated"));
        assert!("undo".parse::<OnFailure>().is_err());
    }
}
