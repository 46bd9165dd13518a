//! `workflows list|show|cancel|retry|run`.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_core::input::shown;
use windlass_core::workflow::WorkflowState;
use windlass_core::{JobState, duration};
use windlass_pack::api::{Api, ApiRequest};

use super::Session;
use crate::api::answer::{Answered, ask, items, list as values, number, text, time};
use crate::args::{ListWorkflows, OneWorkflow, RunWorkflow, Workflows, WorkflowsVerb};
use crate::failure::{During, Failure};
use crate::output::job::seconds;
use crate::output::progress::Progress;
use crate::output::table::Table;
use crate::output::{Output, graph, more, visible};

/// One byte more than the route accepts, so that it refuses the file.
const MAX_FILE: u64 = (16 << 20) + 1;

const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(500);

pub(crate) async fn run(session: &Session, args: Workflows) -> Result<(), Failure> {
    match args.verb.unwrap_or(WorkflowsVerb::List(args.list)) {
        WorkflowsVerb::List(args) => list(session, &args).await,
        WorkflowsVerb::Show(args) => {
            let api = session.api().await?;
            print(&session.output, &find(api.as_ref(), &args.id.to_string()).await?, args.json.json)
        }
        WorkflowsVerb::Cancel(args) => change(session, &args, "/v1/workflows/{id}/cancel").await,
        WorkflowsVerb::Retry(args) => change(session, &args, "/v1/workflows/{id}/retry").await,
        WorkflowsVerb::Run(args) => start(session, &args).await,
    }
}

async fn list(session: &Session, args: &ListWorkflows) -> Result<(), Failure> {
    let api = session.api().await?;
    let request = ApiRequest::get("/v1/workflows", &[]).query("state", args.state);
    let answer = ask(api.as_ref(), args.paging.of(request)).await.during("cannot list workflows")?;
    if args.json.json {
        return answer.print(&session.output);
    }
    let found = items(&answer.value);
    if found.is_empty() {
        return session.output.line("no workflows match");
    }
    let mut table = Table::new(&["id", "name", "state", ">jobs", ">completed", ">waiting", "made", "ended"]);
    for workflow in found {
        let count = |field: &str| number(&workflow["counts"], field).to_string();
        let at = |field: &str| time(workflow, field).map(seconds).unwrap_or_default();
        let mut row: Vec<String> =
            ["id", "name", "state"].map(|field| text(workflow, field).to_owned()).to_vec();
        row.extend(["total", "completed", "waiting"].map(count));
        row.extend(["created_at", "ended_at"].map(at));
        table.row(row);
    }
    table.print(&session.output)?;
    more(&session.output, &answer.value);
    Ok(())
}

async fn change(session: &Session, args: &OneWorkflow, path: &str) -> Result<(), Failure> {
    let api = session.api().await?;
    let id = args.id.to_string();
    let changed = ask(api.as_ref(), ApiRequest::post(path, &[&id])).await;
    let changed = changed.during(format!("workflow {id} stays as it is"))?;
    print(&session.output, &changed, args.json.json)
}

async fn start(session: &Session, args: &RunWorkflow) -> Result<(), Failure> {
    let what = format!("cannot run the workflow of {}", shown(&args.file));
    let text_of_file = read(&args.file).during(what.clone())?;
    let api = session.api().await?;
    let request = ApiRequest::post("/v1/workflows", &[]).raw_json(text_of_file);
    let refused = |failure: Failure| failure.failed().or_hint("nothing was written");
    let mut answer = ask(api.as_ref(), request).await.during(what).map_err(refused)?;
    let mut waited = Ok(());
    if let Some(patience) = args.wait {
        answer = wait(session, api.as_ref(), answer, patience).await?;
        waited = completed(&answer.value, patience);
    }
    print(&session.output, &answer, args.json.json)?;
    waited
}

fn is_ended(workflow: &Value) -> bool {
    text(workflow, "state").parse::<WorkflowState>().is_ok_and(WorkflowState::is_ended)
}

/// Until it has ended or the time is up.
async fn wait(
    session: &Session,
    api: &dyn Api,
    mut answer: Answered,
    patience: Option<Duration>,
) -> Result<Answered, Failure> {
    let begun = Instant::now();
    let mut pause = FIRST_LOOK;
    let id = text(&answer.value, "id").to_owned();
    // Compensating jobs are added after a failure; the progress bar is about the work.
    let total = number(&answer.value["counts"], "total");
    let mut bar = Progress::new(session.output, "jobs", total);
    loop {
        let [all, waiting, live] =
            ["total", "waiting", "live"].map(|field| number(&answer.value["counts"], field));
        let ended = all.saturating_sub(waiting).saturating_sub(live).min(total);
        let left = patience.map(|patience| patience.saturating_sub(begun.elapsed()));
        if is_ended(&answer.value) || left == Some(Duration::ZERO) {
            bar.finish(ended);
            return Ok(answer);
        }
        bar.set(ended);
        tokio::time::sleep(left.map_or(pause, |left| left.min(pause))).await;
        pause = (pause * 2).min(LAST_LOOK);
        answer = find(api, &id).await?;
    }
}

fn completed(workflow: &Value, patience: Option<Duration>) -> Result<(), Failure> {
    let (id, state) = (text(workflow, "id"), text(workflow, "state"));
    if state == WorkflowState::Completed.name() {
        return Ok(());
    }
    if !is_ended(workflow) {
        let why = format!("it has not ended after {}", duration::format(patience.unwrap_or_default()));
        return Err(Failure::new(format!("workflow {id} was started but not awaited to its end"), why).hint(
            "it continues; `windlass workers` shows whether a worker is running, `windlass serve` starts a worker",
        ));
    }
    let bad = values(workflow, "jobs").iter().filter(|job| text(job, "state") != JobState::Completed.name());
    let named: Vec<String> =
        bad.map(|job| format!("{} is {}", visible(text(job, "name")), text(job, "state"))).collect();
    Err(Failure::new(format!("workflow {id} ended as {state}"), named.join(", "))
        .hint(format!("`windlass workflows show {id}` has the graph, `windlass jobs show JOB` the errors")))
}

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match file {
        "-" => std::io::stdin().lock().take(MAX_FILE).read_to_end(&mut text)?,
        file => std::fs::File::open(file)?.take(MAX_FILE).read_to_end(&mut text)?,
    };
    Ok(text)
}

async fn find(api: &dyn Api, id: &str) -> Result<Answered, Failure> {
    let found = ask(api, ApiRequest::get("/v1/workflows/{id}", &[id])).await;
    let found = found.during("cannot show the workflow");
    found.map_err(|failure| failure.or_hint("`windlass workflows` lists them"))
}

fn print(output: &Output, answer: &Answered, json: bool) -> Result<(), Failure> {
    match json {
        true => answer.print(output),
        false => graph::print(&answer.value, None, output),
    }
}
