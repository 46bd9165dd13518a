//! A kind of job.

use windlass_core::KindSpec;
use windlass_pack::shape;

shape! {
    /// A kind of job.
    pub struct KindView as "Kind" {
        pub name: String,
        pub queue: String,
        /// null means the queue's.
        pub priority: Option<u8>,
        /// All runs, including the first.
        pub max_attempts: u16,
        pub timeout_seconds: Option<f64>,
        pub backoff_base_seconds: f64,
        pub backoff_cap_seconds: f64,
        /// Jobs with one concurrency key that may be ready or running at once, in all processes together.
        pub key_concurrency: u16,
        /// Starts in all processes together, such as `500/s`; null means no limit.
        pub rate: Option<String>,
        /// What each of its jobs holds while it runs.
        pub resource: Option<String>,
        /// Permits of the resource per worker process.
        pub permits: Option<u32>,
        /// A job lost with its worker becomes a dead letter instead of running again.
        pub at_most_once: bool,
        pub description: String,
    }
}

impl From<KindSpec> for KindView {
    fn from(kind: KindSpec) -> KindView {
        KindView {
            name: kind.name,
            queue: kind.queue,
            priority: kind.priority,
            max_attempts: kind.max_attempts,
            timeout_seconds: kind.timeout.map(|timeout| timeout.as_secs_f64()),
            backoff_base_seconds: kind.backoff.base.as_secs_f64(),
            backoff_cap_seconds: kind.backoff.cap.as_secs_f64(),
            key_concurrency: kind.key_concurrency,
            rate: kind.rate.map(|rate| rate.to_string()),
            permits: kind.resource.as_ref().and_then(|resource| resource.permits),
            resource: kind.resource.map(|resource| resource.name),
            at_most_once: kind.at_most_once,
            description: kind.description,
        }
    }
}
