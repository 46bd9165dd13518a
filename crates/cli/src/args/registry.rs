//! Arguments of `queues` and `kinds`, whose limits operators change live.

use clap::{Args, Subcommand};
use windlass_core::{KindSpec, QueueSpec};

use super::Json;
use super::limit::LimitArgs;

#[derive(Args)]
pub(crate) struct Queues {
    #[command(subcommand)]
    pub(crate) verb: Option<QueuesVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum QueuesVerb {
    /// Depth, running, oldest age, P95 against SLA (also without a verb)
    List(Json),
    /// Start no more jobs; running ones continue
    Pause(QueueNames),
    /// Start jobs again
    Resume(QueueNames),
    /// Change limits at once, for every worker; configured resets one to its configured value
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the queue, in any case
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        limits: LimitArgs<QueueSpec>,
        #[command(flatten)]
        json: Json,
    },
}

#[derive(Args)]
pub(crate) struct Kinds {
    #[command(subcommand)]
    pub(crate) verb: Option<KindsVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum KindsVerb {
    /// Queue, attempts, timeout and limits (also without a verb)
    List(Json),
    /// Change limits at once, for every worker; configured resets one to its configured value
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the kind
        #[arg(value_name = "KIND")]
        name: String,
        #[command(flatten)]
        limits: LimitArgs<KindSpec>,
        #[command(flatten)]
        json: Json,
    },
}

#[derive(Args)]
pub(crate) struct QueueNames {
    /// Names of queues, in any case
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}
