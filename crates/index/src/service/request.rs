//! Validates a caller's request and turns it into a write. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_core::entity::{Change, EntityWrite, Expected, Fields, Strategy, check_id};
use windlass_core::input::MAX_DELAY;
use windlass_core::{Idempotency, Invalid, TypeId, TypeSpec};

/// A write as a caller describes it.
#[derive(Clone, Debug)]
pub struct SaveRequest {
    pub entity_type: String,
    /// `None`: an id is generated.
    pub id: Option<String>,
    pub change: Change,
    pub expected: Expected,
    pub strategy: Option<Strategy>,
    pub priority: Option<i64>,
    pub delay: Option<Duration>,
    pub max_attempts: Option<i64>,
    /// A repeated request with the same key returns the first answer and writes nothing.
    pub idempotency_key: Option<String>,
}

impl SaveRequest {
    pub fn new(entity_type: &str, id: &str, change: Change) -> SaveRequest {
        SaveRequest {
            entity_type: entity_type.to_owned(),
            id: Some(id.to_owned()),
            change,
            expected: Expected::Anything,
            strategy: None,
            priority: None,
            delay: None,
            max_attempts: None,
            idempotency_key: None,
        }
    }

    /// Parses one line of a bulk load, `{"id", …fields}`. All other options come from `template`.
    pub fn from_line(line: &[u8], template: &SaveRequest) -> Result<SaveRequest, Invalid> {
        let mut fields: Fields =
            serde_json::from_slice(line).map_err(|error| Invalid::one("line", not_an_object(&error)))?;
        let id = match fields.shift_remove("id") {
            Some(Value::String(id)) => Some(id),
            Some(Value::Number(id)) => Some(id.to_string()),
            None | Some(Value::Null) => None,
            Some(_) => return Err(Invalid::one("id", "must be text")),
        };
        Ok(SaveRequest { id, change: Change::Put(fields), ..template.clone() })
    }

    pub(crate) fn checked(self, type_id: TypeId, spec: Arc<TypeSpec>) -> Result<EntityWrite, Invalid> {
        let mut invalid = Invalid::default();
        let options = self.check_options().problems;
        let fingerprint = self.idempotency_key.is_some().then(|| self.fingerprint());
        let id = self.id.unwrap_or_else(new_id);
        check_id(&mut invalid, "id", &id);
        if let Change::Put(fields) | Change::Patch(fields) = &self.change {
            let bytes = serde_json::to_vec(fields).map_or(0, |json| json.len());
            invalid.check_payload("fields", bytes);
            if let Some(name) = fields.keys().find(|name| name.contains('\0') || name.is_empty()) {
                let name = windlass_core::input::shown(name);
                invalid.add("fields", format!("a name must not be empty or hold NUL: `{name}`"));
            }
        }
        invalid.problems.extend(options);
        if let Some(key) = &self.idempotency_key {
            invalid.check_key("idempotency_key", key);
        }
        invalid.into_result()?;
        Ok(EntityWrite {
            type_id,
            spec,
            id,
            change: self.change,
            expected: self.expected,
            strategy: self.strategy,
            priority: self.priority.and_then(|priority| u8::try_from(priority).ok()),
            delay: self.delay,
            max_attempts: self.max_attempts.and_then(|attempts| u16::try_from(attempts).ok()),
            prepared: None,
            idempotency: self
                .idempotency_key
                .zip(fingerprint)
                .map(|(key, fingerprint)| Idempotency { key, fingerprint }),
        })
    }

    /// Checks the options of the write.
    pub(crate) fn check_options(&self) -> Invalid {
        let mut invalid = Invalid::default();
        if let Some(priority) = self.priority {
            invalid.check_priority("priority", priority);
        }
        if let Some(attempts) = self.max_attempts {
            invalid.check_attempts("max_attempts", attempts);
        }
        if self.delay.is_some_and(|delay| delay > MAX_DELAY) {
            invalid.add("delay", "must be at most 366 days");
        }
        if self.delay.is_some() && self.strategy == Some(Strategy::Sync) {
            invalid.add("delay", "is for async and batch; sync is embedded with the write");
        }
        invalid
    }

    /// Hash of everything that must be the same when an idempotency key is used again. Unset options are left out, so a
    /// new option does not change stored fingerprints. Each part begins with NUL, unlike in fingerprints of jobs.
    fn fingerprint(&self) -> Vec<u8> {
        let SaveRequest {
            entity_type,
            id,
            change,
            expected,
            strategy,
            priority,
            delay,
            max_attempts,
            idempotency_key: _,
        } = self;
        let (operation, fields) = match change {
            Change::Put(fields) => ("put", Some(fields)),
            Change::Patch(fields) => ("patch", Some(fields)),
            Change::Delete => ("delete", None),
        };
        let expected = match expected {
            Expected::Anything => None,
            Expected::Absent => Some("absent".to_owned()),
            Expected::Version(version) => Some(version.to_string()),
        };
        let mut hash = Sha256::new();
        let mut said = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                hash.update(format!("\0{name}={}:{value}", value.len()));
            }
        };
        said(operation, Some(entity_type.clone()));
        said("id", id.clone());
        said("fields", fields.map(|fields| serde_json::to_string(fields).unwrap_or_default()));
        said("expected", expected);
        said("strategy", strategy.map(|strategy| strategy.name().to_owned()));
        said("priority", priority.map(|priority| priority.to_string()));
        said("delay", delay.map(|delay| delay.as_micros().to_string()));
        said("max_attempts", max_attempts.map(|attempts| attempts.to_string()));
        hash.finalize().to_vec()
    }
}

/// The error without its line number, which is always 1.
fn not_an_object(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    format!("is not a JSON object: {what} at column {}", error.column())
}

/// Time and random bits in characters that need no quoting; later ids sort later.
fn new_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut number = (now.as_millis() << 64) | u128::from(fastrand::u64(..));
    let mut letters = [0u8; 22];
    for place in letters.iter_mut().rev() {
        *place = b"0123456789abcdefghjkmnpqrstvwxyz"[(number & 31) as usize];
        number >>= 5;
    }
    String::from_utf8_lossy(&letters).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_unique_and_sort_by_time() {
        let ids: Vec<String> = (0..1_000).map(|_| new_id()).collect();
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
        std::thread::sleep(Duration::from_millis(2));
        assert!(new_id() > ids[0]);
    }

    #[test]
    fn a_fingerprint_covers_every_option_but_the_key() {
        let fields = |text: &str| serde_json::json!({ "text": text }).as_object().unwrap().clone();
        let first = SaveRequest::new("document", "a", Change::Put(fields("x")));
        let keyed = |key: &str| SaveRequest { idempotency_key: Some(key.to_owned()), ..first.clone() };
        assert_eq!(keyed("k").fingerprint(), keyed("other").fingerprint());
        let others = [
            SaveRequest { id: None, ..first.clone() },
            SaveRequest::new("document", "b", Change::Put(fields("x"))),
            SaveRequest::new("product", "a", Change::Put(fields("x"))),
            SaveRequest::new("document", "a", Change::Put(fields("y"))),
            SaveRequest::new("document", "a", Change::Patch(fields("x"))),
            SaveRequest::new("document", "a", Change::Delete),
            SaveRequest { expected: Expected::Version(1), ..first.clone() },
            SaveRequest { expected: Expected::Absent, ..first.clone() },
            SaveRequest { strategy: Some(Strategy::Sync), ..first.clone() },
            SaveRequest { priority: Some(1), ..first.clone() },
            SaveRequest { delay: Some(Duration::from_secs(1)), ..first.clone() },
            SaveRequest { max_attempts: Some(1), ..first.clone() },
        ];
        let prints: std::collections::HashSet<Vec<u8>> =
            others.iter().chain([&first]).map(SaveRequest::fingerprint).collect();
        assert_eq!(prints.len(), others.len() + 1);
    }

    #[test]
    fn every_problem_is_reported() {
        let mut request = SaveRequest::new("document", "", Change::Delete);
        request.priority = Some(11);
        request.max_attempts = Some(0);
        request.idempotency_key = Some(String::new());
        let spec = Arc::new(TypeSpec::document());
        let invalid = request.checked(TypeId(1), spec).unwrap_err().to_string();
        for field in ["id:", "priority:", "max_attempts:", "idempotency_key:"] {
            assert!(invalid.contains(field), "{invalid}");
        }
    }
}
