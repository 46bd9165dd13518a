//! Parses the object of `POST /v1/jobs` or a line of `enqueue --bulk` into a request for the engine.

use serde_json::{Value, json};
use windlass_core::input::{MAX_ATTEMPTS, shown};
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::{Invalid, OnConflict, UniqueUntil};
use windlass_engine::JobRequest;
use windlass_pack::fields::Fields;
use windlass_pack::shape::span;
use windlass_pack::{Schemas, Shape};

/// Reads all known fields; unknown ones are refused by name.
pub fn job_request(fields: Fields<'_>) -> Result<JobRequest, Invalid> {
    let (request, invalid) = read_job(fields);
    invalid.into_result().map(|()| request)
}

/// The fields that could be read, and the problems with the others.
pub(crate) fn read_job(mut fields: Fields<'_>) -> (JobRequest, Invalid) {
    let request = JobRequest {
        kind: fields.required_text("kind"),
        payload: fields.raw("payload").map_or_else(|| b"{}".to_vec(), |raw| raw.get().as_bytes().to_vec()),
        priority: fields.integer("priority"),
        run_at: fields.time("run_at"),
        delay: fields.duration("delay"),
        unique_key: fields.text("unique_key"),
        unique_until: fields.parsed("unique_until", unique_until),
        on_conflict: fields.parsed("on_conflict", on_conflict),
        unique_for: fields.duration("unique_for"),
        idempotency_key: fields.text("idempotency_key"),
        concurrency_key: fields.text("concurrency_key"),
        max_attempts: fields.integer("max_attempts"),
        timeout: fields.duration("timeout"),
        tags: fields.texts("tags"),
        ..JobRequest::default()
    };
    (request, fields.end().err().unwrap_or_default())
}

fn unique_until(text: &str) -> Result<UniqueUntil, String> {
    let unknown = || format!("must be started or finished, not `{}`", shown(text));
    UniqueUntil::from_name(text).ok_or_else(unknown)
}

fn on_conflict(text: &str) -> Result<OnConflict, String> {
    match text {
        "replace" => Ok(OnConflict::Replace),
        "keep" => Ok(OnConflict::Keep),
        "reject" => Ok(OnConflict::Reject),
        other => Err(format!("must be replace, keep or reject, not `{}`", shown(other))),
    }
}

/// The schema of what [`job_request`] reads.
pub(crate) struct NewJob;

impl Shape for NewJob {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("NewJob", "A job to be enqueued; everything but the kind has a default.", |job| {
            job.required::<String>("kind", "`GET /v1/kinds` lists them");
            job.optional::<Value>("payload", "Any JSON, at most 1 MiB; {} by default");
            job.optional::<Priority>("priority", "0 is most urgent; the kind's by default");
            job.optional::<Moment>("run_at", "When it is due; a time in the past means now");
            job.optional::<Span>("delay", "Due after this long; not together with run_at");
            job.optional::<String>(
                "unique_key",
                "At most one job per key, until it has finished or, with unique_until, until it starts",
            );
            job.optional::<Until>(
                "unique_until",
                "How long the job keeps its unique key; finished by default. With started, another may wait while it runs",
            );
            job.optional::<Conflict>(
                "on_conflict",
                "What happens when another job has that key; keep by default. A job that runs is never replaced",
            );
            job.optional::<Span>(
                "unique_for",
                "For this long, another job with that key and a window is a duplicate, even if this one has finished",
            );
            job.optional::<String>(
                "idempotency_key",
                "Repeating the same key and body returns the first job",
            );
            job.optional::<String>(
                "concurrency_key",
                "Of the kind's jobs with this key only `key_concurrency` run at once; the others are blocked",
            );
            job.optional::<Attempts>("max_attempts", "All runs, including the first");
            job.optional::<Span>("timeout", "How long one run may take");
            job.optional::<Vec<String>>("tags", "Words to find the job by, at most 16");
        })
    }
}

macro_rules! described {
    ($($(#[$note:meta])* $name:ident = $schema:expr;)*) => {
        $($(#[$note])* pub(crate) struct $name;

        impl Shape for $name {
            fn schema(_: &mut Schemas) -> Value {
                $schema
            }
        })*
    };
}

described! {
    Priority = json!({ "type": "integer", "minimum": 0, "maximum": MAX_PRIORITY });
    Attempts = json!({ "type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS });
    Until = json!({ "type": "string", "enum": ["started", "finished"] });
    Conflict = json!({ "type": "string", "enum": ["replace", "keep", "reject"] });
    Moment = json!({ "type": "string", "format": "date-time" });
    Span = span();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<JobRequest, Invalid> {
        job_request(Fields::read(text.as_bytes(), "").unwrap())
    }

    #[test]
    fn unknown_fields_are_refused_and_numbers_are_exact() {
        let job = parse(r#"{"kind":"NOOP","payload":{"n":12345678901234567890123},"delay":"5m"}"#).unwrap();
        assert_eq!(job.payload, br#"{"n":12345678901234567890123}"#);
        assert_eq!(job.delay, Some(std::time::Duration::from_secs(300)));
        assert_eq!(parse(r#"{"kind":"NOOP","payload":null}"#).unwrap().payload, b"null");
        assert_eq!(parse(r#"{"kind":"NOOP"}"#).unwrap().payload, b"{}");
        let wrong = parse(r#"{"kind":"NOOP","delay":"-5m","on_conflict":"x","run_at":"soon","prio":1}"#);
        let fields: Vec<String> = wrong.unwrap_err().problems.into_iter().map(|p| p.field).collect();
        assert_eq!(fields, ["run_at", "delay", "on_conflict", "prio"]);
    }

    /// The OpenAPI document lists exactly the fields that are read.
    #[test]
    fn the_schema_has_the_fields_that_are_read() {
        let mut schemas = Schemas::default();
        NewJob::schema(&mut schemas);
        let schema = schemas.into_named().remove("NewJob").unwrap();
        let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let refused = parse(r#"{"kind":"NOOP","?":1}"#).unwrap_err().problems.remove(0).rule;
        let known: Vec<&str> = refused.split_once("known: ").unwrap().1.split(", ").collect();
        assert_eq!(properties, known);
    }
}
