//! Questions and answers about limits: rates, resources, concurrency.

use std::time::Duration;

use crate::{KindId, QueueId, Rate};

/// The limits in force for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindLimits {
    pub kind: KindId,
    pub rate: Option<Rate>,
    pub resource: Option<Permits>,
}

/// A resource and how many of it one worker process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permits {
    pub resource: String,
    pub permits: u32,
}

/// The word for [`Live::Configured`] outside.
pub const CONFIGURED: &str = "configured";

/// What an operator says about a value that the configuration says too. It outlives every start until the operator goes
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live<T> {
    /// As the configuration says.
    Configured,
    Set(T),
}

impl<T> Live<T> {
    pub fn is_set(&self) -> bool {
        matches!(self, Live::Set(_))
    }

    pub fn set(self) -> Option<T> {
        match self {
            Live::Configured => None,
            Live::Set(value) => Some(value),
        }
    }

    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Live<U> {
        match self {
            Live::Configured => Live::Configured,
            Live::Set(value) => Live::Set(to(value)),
        }
    }
}

/// The answer to a lease of rate tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLease {
    pub granted: u32,
    /// When it is worth asking for more.
    pub wait: Duration,
}

/// What a worker tells others about its own limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Runs at once, as they are now.
    pub concurrency: Vec<(QueueId, u32)>,
    /// Resources that kinds of its need.
    pub resources: Vec<String>,
}

impl WorkerLimits {
    /// As both stores keep it.
    pub fn to_json(&self) -> String {
        let concurrency: Vec<(i32, u32)> =
            self.concurrency.iter().map(|(queue, runs)| (queue.0, *runs)).collect();
        serde_json::json!({ "concurrency": concurrency, "resources": self.resources }).to_string()
    }

    /// Nothing where nothing was said, or by a version that said it otherwise.
    pub fn from_json(text: &str) -> WorkerLimits {
        let said: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let read = |key: &str| said.get(key).cloned().unwrap_or_default();
        let concurrency: Vec<(i32, u32)> = serde_json::from_value(read("concurrency")).unwrap_or_default();
        WorkerLimits {
            concurrency: concurrency.into_iter().map(|(queue, runs)| (QueueId(queue), runs)).collect(),
            resources: serde_json::from_value(read("resources")).unwrap_or_default(),
        }
    }
}

/// A resource as one worker uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    pub resource: String,
    pub permits: u32,
    /// Jobs the worker leases that need the resource. Each holds a permit from its claim until it is settled.
    pub in_use: u64,
}

/// A queue's due jobs, and who is there to run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Counted no further than asked.
    pub due: u64,
    /// Workers that serve the queue.
    pub workers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_s_limits_there_and_back() {
        let limits = WorkerLimits {
            concurrency: vec![(QueueId(3), 10), (QueueId(1), 2)],
            resources: vec!["brow\"ser".to_owned()],
        };
        assert_eq!(WorkerLimits::from_json(&limits.to_json()), limits);
        for other in ["{}", "", "{\"concurrency\": 7, \"resources\": {}}"] {
            assert_eq!(WorkerLimits::from_json(other), WorkerLimits::default(), "{other}");
        }
    }
}
