//! A job as people see it: a table row and the full page. Programs get `windlass_http::view`.

use windlass_core::store::{JobDetail, WorkflowDetail};
use windlass_core::{JobRecord, Time};

use super::table::Table;
use super::{Output, graph, short, visible, visible_lines};
use crate::failure::Failure;

pub(crate) fn table(jobs: &[JobRecord]) -> Table {
    let mut table = Table::new(&["id", "kind", "queue", "state", ">attempt", "due or ended", "last error"]);
    for job in jobs {
        let when = job.finished_at.or(job.run_at).unwrap_or(job.created_at);
        table.row(vec![
            job.id.to_string(),
            job.kind.clone(),
            job.queue.clone(),
            job.state.name().to_owned(),
            format!("{}/{}", job.attempt, job.max_attempts),
            seconds(when),
            short(job.last_error.as_deref().unwrap_or(""), 60),
        ]);
    }
    table
}

/// The full page of `jobs show`.
pub(crate) fn page(
    detail: &JobDetail,
    workflow: Option<&WorkflowDetail>,
    output: &Output,
) -> Result<(), Failure> {
    let job = &detail.job;
    output.line(format_args!("job {} · {} in {}", job.id, visible(&job.kind), visible(&job.queue)))?;
    let mut state = job.state.name().to_owned();
    if detail.cancel_requested {
        state.push_str(" (a cancel was asked for)");
    }
    let fact = |name: &str, value: Option<String>| match value {
        Some(value) => output.line(format_args!("  {name:<14} {}", visible(&value))),
        None => Ok(()),
    };
    let time = |time: Option<Time>| time.map(|time| time.to_string());
    if workflow.is_some_and(|w| w.members.iter().any(|member| member.job == job.id && member.waits)) {
        state.push_str(" (waits for others of its workflow)");
    }
    fact("state", Some(state))?;
    fact("attempt", Some(format!("{} of {}", job.attempt, job.max_attempts)))?;
    fact("priority", Some(job.priority.to_string()))?;
    fact("created", Some(job.created_at.to_string()))?;
    fact("due", time(job.run_at))?;
    fact("started", time(job.started_at))?;
    fact("finished", time(job.finished_at))?;
    fact(
        "progress",
        job.progress.as_ref().map(|p| format!("{} % {}", p.percent, p.message.as_deref().unwrap_or(""))),
    )?;
    fact("unique key", job.unique_key.clone())?;
    fact("concurrency key", job.concurrency_key.clone())?;
    fact("tags", (!job.tags.is_empty()).then(|| job.tags.join(", ")))?;
    fact("entity", job.entity.as_ref().map(|e| format!("{}:{}", e.entity_type, e.entity_id)))?;
    fact("last error", job.last_error.clone())?;
    output.line(format_args!("  payload\n{}", block(&job.payload)))?;
    if let Some(result) = &job.result {
        output.line(format_args!("  result\n{}", block(result)))?;
    }
    runs(detail, output)?;
    if let Some(workflow) = workflow {
        output.line("")?;
        graph::print(workflow, Some(job.id), output)?;
    }
    Ok(())
}

fn runs(detail: &JobDetail, output: &Output) -> Result<(), Failure> {
    if !detail.attempts.is_empty() {
        let mut table = Table::new(&["attempt", "outcome", "worker", "started", "ended", "error"]);
        for attempt in &detail.attempts {
            table.row(vec![
                attempt.attempt.to_string(),
                attempt.outcome.clone(),
                attempt.worker.map(|worker| worker.to_string()).unwrap_or_default(),
                attempt.started_at.to_string(),
                attempt.ended_at.map(|at| at.to_string()).unwrap_or_default(),
                attempt.error.clone().unwrap_or_default(),
            ]);
        }
        output.line("")?;
        table.print(output)?;
    }
    if !detail.logs.is_empty() {
        output.line("")?;
    }
    for log in &detail.logs {
        output.line(format_args!("{} [{}] {}", log.at, log.attempt, visible(&log.line)))?;
    }
    Ok(())
}

/// Stored JSON, indented; anything else as text.
fn block(bytes: &[u8]) -> String {
    let pretty = serde_json::from_slice::<serde_json::Value>(bytes)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned());
    visible_lines(&pretty).lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// A time without its fraction.
pub(crate) fn seconds(time: Time) -> String {
    Time(time.0.div_euclid(1_000_000) * 1_000_000).to_string()
}
