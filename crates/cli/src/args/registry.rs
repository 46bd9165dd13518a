//! What `queues` and `kinds` take: the nouns of the registry, whose limits an operator changes live.

use clap::{Args, Subcommand};
use windlass_core::queue::Boost;

use super::Json;
use super::value::{
    DepthCap, GlobalConcurrency, RateBound, boost_after, depth_cap, global_concurrency, rate,
};

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
    /// Start no more jobs; those that run go on
    Pause(QueueNames),
    /// Start jobs again
    Resume(QueueNames),
    /// Change limits at once, for every worker
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the queue, in any case
        #[arg(value_name = "NAME")]
        name: String,
        /// Jobs that one process runs at once
        #[arg(long, value_name = "N", group = "change", value_parser = up_to_ten_thousand())]
        concurrency: Option<u32>,
        /// Lower bound between which each process moves its concurrency by itself
        #[arg(long, value_name = "N", group = "change", value_parser = up_to_ten_thousand())]
        concurrency_min: Option<u32>,
        /// Upper bound; the same number as the lower one fixes it
        #[arg(long, value_name = "N", group = "change", value_parser = up_to_ten_thousand())]
        concurrency_max: Option<u32>,
        /// How many of the queue's resource one process has
        #[arg(long, value_name = "N", group = "change", value_parser = up_to_ten_thousand())]
        permits: Option<u32>,
        /// Waiting jobs above which enqueues are refused
        #[arg(long, value_name = "N|none", group = "change", value_parser = depth_cap)]
        depth_cap: Option<DepthCap>,
        /// Jobs that all processes together run at once
        #[arg(long, value_name = "N|none", group = "change", value_parser = global_concurrency)]
        global_concurrency: Option<GlobalConcurrency>,
        /// Jobs due for longer get a quarter of the slots whatever their priority; configured goes back to the
        /// configuration's value
        #[arg(long, value_name = "DURATION|none|configured", group = "change", value_parser = boost_after)]
        boost_after: Option<Boost>,
        #[command(flatten)]
        json: Json,
    },
}

fn up_to_ten_thousand() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
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
    /// Change limits at once, for every worker
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the kind
        #[arg(value_name = "KIND")]
        name: String,
        /// Starts of all processes together: 500/s, 30/m, 1000/h, 25/d, or none
        #[arg(long, value_name = "RATE|none", group = "change", value_parser = rate)]
        rate: Option<RateBound>,
        /// How many of the kind's resource one process has
        #[arg(long, value_name = "N", group = "change", value_parser = up_to_ten_thousand())]
        permits: Option<u32>,
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
