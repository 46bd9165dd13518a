//! Kinds of job: which queue each belongs to and how its runs are bounded.

use std::time::Duration;

use crate::audit::Actor;
use crate::lane::DEFAULT_KEY_CONCURRENCY;
use crate::store::Live;
use crate::{Backoff, Rate, Resource};

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
    /// Jobs with one concurrency key that may be ready or running at once, over all processes.
    pub key_concurrency: u16,
    /// Starts of all processes together; `None` is no bound.
    pub rate: Option<Rate>,
    /// What each of its jobs holds while it runs; `None` takes the queue's.
    pub resource: Option<Resource>,
    pub description: String,
}

/// A live change by an operator; `None` leaves a value.
#[derive(Clone, Debug, Default)]
pub struct KindUpdate {
    /// `Set(None)` lifts the bound.
    pub rate: Option<Live<Option<Rate>>>,
    /// Of the kind's resource, for every kind that names it.
    pub permits: Option<Live<u32>>,
    /// Jobs of one lane at once.
    pub key_concurrency: Option<Live<u16>>,
    /// Who does it; with a name the change is a line in the audit.
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
            description: String::new(),
        }
    }
}
