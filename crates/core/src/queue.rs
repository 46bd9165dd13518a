//! Queues: what one carries, and the rules about its limits.

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
    /// Jobs of this queue that one worker process runs at once; where there are bounds, what it starts with.
    pub concurrency: u32,
    /// Between which each process moves its concurrency by itself; `None` keeps it.
    pub bounds: Option<Bounds>,
    /// Upper bound on the delay between due and claimed when no wake-up arrives.
    pub cadence: Duration,
    /// Due-to-finished bound for 95 % of jobs; `None` is best effort.
    pub sla: Option<Duration>,
    pub owner: String,
    pub colour: String,
    /// Waiting jobs above which enqueues are refused; `None` is no bound.
    pub depth_cap: Option<u64>,
    /// Jobs of this queue that are leased at once, over all processes; `None` is no bound.
    pub global_concurrency: Option<u32>,
    /// What each job holds while it runs, unless its kind names something else.
    pub resource: Option<Resource>,
    /// Jobs due for longer get a share of the slots whatever their priority; `None` boosts nobody.
    pub boost_after: Option<Duration>,
}

/// A live change by an operator; `None` leaves a value.
#[derive(Clone, Debug, Default)]
pub struct QueueUpdate {
    pub paused: Option<bool>,
    pub concurrency: Option<Live<u32>>,
    /// `Set(None)` removes them, those of the configuration too.
    pub bounds: Option<Live<Option<Bounds>>>,
    /// Of the queue's resource, for everything that names it.
    pub permits: Option<Live<u32>>,
    /// `Set(None)` lifts the cap.
    pub depth_cap: Option<Live<Option<u64>>>,
    /// `Set(None)` lifts the limit.
    pub global_concurrency: Option<Live<Option<u32>>>,
    pub boost_after: Option<Live<Option<Duration>>>,
    /// Who does it; with a name the change is a line in the audit.
    pub actor: Option<Actor>,
}

/// The queue of jobs that wait for others: no queue has this number, so nobody claims from it.
pub const NO_QUEUE: crate::QueueId = crate::QueueId(0);

pub const MAX_PRIORITY: u8 = 10;
pub const MAX_CONCURRENCY: u32 = 10_000;
pub const MAX_GLOBAL_CONCURRENCY: u32 = 1_000_000;
pub const MAX_DEPTH_CAP: u64 = 1_000_000_000;

/// How many of the jobs a claim asks for it may lease where so many are leased already. A limit that was lowered waits
/// until enough of them have ended.
pub fn room(global_concurrency: u32, leased: u64, wanted: u32) -> u32 {
    let free = u64::from(global_concurrency).saturating_sub(leased);
    u32::try_from(free).unwrap_or(u32::MAX).min(wanted)
}

impl QueueSpec {
    /// A queue with the usual figures.
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
