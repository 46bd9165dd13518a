//! Queues and their limits.

use std::time::Duration;

use crate::Resource;
use crate::audit::Actor;
use crate::order::DEFAULT_BOOST_AFTER;
use crate::scale::Bounds;
use crate::store::Live;

#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    pub name: String,
    /// Default priority of its jobs, 0 (most urgent) to 10.
    pub priority: u8,
    /// Jobs of this queue that one worker process runs at once. With bounds, the starting value.
    pub concurrency: u32,
    /// Each process adjusts its concurrency within these bounds; `None` keeps it fixed.
    pub bounds: Option<Bounds>,
    /// Longest delay from due to claimed if no wake-up arrives.
    pub cadence: Duration,
    /// Target time from due to finished for 95 % of jobs; `None` is best effort.
    pub sla: Option<Duration>,
    pub owner: String,
    pub colour: String,
    /// Enqueues are refused above this number of waiting jobs.
    pub depth_cap: Option<u64>,
    /// Maximum number of leased jobs in all processes together.
    pub global_concurrency: Option<u32>,
    /// What each job holds while it runs, unless its kind names another resource.
    pub resource: Option<Resource>,
    /// Jobs due for longer get a share of the slots regardless of priority; `None` turns this off.
    pub boost_after: Option<Duration>,
}

/// A live change by an operator. `None` leaves a value unchanged.
#[derive(Clone, Debug, Default)]
pub struct QueueUpdate {
    pub paused: Option<bool>,
    pub concurrency: Option<Live<u32>>,
    /// `Set(None)` removes the bounds, including configured ones.
    pub bounds: Option<Live<Option<Bounds>>>,
    /// Applies to every queue and kind that uses the resource.
    pub permits: Option<Live<u32>>,
    /// `Set(None)` removes the cap.
    pub depth_cap: Option<Live<Option<u64>>>,
    /// `Set(None)` removes the limit.
    pub global_concurrency: Option<Live<Option<u32>>>,
    pub boost_after: Option<Live<Option<Duration>>>,
    /// With an actor, the change is audited.
    pub actor: Option<Actor>,
}

/// For jobs that wait for parents. No queue has this id, so they are never claimed.
pub const NO_QUEUE: crate::QueueId = crate::QueueId(0);

pub const MAX_PRIORITY: u8 = 10;
pub const MAX_CONCURRENCY: u32 = 10_000;
pub const MAX_GLOBAL_CONCURRENCY: u32 = 1_000_000;
pub const MAX_DEPTH_CAP: u64 = 1_000_000_000;

/// How many jobs a claim may lease, given how many are leased already. If the limit was lowered below that, none.
pub fn room(global_concurrency: u32, leased: u64, wanted: u32) -> u32 {
    let free = u64::from(global_concurrency).saturating_sub(leased);
    u32::try_from(free).unwrap_or(u32::MAX).min(wanted)
}

impl QueueSpec {
    /// With default values.
    pub fn named(name: &str) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            priority: 5,
            concurrency: 10,
            bounds: None,
            cadence: Duration::from_secs(10),
            sla: Some(Duration::from_secs(300)),
            owner: String::new(),
            colour: "grey".to_owned(),
            depth_cap: None,
            global_concurrency: None,
            resource: None,
            boost_after: Some(DEFAULT_BOOST_AFTER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::room;

    #[test]
    fn room_is_what_the_limit_leaves() {
        assert_eq!(room(5, 0, 3), 3);
        assert_eq!(room(5, 3, 3), 2);
        assert_eq!(room(5, 5, 3), 0);
        assert_eq!(room(2, 5, 3), 0, "lowered from 5");
    }
}
