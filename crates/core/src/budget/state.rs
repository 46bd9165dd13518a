//! The states of a budget and what each allows. Code, tests and `docs/budgets.md` follow [`STATES`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BudgetState {
    Normal,
    Reduce,
    Queue,
    HardStop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub state: BudgetState,
    /// The state applies from this percentage of the limit on.
    pub from_percent: u16,
    /// Items a scheduled run processes at once; 0 stops it.
    pub batch: u32,
    /// The same for a manual run.
    pub manual_batch: u32,
    pub about: &'static str,
}

/// In ascending order. `used` is settled plus reserved.
pub const STATES: [Step; 4] = [
    step(BudgetState::Normal, 0, 20, 20, "full speed"),
    step(BudgetState::Reduce, 75, 10, 10, "smaller batches"),
    step(BudgetState::Queue, 90, 0, 10, "scheduled runs wait for the next hour; manual ones go on"),
    step(BudgetState::HardStop, 100, 0, 0, "everything waits for the next month"),
];

const fn step(
    state: BudgetState,
    from_percent: u16,
    batch: u32,
    manual_batch: u32,
    about: &'static str,
) -> Step {
    Step { state, from_percent, batch, manual_batch, about }
}

impl BudgetState {
    pub const ALL: [BudgetState; 4] =
        [BudgetState::Normal, BudgetState::Reduce, BudgetState::Queue, BudgetState::HardStop];

    pub fn name(self) -> &'static str {
        match self {
            BudgetState::Normal => "NORMAL",
            BudgetState::Reduce => "REDUCE",
            BudgetState::Queue => "QUEUE",
            BudgetState::HardStop => "HARD_STOP",
        }
    }

    fn step(self) -> Step {
        STATES.into_iter().find(|step| step.state == self).unwrap_or(STATES[0])
    }

    /// Items a run may process at once; 0 means it must wait.
    pub fn batch_size(self, trigger: Trigger) -> u32 {
        match trigger {
            Trigger::Scheduled => self.step().batch,
            Trigger::Manual => self.step().manual_batch,
        }
    }

    pub fn stops(self, trigger: Trigger) -> bool {
        self.batch_size(trigger) == 0
    }
}

impl fmt::Display for BudgetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What started the run that spends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    #[default]
    Scheduled,
    /// A person; may spend up to the limit.
    Manual,
}

/// Tag of a job that a person started.
pub const MANUAL_TAG: &str = "trigger:manual";

impl Trigger {
    pub fn of_tags(tags: &[String]) -> Trigger {
        if tags.iter().any(|tag| tag == MANUAL_TAG) { Trigger::Manual } else { Trigger::Scheduled }
    }

    /// Whether a payload is an object with `"trigger": "manual"`.
    pub fn is_manual_in(payload: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Fields {
            trigger: Option<serde_json::Value>,
        }
        // serde would also read a list, by position.
        let object = payload.trim_ascii_start().first() == Some(&b'{');
        let fields = object.then(|| serde_json::from_slice::<Fields>(payload).ok()).flatten();
        fields.and_then(|fields| fields.trigger).is_some_and(|trigger| trigger == "manual")
    }
}

/// Severity of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    Info,
    Warning,
    Critical,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Info, Level::Warning, Level::Critical];

    pub fn name(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Critical => "CRITICAL",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a level; known are INFO, WARNING, CRITICAL", crate::input::shown(.0))]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        let known = Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text.trim()));
        known.ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_ascend_and_each_occurs_once() {
        assert_eq!(STATES.map(|step| step.state), BudgetState::ALL);
        assert!(STATES.is_sorted_by_key(|step| step.from_percent) && STATES[0].from_percent == 0);
    }

    /// Keeps the documentation equal to the code.
    #[test]
    fn the_documentation_lists_exactly_these_states() {
        let page = include_str!("../../../../docs/budgets.md");
        let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let row = |step: &Step| {
            let (state, from, batch) = (step.state, step.from_percent, step.batch);
            format!("| `{state}` | {from} % | {batch} | {} | {} |", step.manual_batch, step.about)
        };
        assert_eq!(listed, STATES.iter().map(row).collect::<Vec<_>>());
    }

    #[test]
    fn a_payload_can_make_a_run_manual() {
        for (payload, manual) in [
            (r#"{"trigger": "manual"}"#, true),
            (r#" {"source": 7, "trigger": "manual", "more": [1]}"#, true),
            (r#"{"trigger": "scheduled"}"#, false),
            (r#"{"trigger": ["manual"]}"#, false),
            (r#"{"of": {"trigger": "manual"}}"#, false),
            (r#"["manual"]"#, false),
            ("", false),
            ("trigger: manual", false),
        ] {
            assert_eq!(Trigger::is_manual_in(payload.as_bytes()), manual, "{payload}");
        }
    }

    #[test]
    fn levels_and_triggers_survive_a_round_trip() {
        assert_eq!("warning".parse(), Ok(Level::Warning));
        assert!("loud".parse::<Level>().is_err());
        assert_eq!(serde_json::from_str::<Trigger>("\"manual\"").unwrap(), Trigger::Manual);
    }
}
