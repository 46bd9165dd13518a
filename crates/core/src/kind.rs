//! Kinds of job: which queue each belongs to and how its runs are bounded.

use std::time::Duration;

use crate::Backoff;

#[derive(Clone, Debug, PartialEq)]
pub struct KindSpec {
    pub name: String,
    /// For good: a kind never moves to another queue.
    pub queue: String,
    /// `None` takes the queue's.
    pub priority: Option<u8>,
    /// All runs, the first included.
    pub max_attempts: u16,
    /// One run may take this long; `None` is no bound.
    pub timeout: Option<Duration>,
    pub backoff: Backoff,
    pub description: String,
}

pub const DEFAULT_MAX_ATTEMPTS: u16 = 5;
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

impl KindSpec {
    pub fn new(name: &str, queue: &str) -> KindSpec {
        KindSpec {
            name: name.to_owned(),
            queue: queue.to_owned(),
            priority: None,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: Some(DEFAULT_TIMEOUT),
            backoff: Backoff::default(),
            description: String::new(),
        }
    }
}
