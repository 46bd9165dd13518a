//! `audit list`.

use clap::{Args, Subcommand};

use super::{Json, Paging};

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass audit\n  windlass audit list --limit 10 --json\n\n\
    Kept are live changes of budgets, queues and kinds, whoever makes them.")]
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
    #[command(flatten)]
    pub(crate) paging: Paging,
    #[command(flatten)]
    pub(crate) json: Json,
}
