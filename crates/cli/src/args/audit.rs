//! `audit list`.

use clap::{Args, Subcommand};

use super::{Json, Paging};

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass audit\n  windlass audit list --limit 10 --json\n\n\
    Every action of an operator is recorded, with what changed: live limits, jobs and dead letters, schedules, workflows,\n\
    types, budgets, cleanup, and what parts declare. `--act job` matches every action on a job.")]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) verb: Option<AuditVerb>,
    #[command(flatten)]
    pub(crate) list: ListAudit,
}

#[derive(Subcommand)]
pub(crate) enum AuditVerb {
    /// Audit records, newest first (also without a verb)
    List(ListAudit),
}

#[derive(Args)]
pub(crate) struct ListAudit {
    /// Only actions of this actor
    #[arg(long, value_name = "WHO")]
    pub(crate) actor: Option<String>,
    /// Only this action, such as job.cancel, or all actions with a prefix: job
    #[arg(long, value_name = "ACT")]
    pub(crate) act: Option<String>,
    /// Only actions on this subject, such as queue/LOW
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// Only actions at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only actions before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) paging: Paging,
    #[command(flatten)]
    pub(crate) json: Json,
}
