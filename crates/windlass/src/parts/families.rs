//! The five default queues of every installation.

use std::time::Duration;

use windlass_core::{QueueSpec, Resource};

/// The queue of kinds that name none.
pub const DEFAULT_QUEUE: &str = "DEFAULT";

/// Without owners, which each installation configures.
pub fn families() -> Vec<QueueSpec> {
    let family = |name: &str, priority, concurrency, cadence, sla: Option<u64>, colour: &str| QueueSpec {
        priority,
        concurrency,
        cadence: Duration::from_secs(cadence),
        sla: sla.map(Duration::from_secs),
        colour: colour.to_owned(),
        ..QueueSpec::named(name)
    };
    // Each job runs a browser, and one process has memory for about three.
    let screenshot = QueueSpec {
        resource: Some(Resource::new("screenshot", 3)),
        ..family("SCREENSHOT", 6, 3, 10, Some(120), "lavender")
    };
    vec![
        family("HIGH", 0, 20, 5, Some(30), "salmon"),
        family(DEFAULT_QUEUE, 5, 10, 10, Some(300), "blue"),
        screenshot,
        family("LOW", 7, 5, 30, Some(1_800), "green"),
        family("BULK", 8, 8, 60, None, "yellow"),
    ]
}
