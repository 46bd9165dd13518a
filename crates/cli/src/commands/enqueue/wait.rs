//! Enqueues a job through a route and, with `--wait`, waits until it has finished.

use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_core::{JobState, duration};
use windlass_pack::api::{Api, ApiRequest};

use super::super::Session;
use crate::api::answer::{Answered, ask, items, text};
use crate::failure::{During, Failure};
use crate::output::visible;

/// The longest wait of a route; for a longer one, it is called again.
const LONGEST: Duration = Duration::from_secs(60);
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(500);
/// A running worker would have started the job by then.
const SOON: Duration = Duration::from_secs(2);

/// Sends a request that returns a job, and shows the job now or once it has finished.
pub(crate) async fn hand_in(
    session: &Session,
    api: &dyn Api,
    request: ApiRequest,
    what: &str,
    patience: Option<Duration>,
    json: bool,
) -> Result<(), Failure> {
    let Some(patience) = patience else {
        let answer = ask(api, request).await.during(what)?;
        return tell(session, &answer, json);
    };
    let waiting = wait(api, request, what, patience);
    let lonely = async {
        tokio::time::sleep(SOON).await;
        let workers = api.call(ApiRequest::get("/v1/workers", &[])).await;
        if workers.is_ok_and(|workers| items(&workers).is_empty()) {
            session
                .output
                .note("the job waits: no worker runs on this database; `windlass serve` starts one");
        }
        std::future::pending().await
    };
    let answer = tokio::select! {
        waited = waiting => waited?,
        never = lonely => never,
    };
    tell(session, &answer, json)?;
    ended(&answer.value, patience)
}

/// The job once it has finished, or when the time is up.
async fn wait(
    api: &dyn Api,
    request: ApiRequest,
    what: &str,
    patience: Duration,
) -> Result<Answered, Failure> {
    let begun = Instant::now();
    let seconds = patience.min(LONGEST).as_secs();
    let request = request.header("prefer", (seconds > 0).then(|| format!("wait={seconds}")));
    let mut answer = ask(api, request).await.during(what)?;
    let duplicate = answer.value["duplicate"].clone();
    let id = text(&answer.value, "id").to_owned();
    let mut pause = FIRST_LOOK;
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        if is_finished(&answer.value) || left.is_zero() {
            return Ok(answer);
        }
        tokio::time::sleep(left.min(pause)).await;
        pause = (pause * 2).min(LAST_LOOK);
        let looked = ask(api, ApiRequest::get("/v1/jobs/{id}", &[&id])).await;
        answer = looked.during("cannot wait for the job")?.with("duplicate", duplicate.clone());
    }
}

fn is_finished(job: &Value) -> bool {
    text(job, "state").parse::<JobState>().is_ok_and(JobState::is_finished)
}

fn tell(session: &Session, answer: &Answered, json: bool) -> Result<(), Failure> {
    if json {
        return answer.print(&session.output);
    }
    let job = &answer.value;
    let [id, kind, queue, state] = ["id", "kind", "queue", "state"].map(|field| visible(text(job, field)));
    let how = if job["duplicate"] == true { "was there already" } else { "enqueued" };
    session.output.line(format_args!("job {id} {how}: {kind} in {queue}, {state}"))
}

fn ended(job: &Value, patience: Duration) -> Result<(), Failure> {
    let (id, state) = (text(job, "id"), text(job, "state"));
    if !is_finished(job) {
        let why = format!("it is not finished after {}", duration::format(patience));
        let what = format!("job {id} was enqueued but not awaited to its end");
        return Err(Failure::new(what, why).hint(
            "it continues; `windlass workers` shows whether a worker is running, `windlass serve` starts a worker",
        ));
    }
    if state == JobState::Completed.name() {
        return Ok(());
    }
    let error = job["last_error"].as_str().unwrap_or("no error was recorded");
    Err(Failure::new(format!("job {id} ended as {state}"), error)
        .hint(format!("`windlass jobs show {id}` shows details")))
}
