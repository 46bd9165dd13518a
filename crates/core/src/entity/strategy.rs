//! When an entity is indexed: with the write, within seconds, or in bulk.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::TypeSpec;
use crate::input::shown;

/// Ordered by urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Indexed before the call returns.
    Sync,
    /// Queued; indexed within seconds.
    Async,
    /// Queued; indexed in bulk within minutes.
    Batch,
}

impl Strategy {
    pub const ALL: [Strategy; 3] = [Strategy::Sync, Strategy::Async, Strategy::Batch];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Sync => "sync",
            Strategy::Async => "async",
            Strategy::Batch => "batch",
        }
    }

    /// As stored.
    pub fn code(self) -> i16 {
        match self {
            Strategy::Sync => 1,
            Strategy::Async => 2,
            Strategy::Batch => 3,
        }
    }

    pub fn from_code(code: i16) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.code() == code)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = Strategy::ALL.into_iter().find(|strategy| strategy.name() == text);
        known.ok_or_else(|| format!("must be sync, async or batch, not `{}`", shown(text)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }
}

/// The strategy of one write, and the setting it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub strategy: Strategy,
    pub because: &'static str,
}

/// Precedence: the call, the type's strategy for the operation, the type's own, async.
pub fn resolve(call: Option<Strategy>, operation: Operation, spec: &TypeSpec) -> Resolved {
    let (of_operation, name) = match operation {
        Operation::Create => (spec.on_create, "the type's on_create"),
        Operation::Update => (spec.on_update, "the type's on_update"),
        Operation::Delete => (spec.on_delete, "the type's on_delete"),
    };
    let steps = [(call, "the call"), (of_operation, name), (spec.strategy, "the type's strategy")];
    let found = steps.into_iter().find_map(|(found, because)| Some(Resolved { strategy: found?, because }));
    found.unwrap_or(Resolved { strategy: Strategy::Async, because: "nothing says otherwise" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_strategy_wins() {
        let bare = TypeSpec::named("product");
        let found = |call, operation, spec: &TypeSpec| resolve(call, operation, spec).strategy;
        assert_eq!(found(None, Operation::Create, &bare), Strategy::Async);
        let spec = TypeSpec { strategy: Some(Strategy::Batch), on_delete: Some(Strategy::Sync), ..bare };
        assert_eq!(found(None, Operation::Create, &spec), Strategy::Batch);
        assert_eq!(found(None, Operation::Update, &spec), Strategy::Batch);
        assert_eq!(found(None, Operation::Delete, &spec), Strategy::Sync);
        assert_eq!(found(Some(Strategy::Async), Operation::Delete, &spec), Strategy::Async);
        assert_eq!(resolve(None, Operation::Delete, &spec).because, "the type's on_delete");
    }

    #[test]
    fn names_and_codes_survive_a_round_trip() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert_eq!(Strategy::from_code(strategy.code()), Some(strategy));
        }
        assert!("auto".parse::<Strategy>().is_err());
    }
}
