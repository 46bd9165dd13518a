//! From what a caller asked to a checked [`NewJob`]. Pure: the catalog is given, nothing is written.

use std::time::Duration;

use sha2::{Digest, Sha256};
use windlass_core::input::MAX_DELAY;
use windlass_core::{EntityRef, Idempotency, Invalid, NewJob, OnConflict, RunAt, Time, Unique, UniqueUntil};

use crate::Catalog;

/// A job as a caller describes it; everything but the kind has a default.
#[derive(Clone, Debug, Default)]
pub struct JobRequest {
    pub kind: String,
    /// JSON text.
    pub payload: Vec<u8>,
    pub priority: Option<i64>,
    pub run_at: Option<Time>,
    pub delay: Option<Duration>,
    pub unique_key: Option<String>,
    /// How long it keeps the unique key; `finished` when not said.
    pub unique_until: Option<UniqueUntil>,
    /// `keep` when not said.
    pub on_conflict: Option<OnConflict>,
    /// For this long from its acceptance on, another with its unique key and a window is a duplicate.
    pub unique_for: Option<Duration>,
    pub idempotency_key: Option<String>,
    pub concurrency_key: Option<String>,
    pub max_attempts: Option<i64>,
    pub timeout: Option<Duration>,
    pub tags: Vec<String>,
    pub entity: Option<EntityRef>,
}

impl JobRequest {
    pub fn new(kind: &str, payload: Vec<u8>) -> JobRequest {
        JobRequest { kind: kind.to_owned(), payload, ..JobRequest::default() }
    }

    /// Checks every field at once and resolves kind, queue and defaults.
    pub fn resolve(self, catalog: &Catalog) -> Result<NewJob, Invalid> {
        let mut invalid = self.check();
        let Some(kind) = catalog.kind_named(&self.kind) else {
            invalid.add("kind", catalog.unknown_kind(&self.kind));
            return Err(invalid);
        };
        let queue_priority = catalog.queue(kind.queue).map_or(5, |q| q.spec.priority);
        let priority = self.priority.and_then(|p| u8::try_from(p).ok());
        let attempts = self.max_attempts.and_then(|n| u16::try_from(n).ok());
        let fingerprint = self.idempotency_key.is_some().then(|| self.fingerprint());
        invalid.into_result()?;
        Ok(NewJob {
            kind: kind.id,
            queue: kind.queue,
            priority: priority.or(kind.spec.priority).unwrap_or(queue_priority),
            run_at: match (self.run_at, self.delay) {
                (Some(at), _) => RunAt::At(at),
                (None, Some(delay)) => RunAt::In(delay),
                (None, None) => RunAt::Now,
            },
            max_attempts: attempts.unwrap_or(kind.spec.max_attempts),
            timeout: self.timeout.or(kind.spec.timeout),
            unique: self.unique_key.map(|key| Unique {
                key,
                until: self.unique_until.unwrap_or_default(),
                on_conflict: self.on_conflict.unwrap_or(OnConflict::Keep),
                window: self.unique_for,
            }),
            idempotency: self
                .idempotency_key
                .zip(fingerprint)
                .map(|(key, fingerprint)| Idempotency { key, fingerprint }),
            payload: self.payload,
            concurrency_key: self.concurrency_key,
            tags: self.tags,
            entity: self.entity,
        })
    }

    fn check(&self) -> Invalid {
        let mut invalid = Invalid::default();
        invalid.check_payload("payload", self.payload.len());
        if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&self.payload) {
            invalid.add("payload", format!("is not JSON: {error}"));
        }
        if let Some(priority) = self.priority {
            invalid.check_priority("priority", priority);
        }
        if let Some(attempts) = self.max_attempts {
            invalid.check_attempts("max_attempts", attempts);
        }
        if self.run_at.is_some() && self.delay.is_some() {
            invalid.add("delay", "cannot be given together with run_at");
        }
        if self.delay.is_some_and(|delay| delay > MAX_DELAY) {
            invalid.add("delay", "must be at most 366 days; use run_at for a far time");
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            invalid.add("timeout", "must be longer than zero");
        }
        if self.on_conflict.is_some() && self.unique_key.is_none() {
            invalid.add("on_conflict", "means something only with unique_key");
        }
        if self.unique_until.is_some() && self.unique_key.is_none() {
            invalid.add("unique_until", "means something only with unique_key");
        }
        if let Some(window) = self.unique_for {
            if self.unique_key.is_none() {
                invalid.add("unique_for", "means something only with unique_key");
            }
            if window.is_zero() || window > MAX_DELAY {
                invalid.add("unique_for", "must be longer than zero and at most 366 days");
            }
        }
        let keys = [
            ("unique_key", &self.unique_key),
            ("idempotency_key", &self.idempotency_key),
            ("concurrency_key", &self.concurrency_key),
        ];
        for (field, key) in keys {
            if let Some(key) = key {
                invalid.check_key(field, key);
            }
        }
        invalid.check_tags("tags", &self.tags);
        if let Some(entity) = &self.entity {
            invalid.check_name("entity.type", &entity.entity_type);
            invalid.check_key("entity.id", &entity.entity_id);
        }
        invalid
    }

    /// What has to be the same when an idempotency key is used again: everything that was said. What was not said
    /// leaves no trace, so a field added to this type changes no fingerprint that is stored.
    fn fingerprint(&self) -> Vec<u8> {
        let JobRequest {
            kind,
            payload,
            priority,
            run_at,
            delay,
            unique_key,
            unique_until,
            on_conflict,
            unique_for,
            idempotency_key: _,
            concurrency_key,
            max_attempts,
            timeout,
            tags,
            entity,
        } = self;
        let mut hash = Sha256::new();
        hash.update(kind.as_bytes());
        hash.update([0]);
        hash.update(payload);
        let mut said = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                hash.update(format!("\0{name}={}:{value}", value.len()));
            }
        };
        said("priority", priority.map(|priority| priority.to_string()));
        said("run_at", run_at.map(|at| at.0.to_string()));
        said("delay", delay.map(|delay| delay.as_micros().to_string()));
        said("unique_key", unique_key.clone());
        said("unique_until", unique_until.map(|until| until.name().to_owned()));
        said("on_conflict", on_conflict.map(|what| format!("{what:?}")));
        said("unique_for", unique_for.map(|window| window.as_micros().to_string()));
        said("concurrency_key", concurrency_key.clone());
        said("max_attempts", max_attempts.map(|attempts| attempts.to_string()));
        said("timeout", timeout.map(|timeout| timeout.as_micros().to_string()));
        for tag in tags {
            said("tag", Some(tag.clone()));
        }
        said("entity", entity.as_ref().map(|entity| format!("{}:{}", entity.entity_type, entity.entity_id)));
        hash.finalize().to_vec()
    }
}
