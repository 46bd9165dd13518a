//! `audit list`.

use clap::{Args, Subcommand};

use super::Json;

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
    /// Most rows to print
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Go on where the last page ended
    #[arg(long, value_name = "ID")]
    pub(crate) cursor: Option<i64>,
    #[command(flatten)]
    pub(crate) json: Json,
}
