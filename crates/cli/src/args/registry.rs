//! What `queues` and `kinds` take: the nouns of the registry, whose limits an operator changes live.

use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::Rate;
use windlass_core::store::Live;

use super::Json;
use super::value::{boost_after, bound, count, depth_cap, global_concurrency, key_concurrency, rate};

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
    /// Change limits at once, for every worker; configured goes back to what the configuration says
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the queue, in any case
        #[arg(value_name = "NAME")]
        name: String,
        /// Jobs that one process runs at once; with bounds, where it starts
        #[arg(long, value_name = "N|configured", group = "change", value_parser = count, allow_negative_numbers = true)]
        concurrency: Option<Live<u32>>,
        /// Lower bound between which each process moves its concurrency by itself; none removes both
        #[arg(long, value_name = "N|none|configured", group = "change", value_parser = bound,
              allow_negative_numbers = true)]
        concurrency_min: Option<Live<Option<u32>>>,
        /// Upper bound; the same number as the lower one fixes it
        #[arg(long, value_name = "N|none|configured", group = "change", value_parser = bound,
              allow_negative_numbers = true)]
        concurrency_max: Option<Live<Option<u32>>>,
        /// How many of the queue's resource one process has
        #[arg(long, value_name = "N|configured", group = "change", value_parser = count, allow_negative_numbers = true)]
        permits: Option<Live<u32>>,
        /// Waiting jobs above which enqueues are refused
        #[arg(long, value_name = "N|none|configured", group = "change", value_parser = depth_cap,
              allow_negative_numbers = true)]
        depth_cap: Option<Live<Option<u64>>>,
        /// Jobs that all processes together run at once
        #[arg(long, value_name = "N|none|configured", group = "change", value_parser = global_concurrency,
              allow_negative_numbers = true)]
        global_concurrency: Option<Live<Option<u32>>>,
        /// Jobs due for longer get a quarter of the slots whatever their priority
        #[arg(long, value_name = "DURATION|none|configured", group = "change", value_parser = boost_after)]
        boost_after: Option<Live<Option<Duration>>>,
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
    /// Change limits at once, for every worker
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// Name of the kind
        #[arg(value_name = "KIND")]
        name: String,
        /// Starts of all processes together: 500/s, 30/m, 1000/h, 25/d, none, or configured to go back
        #[arg(long, value_name = "RATE|none|configured", group = "change", value_parser = rate)]
        rate: Option<Live<Option<Rate>>>,
        /// How many of the kind's resource one process has
        #[arg(long, value_name = "N|configured", group = "change", value_parser = count, allow_negative_numbers = true)]
        permits: Option<Live<u32>>,
        /// Jobs with one concurrency key that all processes together run at once; configured goes back
        #[arg(long, value_name = "N|configured", group = "change", value_parser = key_concurrency,
            allow_negative_numbers = true)]
        key_concurrency: Option<Live<u16>>,
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
