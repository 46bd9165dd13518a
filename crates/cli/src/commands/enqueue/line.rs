//! One line of a bulk file: the object of `POST /v1/jobs`. Strict: a field nobody knows is a mistake.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use windlass_core::{Invalid, Time, duration};
use windlass_engine::JobRequest;

use super::on_conflict;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: String,
    #[serde(default, deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
    priority: Option<i64>,
    run_at: Option<String>,
    delay: Option<String>,
    unique_key: Option<String>,
    on_conflict: Option<String>,
    idempotency_key: Option<String>,
    concurrency_key: Option<String>,
    max_attempts: Option<i64>,
    timeout: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
}

/// `null` is a payload, not a missing one.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// What is wrong with a line, without its number.
pub(super) fn parse(text: &[u8]) -> Result<JobRequest, Vec<String>> {
    let line: Line = serde_json::from_slice(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        vec![format!("column {}: {message}", error.column())]
    })?;
    let mut invalid = Invalid::default();
    let mut read = |field: &str, text: Option<String>| {
        let parsed = text.map(|text| duration::parse(&text)).transpose();
        parsed.unwrap_or_else(|error| {
            invalid.add(field, error.to_string());
            None
        })
    };
    let delay = read("delay", line.delay);
    let timeout = read("timeout", line.timeout);
    let run_at = line.run_at.and_then(|text| match text.parse::<Time>() {
        Ok(time) => Some(time),
        Err(error) => {
            invalid.add("run_at", error.to_string());
            None
        }
    });
    let on_conflict = line.on_conflict.and_then(|text| match on_conflict(&text) {
        Ok(what) => Some(what),
        Err(error) => {
            invalid.add("on_conflict", error);
            None
        }
    });
    if !invalid.problems.is_empty() {
        return Err(texts(invalid));
    }
    Ok(JobRequest {
        kind: line.kind,
        payload: line.payload.map_or_else(|| b"{}".to_vec(), |payload| payload.get().as_bytes().to_vec()),
        priority: line.priority,
        run_at,
        delay,
        unique_key: line.unique_key,
        on_conflict,
        idempotency_key: line.idempotency_key,
        concurrency_key: line.concurrency_key,
        max_attempts: line.max_attempts,
        timeout,
        tags: line.tags,
        ..JobRequest::default()
    })
}

pub(super) fn texts(invalid: Invalid) -> Vec<String> {
    invalid.problems.into_iter().map(|problem| format!("{}: {}", problem.field, problem.rule)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_and_exact() {
        let job = parse(br#"{"kind":"NOOP","payload":{"n":12345678901234567890123},"delay":"5m"}"#).unwrap();
        assert_eq!(job.payload, br#"{"n":12345678901234567890123}"#);
        assert_eq!(job.delay, Some(std::time::Duration::from_secs(300)));
        assert_eq!(parse(br#"{"kind":"NOOP","payload":null}"#).unwrap().payload, b"null");
        assert_eq!(parse(br#"{"kind":"NOOP"}"#).unwrap().payload, b"{}");
        let unknown = parse(br#"{"kind":"NOOP","prio":1}"#).unwrap_err();
        assert!(
            unknown[0].contains("column 21") && unknown[0].contains("unknown field `prio`"),
            "{unknown:?}"
        );
        let both = parse(br#"{"kind":"NOOP","delay":"-5m","on_conflict":"x","run_at":"soon"}"#).unwrap_err();
        assert_eq!(both.len(), 3, "{both:?}");
    }
}
