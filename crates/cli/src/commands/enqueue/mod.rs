//! `enqueue`: one job from options, or many from lines. The route validates them.

mod bulk;
mod input;
mod wait;

use std::io::Read;

use serde::Serialize;
use serde_json::value::RawValue;
use windlass_core::input::{MAX_PAYLOAD_BYTES, shown};
use windlass_pack::api::ApiRequest;

use super::Session;
use crate::api::exact;
use crate::args;
use crate::failure::{During, Failure};
pub(super) use wait::hand_in;

const WHAT: &str = "cannot enqueue";

/// The object of `POST /v1/jobs`; missing options are left out.
#[derive(Serialize)]
struct NewJob<'a> {
    kind: &'a str,
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_until: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_conflict: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
}

pub(crate) async fn run(session: &Session, args: &args::Enqueue) -> Result<(), Failure> {
    match (&args.bulk, &args.kind) {
        (Some(file), _) => bulk::run(session, file, args.json.json).await,
        (None, Some(kind)) => one(session, args, kind).await,
        (None, None) => Err(Failure::usage(WHAT, "no kind was named")),
    }
}

async fn one(session: &Session, args: &args::Enqueue, kind: &str) -> Result<(), Failure> {
    let job = NewJob {
        kind,
        payload: payload(WHAT, args.payload.as_deref())?,
        priority: args.priority,
        run_at: args.at.map(|at| at.to_string()),
        delay: args.delay.map(exact),
        unique_key: args.unique_key.as_deref(),
        unique_until: args.unique_until.as_deref(),
        on_conflict: args.on_conflict.as_deref(),
        unique_for: args.unique_for.map(exact),
        idempotency_key: args.idempotency_key.as_deref(),
        concurrency_key: args.concurrency_key.as_deref(),
        max_attempts: args.max_attempts,
        timeout: args.timeout.map(exact),
        tags: &args.tag,
    };
    let body = serde_json::to_vec(&job).map_err(|error| Failure::new(WHAT, error))?;
    let api = session.creating_api().await?;
    let request = ApiRequest::post("/v1/jobs", &[]).raw_json(body);
    hand_in(session, api.as_ref(), request, WHAT, args.wait, args.json.json).await
}

/// JSON text, the content of a file, or standard input; `{}` by default.
pub(super) fn payload(what: &str, text: Option<&str>) -> Result<Box<RawValue>, Failure> {
    let text = text.unwrap_or("{}");
    let (bytes, from) = match text.strip_prefix('@') {
        Some(file) => {
            let from = format!("the payload file {}", shown(file));
            let opened = std::fs::File::open(file).during(format!("cannot read {from}"))?;
            (read(opened, &from)?, from)
        }
        None if text == "-" => {
            let from = "the payload on standard input".to_owned();
            (read(std::io::stdin().lock(), &from)?, from)
        }
        None => (text.as_bytes().to_vec(), "the payload".to_owned()),
    };
    let refuse = |why: String| Failure::new(what, format!("{from} {why}")).hint("nothing was written");
    if bytes.len() > MAX_PAYLOAD_BYTES {
        return Err(refuse(format!("is larger than {MAX_PAYLOAD_BYTES} bytes (1 MiB)")));
    }
    serde_json::from_slice(&bytes).map_err(|error| refuse(format!("is not JSON: {error}")))
}

/// Reads one byte more than allowed, to detect a payload that is too large.
fn read(source: impl Read, from: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source
        .take(MAX_PAYLOAD_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .during(format!("cannot read {from}"))?;
    Ok(bytes)
}
