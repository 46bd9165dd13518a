//! Parameters and results about limits: rates, resources, concurrency.

use std::time::Duration;

use crate::{KindId, QueueId, Rate};

/// The limits in force for one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindLimits {
    pub kind: KindId,
    pub rate: Option<Rate>,
    pub resource: Option<Permits>,
}

/// A resource and its permits per worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permits {
    pub resource: String,
    pub permits: u32,
}

/// How [`Live::Configured`] is written in HTTP and on the command line.
pub const CONFIGURED: &str = "configured";

/// A live value of a configurable setting. It persists across restarts until an operator resets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live<T> {
    /// No live value: the configured one is in force.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLease {
    pub granted: u32,
    /// How long to wait before asking again.
    pub wait: Duration,
}

/// Limits that a worker reports, for others to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Current concurrency per queue.
    pub concurrency: Vec<(QueueId, u32)>,
    /// Resources that the worker's kinds need.
    pub resources: Vec<String>,
}

impl WorkerLimits {
    /// As stored by both stores.
    pub fn to_json(&self) -> String {
        let concurrency: Vec<(i32, u32)> =
            self.concurrency.iter().map(|(queue, runs)| (queue.0, *runs)).collect();
        serde_json::json!({ "concurrency": concurrency, "resources": self.resources }).to_string()
    }

    /// Empty if nothing was reported, or in a format of another version.
    pub fn from_json(text: &str) -> WorkerLimits {
        let limits: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let read = |key: &str| limits.get(key).cloned().unwrap_or_default();
        let concurrency: Vec<(i32, u32)> = serde_json::from_value(read("concurrency")).unwrap_or_default();
        WorkerLimits {
            concurrency: concurrency.into_iter().map(|(queue, runs)| (QueueId(queue), runs)).collect(),
            resources: serde_json::from_value(read("resources")).unwrap_or_default(),
        }
    }
}

/// A worker's use of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    pub resource: String,
    pub permits: u32,
    /// Leased jobs that need the resource. Each holds a permit from claim to settlement.
    pub in_use: u64,
}

/// A queue's due jobs and its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Counted up to the requested cap.
    pub due: u64,
    /// Workers that serve the queue.
    pub workers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_limits_survive_a_round_trip_through_json() {
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
