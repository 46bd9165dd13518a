//! A job as a table row or a full page.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_core::Time;

use super::indent::indented;
use super::table::Table;
use super::{Output, graph, short, visible, visible_lines};
use crate::api::answer::{Answered, list, number, optional_text, text, texts, time};
use crate::failure::Failure;

pub(crate) fn table(jobs: &[Value]) -> Table {
    let mut table = Table::new(&["id", "kind", "queue", "state", ">attempt", "due or ended", "last error"]);
    for job in jobs {
        let when = ["finished_at", "run_at", "created_at"].iter().find_map(|field| time(job, field));
        table.row(vec![
            text(job, "id").to_owned(),
            text(job, "kind").to_owned(),
            text(job, "queue").to_owned(),
            text(job, "state").to_owned(),
            format!("{}/{}", number(job, "attempt"), number(job, "max_attempts")),
            when.map(seconds).unwrap_or_default(),
            short(text(job, "last_error"), 60),
        ]);
    }
    table
}

/// Values that parsing would round.
#[derive(Default, Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The output of `jobs show`.
pub(crate) fn page(answer: &Answered, output: &Output) -> Result<(), Failure> {
    let job = &answer.value;
    let [id, kind, queue] = ["id", "kind", "queue"].map(|field| visible(text(job, field)));
    output.line(format_args!("job {id} · {kind} in {queue}"))?;
    let fact = |name: &str, value: Option<String>| match value {
        Some(value) => output.line(format_args!("  {name:<14} {}", visible(&value))),
        None => Ok(()),
    };
    fact("state", Some(state(job)))?;
    fact("attempt", Some(format!("{} of {}", number(job, "attempt"), number(job, "max_attempts"))))?;
    fact("priority", Some(number(job, "priority").to_string()))?;
    fact("created", optional_text(job, "created_at"))?;
    fact("due", optional_text(job, "run_at"))?;
    fact("started", optional_text(job, "started_at"))?;
    fact("finished", optional_text(job, "finished_at"))?;
    let progress = job["progress"].as_object().map(|_| &job["progress"]);
    fact("progress", progress.map(|of| format!("{} % {}", of["percent"], text(of, "message"))))?;
    fact("unique key", optional_text(job, "unique_key"))?;
    fact("concurrency key", optional_text(job, "concurrency_key"))?;
    let tags = texts(job, "tags");
    fact("tags", (!tags.is_empty()).then(|| tags.join(", ")))?;
    let entity = job["entity"].as_object().map(|_| &job["entity"]);
    fact("entity", entity.map(|of| format!("{}:{}", text(of, "type"), text(of, "id"))))?;
    fact("last error", optional_text(job, "last_error"))?;
    fact("waits for", optional_text(job, "waits_for"))?;
    let body = answer.text();
    let raw: Raw<'_> = serde_json::from_str(&body).unwrap_or_default();
    if let Some(payload) = raw.payload {
        output.line(format_args!("  payload\n{}", block(payload)))?;
    }
    if let Some(result) = raw.result {
        output.line(format_args!("  result\n{}", block(result)))?;
    }
    runs(job, output)?;
    if job["graph"].is_object() {
        output.line("")?;
        graph::print(&job["graph"], Some(text(job, "id")), output)?;
    }
    Ok(())
}

fn state(job: &Value) -> String {
    let mut state = text(job, "state").to_owned();
    if job["cancel_requested"] == true {
        state.push_str(" (a cancel was asked for)");
    }
    let own = |member: &&Value| member["id"] == job["id"] && member["waiting"] == true;
    if list(&job["graph"], "jobs").iter().any(|member| own(&member)) {
        state.push_str(" (waits for others of its workflow)");
    }
    state
}

fn runs(job: &Value, output: &Output) -> Result<(), Failure> {
    let attempts = list(job, "attempts");
    if !attempts.is_empty() {
        let mut table = Table::new(&["attempt", "outcome", "worker", "started", "ended", "error"]);
        for attempt in attempts {
            let fields = ["outcome", "worker", "started_at", "ended_at", "error"];
            let mut row = vec![number(attempt, "attempt").to_string()];
            row.extend(fields.map(|field| text(attempt, field).to_owned()));
            table.row(row);
        }
        output.line("")?;
        table.print(output)?;
    }
    let logs = list(job, "logs");
    if !logs.is_empty() {
        output.line("")?;
    }
    for log in logs {
        let (at, line) = (visible(text(log, "at")), visible(text(log, "line")));
        output.line(format_args!("{at} [{}] {line}", number(log, "attempt")))?;
    }
    Ok(())
}

/// Stored JSON, indented.
fn block(json: &RawValue) -> String {
    let lines = visible_lines(&indented(json.get()));
    lines.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Without fractions of a second.
pub(crate) fn seconds(time: Time) -> String {
    Time(time.0.div_euclid(1_000_000) * 1_000_000).to_string()
}
