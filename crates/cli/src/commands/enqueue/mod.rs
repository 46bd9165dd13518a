//! `enqueue`: one job from flags, or many from lines.
//!
//! Owns reading a payload and waiting for the job's end. Everything is checked before anything is written.

mod bulk;
mod line;

use std::io::Read;
use std::time::Duration;

use windlass_core::input::{MAX_PAYLOAD_BYTES, shown};
use windlass_core::store::Enqueued;
use windlass_core::{JobId, JobRecord, JobState, OnConflict, duration};
use windlass_engine::{Client, JobRequest, Waited};
use windlass_http::view::{EnqueuedView, JobView};

use super::Session;
use crate::args;
use crate::failure::{During, Failure};
use crate::output::visible;

/// A worker that is there would have begun.
const SOON: Duration = Duration::from_secs(2);
const WHAT: &str = "cannot enqueue";

pub(crate) async fn run(session: &Session, args: &args::Enqueue) -> Result<(), Failure> {
    match (&args.bulk, &args.kind) {
        (Some(file), _) => bulk::run(session, file, args.json.json).await,
        (None, Some(kind)) => one(session, args, kind).await,
        (None, None) => Err(Failure::usage(WHAT, "no kind was named")),
    }
}

async fn one(session: &Session, args: &args::Enqueue, kind: &str) -> Result<(), Failure> {
    let request = JobRequest {
        kind: kind.to_owned(),
        payload: payload(WHAT, args.payload.as_deref())?,
        priority: args.priority,
        run_at: args.at,
        delay: args.delay,
        unique_key: args.unique_key.clone(),
        on_conflict: args.on_conflict,
        unique_for: args.unique_for,
        idempotency_key: args.idempotency_key.clone(),
        concurrency_key: args.concurrency_key.clone(),
        max_attempts: args.max_attempts,
        timeout: args.timeout,
        tags: args.tag.clone(),
        ..JobRequest::default()
    };
    let client = session.writer().await?;
    let enqueued = client.enqueue(request).await.during(WHAT)?;
    answer(session, &client, enqueued, args.wait, args.json.json).await
}

/// The job as it is, or as it is once it has finished.
pub(super) async fn answer(
    session: &Session,
    client: &Client,
    enqueued: Enqueued,
    patience: Option<Duration>,
    json: bool,
) -> Result<(), Failure> {
    match patience {
        Some(patience) => wait(session, client, enqueued.id, enqueued.duplicate, patience, json).await,
        None => {
            let detail = client.store().job(enqueued.id).await.during("cannot read the job back")?;
            let Some(detail) = detail else { return Err(gone(enqueued.id)) };
            tell(session, &detail.job, enqueued.duplicate, json)
        }
    }
}

fn tell(session: &Session, job: &JobRecord, duplicate: bool, json: bool) -> Result<(), Failure> {
    if json {
        return session.output.json(&EnqueuedView { job: JobView::from(job), duplicate });
    }
    let (kind, queue) = (visible(&job.kind), visible(&job.queue));
    let how = if duplicate { "was there already" } else { "enqueued" };
    session.output.line(format_args!("job {} {how}: {kind} in {queue}, {}", job.id, job.state))
}

async fn wait(
    session: &Session,
    client: &Client,
    id: JobId,
    duplicate: bool,
    patience: Duration,
    json: bool,
) -> Result<(), Failure> {
    let waiting = async { client.wait(id, patience).await.during("cannot wait for the job") };
    let lonely = async {
        tokio::time::sleep(SOON).await;
        if client.store().workers().await.is_ok_and(|workers| workers.is_empty()) {
            session.output.note(format_args!(
                "job {id} waits: no worker runs on this database; `windlass serve` starts one"
            ));
        }
        std::future::pending().await
    };
    let waited = tokio::select! {
        waited = waiting => waited?,
        never = lonely => never,
    };
    match waited {
        Waited::Finished(job) => {
            tell(session, &job, duplicate, json)?;
            if job.state == JobState::Completed {
                return Ok(());
            }
            let error = job.last_error.as_deref().unwrap_or("no error was recorded");
            Err(Failure::new(format!("job {id} ended as {}", job.state), error)
                .hint(format!("`windlass jobs show {id}` tells more")))
        }
        Waited::TimedOut => {
            if let Some(detail) = client.store().job(id).await.during("cannot read the job back")? {
                tell(session, &detail.job, duplicate, json)?;
            }
            let why = format!("it is not finished after {}", duration::format(patience));
            Err(Failure::new(format!("job {id} was enqueued but not awaited to its end"), why).hint(
                "it goes on; `windlass workers` shows whether anybody works, `windlass serve` starts a worker",
            ))
        }
        Waited::Unknown => Err(gone(id)),
    }
}

fn gone(id: JobId) -> Failure {
    Failure::new(format!("job {id} cannot be shown"), "it was deleted meanwhile")
}

/// JSON text, the content of a file, or standard input; nothing is `{}`.
pub(super) fn payload(what: &str, text: Option<&str>) -> Result<Vec<u8>, Failure> {
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
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        return Err(refuse(format!("is not JSON: {error}")));
    }
    Ok(bytes)
}

/// One byte more than is allowed is enough to know.
fn read(source: impl Read, from: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source
        .take(MAX_PAYLOAD_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .during(format!("cannot read {from}"))?;
    Ok(bytes)
}

pub(crate) fn on_conflict(text: &str) -> Result<OnConflict, String> {
    match text {
        "replace" => Ok(OnConflict::Replace),
        "keep" => Ok(OnConflict::Keep),
        "reject" => Ok(OnConflict::Reject),
        other => Err(format!("must be replace, keep or reject, not `{}`", shown(other))),
    }
}
