//! Kinds of jobs: the queue of each and its limits.

use std::time::Duration;

use crate::audit::Actor;
use crate::lane::DEFAULT_KEY_CONCURRENCY;
use crate::store::Live;
use crate::{Backoff, Rate, Resource};

#[derive(Clone, Debug, PartialEq)]
pub struct KindSpec {
    pub name: String,
    /// Permanent: a kind never moves to another queue.
    pub queue: String,
    /// `None` means the queue's.
    pub priority: Option<u8>,
    /// All runs, including the first.
    pub max_attempts: u16,
    /// Maximum duration of one run.
    pub timeout: Option<Duration>,
    pub backoff: Backoff,
    /// Slots per lane: jobs with one concurrency key that may be ready or running at once, in all processes together.
    pub key_concurrency: u16,
    /// Starts in all processes together.
    pub rate: Option<Rate>,
    /// What each job holds while it runs; `None` means the queue's.
    pub resource: Option<Resource>,
    /// A job that is lost with its worker becomes a dead letter instead of running again.
    pub at_most_once: bool,
    pub description: String,
}

/// A live change by an operator. `None` leaves a value unchanged.
#[derive(Clone, Debug, Default)]
pub struct KindUpdate {
    /// `Set(None)` removes the limit.
    pub rate: Option<Live<Option<Rate>>>,
    /// Applies to every kind that uses the resource.
    pub permits: Option<Live<u32>>,
    /// Slots per lane.
    pub key_concurrency: Option<Live<u16>>,
    /// With an actor, the change is audited.
    pub actor: Option<Actor>,
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
            key_concurrency: DEFAULT_KEY_CONCURRENCY,
            rate: None,
            resource: None,
            at_most_once: false,
            description: String::new(),
        }
    }
}
