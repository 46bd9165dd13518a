//! Queues (families): the five that are always there, and what one carries.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    pub name: String,
    /// Default priority of its jobs, 0 (most urgent) to 10.
    pub priority: u8,
    /// Jobs of this queue that one worker process runs at once.
    pub concurrency: u32,
    /// Upper bound on the delay between due and claimed when no wake-up arrives.
    pub cadence: Duration,
    /// Due-to-finished bound for 95 % of jobs; `None` is best effort.
    pub sla: Option<Duration>,
    pub owner: String,
    pub colour: String,
    /// Waiting jobs above which enqueues are refused; `None` is no bound.
    pub depth_cap: Option<u64>,
}

pub const MAX_PRIORITY: u8 = 10;
pub const DEFAULT_QUEUE: &str = "DEFAULT";

impl QueueSpec {
    /// A queue nobody described: DEFAULT's figures under another name.
    pub fn named(name: &str) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            priority: 5,
            concurrency: 10,
            cadence: Duration::from_secs(10),
            sla: Some(Duration::from_secs(300)),
            owner: String::new(),
            colour: "grey".to_owned(),
            depth_cap: None,
        }
    }
}

/// The families of document 002 §1 with the cadences of §4.
pub fn families() -> Vec<QueueSpec> {
    let family =
        |name: &str, priority, concurrency, cadence, sla: Option<u64>, owner: &str, colour: &str| QueueSpec {
            name: name.to_owned(),
            priority,
            concurrency,
            cadence: Duration::from_secs(cadence),
            sla: sla.map(Duration::from_secs),
            owner: owner.to_owned(),
            colour: colour.to_owned(),
            depth_cap: None,
        };
    vec![
        family("HIGH", 0, 20, 5, Some(30), "Ops On-Call (PagerDuty: vc-ops-high)", "salmon"),
        family("DEFAULT", 5, 10, 10, Some(300), "Platform Services Guild (Slack: #platform-feeds)", "blue"),
        family("SCREENSHOT", 6, 3, 10, Some(120), "Good Sites Platform (Slack: #good-sites)", "lavender"),
        family("LOW", 7, 5, 30, Some(1_800), "Data Insights Pod (Slack: #analytics)", "green"),
        family("BULK", 8, 8, 60, None, "Content Intelligence Squad (Slack: #ai-pipelines)", "yellow"),
    ]
}
