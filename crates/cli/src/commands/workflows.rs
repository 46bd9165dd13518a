//! `workflows list|show|cancel|retry|run`.

use std::io::Read;
use std::time::{Duration, Instant};

use windlass_core::input::shown;
use windlass_core::store::{Bulk, WorkflowDetail, WorkflowFilter};
use windlass_core::workflow::WorkflowState;
use windlass_core::{JobState, WorkflowId, duration};
use windlass_engine::Client;
use windlass_engine::bulk::touched;
use windlass_http::view::{ListView, WorkflowDetailView, WorkflowView};
use windlass_http::workflow_request;

use super::{Session, line};
use crate::args::{ListWorkflows, OneWorkflow, RunWorkflow, Workflows, WorkflowsVerb};
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::progress::Progress;
use crate::output::table::Table;
use crate::output::{Output, graph, visible};

/// A thousand jobs with payloads of some size; each payload is checked on its own.
const MAX_FILE: u64 = 64 << 20;

const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(500);

pub(crate) async fn run(session: &Session, args: Workflows) -> Result<(), Failure> {
    match args.verb.unwrap_or(WorkflowsVerb::List(args.list)) {
        WorkflowsVerb::List(args) => list(session, &args).await,
        WorkflowsVerb::Show(args) => {
            let client = session.client().await?;
            print(&session.output, &find(&client, args.id).await?, args.json.json)
        }
        WorkflowsVerb::Cancel(args) => {
            let client = session.client().await?;
            let done = client.store().cancel_workflow(WorkflowId(args.id)).await;
            let needs = "cancel needs one that has not ended";
            changed(session, &client, &args, done.during("cannot cancel the workflow")?, needs).await
        }
        WorkflowsVerb::Retry(args) => {
            let client = session.client().await?;
            let done = client.store().retry_workflow(WorkflowId(args.id)).await;
            let needs = "retry needs jobs that failed, died or were cancelled, and none that were undone";
            changed(session, &client, &args, done.during("cannot retry the workflow")?, needs).await
        }
        WorkflowsVerb::Run(args) => start(session, &args).await,
    }
}

async fn list(session: &Session, args: &ListWorkflows) -> Result<(), Failure> {
    let client = session.client().await?;
    let before = args.paging.cursor.map(WorkflowId);
    let filter = WorkflowFilter { state: args.state, before, limit: args.paging.asked() };
    let mut found = client.store().workflows(&filter).await.during("cannot list workflows")?;
    let next_cursor = args.paging.cut(&mut found, |record| record.id.to_string());
    if args.json.json {
        let items = found.iter().map(WorkflowView::from).collect();
        return session.output.json(&ListView { items, next_cursor });
    }
    if found.is_empty() {
        return session.output.line("no workflows match");
    }
    let mut table = Table::new(&["id", "name", "state", ">jobs", ">completed", ">waiting", "made", "ended"]);
    for record in &found {
        table.row(vec![
            record.id.to_string(),
            record.name.clone().unwrap_or_default(),
            record.state.name().to_owned(),
            record.counts.total().to_string(),
            record.counts.completed.to_string(),
            record.counts.waiting.to_string(),
            seconds(record.created_at),
            record.ended_at.map(seconds).unwrap_or_default(),
        ]);
    }
    table.print(&session.output)?;
    if let Some(cursor) = next_cursor {
        session.output.note(format_args!("more with --cursor {cursor}"));
    }
    Ok(())
}

async fn start(session: &Session, args: &RunWorkflow) -> Result<(), Failure> {
    let what = format!("cannot run the workflow of {}", shown(&args.file));
    let refused = |why: String| Failure::new(what.clone(), why).hint("nothing was written");
    let text = read(&args.file).during(what.clone())?;
    if text.len() as u64 > MAX_FILE {
        return Err(refused(format!("it is larger than {} MiB", MAX_FILE >> 20)));
    }
    let fields = line::fields(&text).map_err(refused)?;
    let request = workflow_request(fields).map_err(|invalid| refused(invalid.to_string()))?;
    let client = session.writer().await?;
    let started = client.enqueue_workflow(request).await.during(what)?;
    let (detail, waited) = match args.wait {
        None => (find(&client, started.id.0).await?, Ok(())),
        Some(patience) => {
            let detail = wait(session, &client, started.id, patience).await?;
            let waited = completed(&detail, patience);
            (detail, waited)
        }
    };
    print(&session.output, &detail, args.json.json)?;
    waited
}

/// Until it has ended or the time is up.
async fn wait(
    session: &Session,
    client: &Client,
    id: WorkflowId,
    patience: Option<Duration>,
) -> Result<WorkflowDetail, Failure> {
    let begun = Instant::now();
    let mut pause = FIRST_LOOK;
    let mut detail = find(client, id.0).await?;
    // Jobs that undo others come on top when something failed; the bar is about the work.
    let total = detail.workflow.counts.total();
    let mut bar = Progress::new(session.output, "jobs", total);
    loop {
        let counts = &detail.workflow.counts;
        let ended = (counts.total() - counts.waiting - counts.live).min(total);
        let left = patience.map(|patience| patience.saturating_sub(begun.elapsed()));
        if detail.workflow.state.is_ended() || left == Some(Duration::ZERO) {
            bar.finish(ended);
            return Ok(detail);
        }
        bar.set(ended);
        tokio::time::sleep(left.map_or(pause, |left| left.min(pause))).await;
        pause = (pause * 2).min(LAST_LOOK);
        detail = find(client, id.0).await?;
    }
}

fn completed(detail: &WorkflowDetail, patience: Option<Duration>) -> Result<(), Failure> {
    let WorkflowDetail { workflow, members } = detail;
    let id = workflow.id;
    if workflow.state == WorkflowState::Completed {
        return Ok(());
    }
    if !workflow.state.is_ended() {
        let why = format!("it has not ended after {}", duration::format(patience.unwrap_or_default()));
        return Err(Failure::new(format!("workflow {id} was started but not awaited to its end"), why).hint(
            "it goes on; `windlass workers` shows whether anybody works, `windlass serve` starts a worker",
        ));
    }
    let bad = members.iter().filter(|member| member.state != JobState::Completed);
    let named: Vec<String> =
        bad.map(|member| format!("{} is {}", visible(&member.name), member.state)).collect();
    Err(Failure::new(format!("workflow {id} ended as {}", workflow.state), named.join(", "))
        .hint(format!("`windlass workflows show {id}` has the graph, `windlass jobs show JOB` the errors")))
}

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than is allowed is enough to know.
    match file {
        "-" => std::io::stdin().lock().take(MAX_FILE + 1).read_to_end(&mut text)?,
        file => std::fs::File::open(file)?.take(MAX_FILE + 1).read_to_end(&mut text)?,
    };
    Ok(text)
}

async fn changed(
    session: &Session,
    client: &Client,
    args: &OneWorkflow,
    done: Option<Bulk>,
    needs: &str,
) -> Result<(), Failure> {
    let done = done.ok_or_else(|| missing(args.id))?;
    let found = find(client, args.id).await?;
    if touched(&done) == 0 {
        let what = format!("workflow {} stays as it is", args.id);
        return Err(Failure::new(what, format!("it is {}; {needs}", found.workflow.state)));
    }
    print(&session.output, &found, args.json.json)
}

async fn find(client: &Client, id: i64) -> Result<WorkflowDetail, Failure> {
    let found = client.store().workflow(WorkflowId(id)).await.during("cannot read the workflow")?;
    found.ok_or_else(|| missing(id))
}

fn missing(id: i64) -> Failure {
    Failure::new(format!("there is no workflow {id} here"), "it may have been cleaned up")
        .hint("`windlass workflows` lists what is there")
}

fn print(output: &Output, detail: &WorkflowDetail, json: bool) -> Result<(), Failure> {
    match json {
        true => output.json(&WorkflowDetailView::from(detail)),
        false => graph::print(detail, None, output),
    }
}
