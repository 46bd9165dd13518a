//! `workflows list|show|cancel|retry|run`.

use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::workflow::{UnknownWorkflowState, WorkflowState};

use super::value::patience;
use super::{Json, Paging};

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass workflows --state failed\n  \
    windlass workflows run examples/order.json --wait\n  \
    echo '{\"jobs\": [{\"name\": \"a\", \"kind\": \"NOOP\"}]}' | windlass workflows run -\n  \
    windlass workflows show 7466421690327171072\n  \
    windlass workflows retry 7466421690327171072")]
pub(crate) struct Workflows {
    #[command(subcommand)]
    pub(crate) verb: Option<WorkflowsVerb>,
    #[command(flatten)]
    pub(crate) list: ListWorkflows,
}

#[derive(Subcommand)]
pub(crate) enum WorkflowsVerb {
    /// Workflows, newest first (also without a verb)
    List(ListWorkflows),
    /// One workflow as a graph of its jobs
    Show(OneWorkflow),
    /// Cancel all jobs that have not ended; workers of running ones are asked to stop
    Cancel(OneWorkflow),
    /// Retry all jobs that failed, died or were cancelled
    Retry(OneWorkflow),
    /// Enqueue the workflow in a file, all or nothing
    #[command(after_help = "A file is the object of POST /v1/workflows:\n\n  \
        {\"name\": \"order\", \"on_failure\": \"compensate\", \"jobs\": [\n    \
        {\"name\": \"charge\", \"kind\": \"CHARGE\", \"compensate\": {\"kind\": \"REFUND\"}},\n    \
        {\"name\": \"ship\", \"kind\": \"SHIP\", \"after\": [\"charge\"]}]}\n\n\
        on_failure: stop cancels what comes after a failed job, continue runs it\n\
        anyway, compensate stops and then undoes completed jobs from the end.\n\n\
        With --wait it exits with 1 unless the workflow ends as completed.\n\n\
        Examples:\n  \
        windlass workflows run examples/order.json\n  \
        windlass workflows run examples/order.json --wait\n  \
        windlass workflows run examples/order.json --wait 300 --json")]
    Run(RunWorkflow),
}

#[derive(Args)]
pub(crate) struct ListWorkflows {
    /// Only this state: running, completed, failed, cancelled, compensating or compensated
    #[arg(long, value_name = "STATE", value_parser = workflow_state)]
    pub(crate) state: Option<WorkflowState>,
    #[command(flatten)]
    pub(crate) paging: Paging,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct OneWorkflow {
    /// Id of the workflow
    #[arg(value_name = "ID")]
    pub(crate) id: i64,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct RunWorkflow {
    /// JSON, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Wait until the workflow has ended, at most SECONDS if given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, value_parser = patience)]
    pub(crate) wait: Option<Option<Duration>>,
    #[command(flatten)]
    pub(crate) json: Json,
}

fn workflow_state(text: &str) -> Result<WorkflowState, String> {
    text.parse().map_err(|error: UnknownWorkflowState| error.to_string())
}
