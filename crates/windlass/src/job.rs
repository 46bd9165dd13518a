//! Typed jobs: a serialisable struct with a kind, and the options of one enqueue.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{EntityRef, Invalid, KindSpec, OnConflict, Time, UniqueUntil};
use windlass_engine::{EnqueueError, JobRequest};

use crate::Step;
use crate::parts::DEFAULT_QUEUE;

/// A unit of work. The value is the payload; the constants name its kind and queue.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    const KIND: &'static str;
    const QUEUE: &'static str = DEFAULT_QUEUE;

    /// Attempts, timeout, backoff, priority and concurrency per key. Override it to change the defaults.
    fn spec() -> KindSpec {
        KindSpec::new(Self::KIND, Self::QUEUE)
    }

    /// In a [`Workflow`](crate::Workflow): runs after the jobs with these names have ended.
    fn after<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Step {
        Step::from(self).after(names)
    }
}

/// One enqueue with its options. Every [`Job`] converts into one.
pub struct Request {
    inner: JobRequest,
    encoded: Result<(), serde_json::Error>,
}

impl<J: Job> From<J> for Request {
    fn from(job: J) -> Self {
        Request::new(&job)
    }
}

impl Request {
    pub fn new<J: Job>(job: &J) -> Request {
        match serde_json::to_vec(job) {
            Ok(payload) => Request { inner: JobRequest::new(J::KIND, payload), encoded: Ok(()) },
            Err(error) => Request { inner: JobRequest::new(J::KIND, Vec::new()), encoded: Err(error) },
        }
    }

    /// Runs no sooner than this long from now, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Request {
        self.inner.delay = Some(delay);
        self
    }

    pub fn run_at(mut self, at: Time) -> Request {
        self.inner.run_at = Some(at);
        self
    }

    /// 0 is the most urgent, 10 the least.
    pub fn priority(mut self, priority: u8) -> Request {
        self.inner.priority = Some(i64::from(priority));
        self
    }

    pub fn max_attempts(mut self, runs: u16) -> Request {
        self.inner.max_attempts = Some(i64::from(runs));
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.inner.timeout = Some(timeout);
        self
    }

    /// At most one job per key until that job has finished; see [`unique_until`](Request::unique_until).
    pub fn unique_key(mut self, key: impl Into<String>, on_conflict: OnConflict) -> Request {
        self.inner.unique_key = Some(key.into());
        self.inner.on_conflict = Some(on_conflict);
        self
    }

    /// How long the job keeps its unique key. With [`UniqueUntil::Started`] another job of the key may wait while this
    /// one runs.
    pub fn unique_until(mut self, until: UniqueUntil) -> Request {
        self.inner.unique_until = Some(until);
        self
    }

    /// A second enqueue with the same key returns the first job.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Request {
        self.inner.idempotency_key = Some(key.into());
        self
    }

    /// With a unique key: for this long from now, another job with the key and a window is a duplicate, even after this
    /// one has finished.
    pub fn unique_for(mut self, window: Duration) -> Request {
        self.inner.unique_for = Some(window);
        self
    }

    /// At most [`KindSpec::key_concurrency`] jobs of the kind with this key run at once over all processes; the default
    /// is 1. The others wait in order of priority and time, and keys take turns.
    pub fn concurrency_key(mut self, key: impl Into<String>) -> Request {
        self.inner.concurrency_key = Some(key.into());
        self
    }

    pub fn tag(mut self, tag: impl Into<String>) -> Request {
        self.inner.tags.push(tag.into());
        self
    }

    pub fn entity(mut self, entity_type: impl Into<String>, entity_id: impl Into<String>) -> Request {
        self.inner.entity = Some(EntityRef { entity_type: entity_type.into(), entity_id: entity_id.into() });
        self
    }

    /// In a [`Workflow`](crate::Workflow): runs after the jobs with these names have ended.
    pub fn after<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Step {
        Step::from(self).after(names)
    }

    pub(crate) fn into_inner(self) -> Result<JobRequest, EnqueueError> {
        match self.encoded {
            Ok(()) => Ok(self.inner),
            Err(error) => Err(Invalid::one("payload", format!("cannot be written as JSON: {error}")).into()),
        }
    }
}
