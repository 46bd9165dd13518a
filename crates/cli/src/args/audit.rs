//! `audit list`.

use clap::{Args, Subcommand};

use super::{Json, Paging};

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass audit\n  windlass audit list --limit 10 --json\n\n\
    Kept is every act of an operator, with what differs: live limits, jobs and dead letters, schedules, workflows,\n\
    types, budgets, clean-up, and what parts declare. `--act job` means every act on a job.")]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) verb: Option<AuditVerb>,
    #[command(flatten)]
    pub(crate) list: ListAudit,
}

#[derive(Subcommand)]
pub(crate) enum AuditVerb {
    /// Acts, newest first (also without a verb)
    List(ListAudit),
}

#[derive(Args)]
pub(crate) struct ListAudit {
    /// Only acts of this actor
    #[arg(long, value_name = "WHO")]
    pub(crate) actor: Option<String>,
    /// Only this act, such as job.cancel, or every act of a family: job
    #[arg(long, value_name = "ACT")]
    pub(crate) act: Option<String>,
    /// Only acts on this subject, such as queue/LOW
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// Only acts at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only acts before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) paging: Paging,
    #[command(flatten)]
    pub(crate) json: Json,
}
