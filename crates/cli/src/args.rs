//! The command line: every verb, option and help text.
//!
//! Owns the spelling of arguments and their allowed values. Runs nothing.

mod audit;
mod backup;
mod budgets;
mod examples;
mod limit;
mod paging;
mod registry;
mod schedules;
mod server;
mod top;
mod value;
mod workflows;

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use windlass_core::{EntityRef, JobState, Time};

use crate::api::verbs::{self, Chosen};
pub(crate) use audit::{Audit, AuditVerb, ListAudit};
pub(crate) use backup::{Backup, BackupVerb, Restore};
pub(crate) use budgets::{Budgets, BudgetsVerb};
pub(crate) use paging::Paging;
pub(crate) use registry::{Kinds, KindsVerb, Queues, QueuesVerb};
pub(crate) use schedules::{
    CalendarAt, NextTicks, OneSchedule, PutSchedule, RunSchedule, ScheduleNames, Schedules, SchedulesVerb,
};
pub(crate) use top::Top;
use value::{duration_of, entity, lease, patience, state, time_of};
pub(crate) use workflows::{ListWorkflows, OneWorkflow, RunWorkflow, Workflows, WorkflowsVerb};

#[derive(Parser)]
#[command(
    name = "windlass",
    version,
    about = "Durable jobs and search by meaning: what was accepted is never lost",
    after_help = examples::TOP,
    max_term_width = 110
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What was typed: a built-in verb, or one of a part.
pub(crate) struct Typed {
    pub(crate) global: Global,
    pub(crate) what: What,
}

pub(crate) enum What {
    Own(Box<Verb>),
    Part(Box<Chosen>),
}

impl Typed {
    /// Exits with the help, the version, or code 2 and an error.
    pub(crate) fn read(of_parts: &[windlass_pack::verb::Verb]) -> Typed {
        let matches = verbs::extend(command(), of_parts).get_matches();
        refuse_misplaced(&matches);
        if let Some(chosen) = verbs::chosen(of_parts, &matches) {
            return match Global::from_arg_matches(&matches) {
                Ok(global) => Typed { global, what: What::Part(Box::new(chosen)) },
                Err(error) => error.exit(),
            };
        }
        match Cli::from_arg_matches(&matches) {
            Ok(Cli { global, verb }) => Typed { global, what: What::Own(Box::new(verb)) },
            Err(error) => error.exit(),
        }
    }
}

/// The command line without verbs of parts.
pub(crate) fn command() -> clap::Command {
    server::offered(Cli::command())
}

/// Nouns and verbs that no part may use.
pub(crate) fn own_verbs() -> Vec<String> {
    Cli::command().get_subcommands().map(|noun| noun.get_name().to_owned()).collect()
}

/// A bare noun takes the options of `list`, so `jobs --state failed count` would parse and mean something else. Only
/// global options may come between a noun and its verb.
fn refuse_misplaced(matches: &clap::ArgMatches) {
    let Some((noun, within)) = matches.subcommand() else { return };
    let Some((verb, _)) = within.subcommand() else { return };
    let given = |id: &&clap::Id| within.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    if within.ids().filter(given).any(|id| !matches!(id.as_str(), "database" | "config" | "server")) {
        let text = format!("options go after the verb: windlass {noun} {verb} [OPTIONS]");
        Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
    }
}

#[derive(Args)]
pub(crate) struct Global {
    /// sqlite://PATH or postgres://… [default: sqlite://./windlass-data/windlass.db, or the database of a server
    /// running here]
    #[arg(long, global = true, value_name = "URL", help_heading = "Everywhere")]
    pub(crate) database: Option<String>,
    /// Configuration file [default: ./windlass.toml if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Call this server instead of opening the database, with the key in WINDLASS_TOKEN; also WINDLASS_SERVER
    #[arg(long, global = true, value_name = "URL", help_heading = "Everywhere")]
    pub(crate) server: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// The HTTP interface, the dashboard and workers for every queue, until stopped
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Run jobs of some queues until stopped
    #[command(after_help = examples::WORKER)]
    Worker(Worker),
    /// See it work: index a shop's catalogue, search it by meaning, and serve it
    #[command(after_help = examples::DEMO)]
    Demo(Demo),
    /// Migrate the database's schema up or down, or show its version
    #[command(after_help = examples::MIGRATE)]
    Migrate(Migrate),
    /// Enqueue one job, or a file of them
    #[command(after_help = examples::ENQUEUE)]
    Enqueue(Box<Enqueue>),
    /// Show jobs and act on them
    #[command(after_help = examples::JOBS)]
    Jobs(Jobs),
    /// Show queues, pause them, change their limits
    #[command(after_help = examples::QUEUES)]
    Queues(Queues),
    /// The kinds of job this database knows, and their limits
    #[command(after_help = examples::KINDS)]
    Kinds(Kinds),
    /// The worker processes alive now
    #[command(after_help = examples::WORKERS)]
    Workers(Noun),
    /// Money and tokens per month: show them, change a limit, reset a month
    Budgets(Budgets),
    /// What operators changed: who, when, before and after
    Audit(Audit),
    /// Jobs that will not run again unless they are replayed
    #[command(after_help = examples::DEAD_LETTERS)]
    DeadLetters(DeadLetters),
    /// Recurring jobs: show schedules, change them, preview their ticks
    Schedules(Schedules),
    /// Jobs that run after others: start a workflow, show it, cancel or retry it
    Workflows(Workflows),
    /// Remove data past its retention time
    #[command(after_help = examples::CLEANUP)]
    Cleanup(Cleanup),
    /// Back up to a file while others work, or list the backups
    Backup(Backup),
    /// Restore a backup into an empty database, SQLite or Postgres
    #[command(after_help = examples::RESTORE)]
    Restore(Restore),
    /// Look for problems and say how to fix them
    #[command(after_help = examples::DOCTOR)]
    Doctor(Json),
    /// Show the effective configuration, or write a commented file
    #[command(after_help = examples::CONFIG)]
    Config(ConfigNoun),
    /// Queues, workers and failures, live
    Top(Top),
    /// Benchmark this machine
    #[command(after_help = examples::BENCH)]
    Bench(Bench),
    /// Print the OpenAPI 3.1 document of the HTTP interface, as served at /openapi.json
    #[command(after_help = examples::OPENAPI)]
    Openapi {
        /// On one line, byte for byte as it is served
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args, Clone, Copy)]
pub(crate) struct Json {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Running {
    /// Migrate the schema first
    #[arg(long)]
    pub(crate) migrate: bool,
    /// Also run the kind ABORT, which kills this process (for trying out crashes)
    #[arg(long)]
    pub(crate) allow_abort: bool,
    /// How long this process may be silent before others take its jobs
    #[arg(long, value_name = "DURATION", hide_short_help = true, value_parser = lease)]
    pub(crate) lease: Option<String>,
}

#[derive(Args)]
pub(crate) struct Serve {
    /// Address of the HTTP interface and the dashboard [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) bind: Option<String>,
    #[command(flatten)]
    pub(crate) running: Running,
}

#[derive(Args)]
pub(crate) struct Worker {
    /// Queues to serve, separated by commas; all by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,
    #[command(flatten)]
    pub(crate) running: Running,
}

#[derive(Args)]
pub(crate) struct Demo {
    /// End after the searches instead of serving
    #[arg(long)]
    pub(crate) no_serve: bool,
    /// Address of the HTTP interface and the dashboard [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "no_serve")]
    pub(crate) bind: Option<String>,
}

#[derive(Args)]
pub(crate) struct Migrate {
    #[command(subcommand)]
    pub(crate) verb: MigrateVerb,
}

#[derive(Subcommand)]
pub(crate) enum MigrateVerb {
    /// Apply every migration that is missing
    Up(Json),
    /// Revert every migration above a version; data in its tables is lost
    Down {
        /// The version to go back to; 0 removes everything
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
        to: Option<i64>,
        /// Only the tables of this part; all of them without --to
        #[arg(long, value_name = "PART")]
        pack: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Show every migration and when it was applied
    Status(Json),
}

#[derive(Args)]
pub(crate) struct Enqueue {
    /// Kind of the job; `windlass kinds` lists them
    #[arg(value_name = "KIND", required_unless_present = "bulk", conflicts_with = "bulk")]
    pub(crate) kind: Option<String>,
    /// One job per line from a file, or from standard input with -
    #[arg(long, value_name = "FILE.ndjson", conflicts_with_all = ["payload", "priority", "delay", "at", "unique_key",
        "unique_until", "on_conflict", "unique_for", "idempotency_key", "concurrency_key", "max_attempts", "timeout", "tag", "wait"])]
    pub(crate) bulk: Option<PathBuf>,
    /// JSON text, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// 0 (most urgent) to 10
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// Start after this delay
    #[arg(long = "in", value_name = "DURATION", value_parser = duration_of, allow_hyphen_values = true, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Start at this time, such as 2026-01-31T15:04:05Z
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    pub(crate) at: Option<Time>,
    /// At most one job per key, until it has finished
    #[arg(long, value_name = "KEY")]
    pub(crate) unique_key: Option<String>,
    /// How long it keeps the unique key: started or finished [default: finished]
    #[arg(long, value_name = "WHEN", requires = "unique_key")]
    pub(crate) unique_until: Option<String>,
    /// What happens when another job has that key: replace, keep or reject [default: keep]
    #[arg(long, value_name = "WHAT", requires = "unique_key")]
    pub(crate) on_conflict: Option<String>,
    /// For this long, another job with the unique key is a duplicate, even if this one has finished
    #[arg(long, value_name = "DURATION", value_parser = duration_of, requires = "unique_key")]
    pub(crate) unique_for: Option<Duration>,
    /// Repeating the same key and job returns the first job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Jobs of the kind with this key share a lane: only kinds.<KIND>.key_concurrency (1 by default) run at once
    #[arg(long, value_name = "KEY")]
    pub(crate) concurrency_key: Option<String>,
    /// All runs, including the first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_attempts: Option<i64>,
    /// How long one run may take
    #[arg(long, value_name = "DURATION", value_parser = duration_of, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// A word to find the job by; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Vec<String>,
    /// Wait until the job is finished, at most SECONDS [default: 60]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", value_parser = patience)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Default)]
pub(crate) struct Filter {
    /// scheduled, pending, running, completed, failed, dead_letter, cancelled, superseded; several with commas
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub(crate) state: Vec<JobState>,
    /// Only jobs of this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only jobs about this application data
    #[arg(long, value_name = "TYPE:ID", value_parser = entity)]
    pub(crate) entity: Option<EntityRef>,
    /// Only jobs with this tag
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Option<String>,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) paging: Paging,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Jobs by id, or all that match a filter.
#[derive(Args)]
pub(crate) struct Selection {
    /// Ids of jobs
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<i64>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Apply to every job that matches the filter
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct One {
    /// Id of the job
    #[arg(value_name = "ID")]
    pub(crate) id: i64,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct Count {
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    pub(crate) verb: Option<JobsVerb>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Subcommand)]
pub(crate) enum JobsVerb {
    /// Newest first (also without a verb)
    List(List),
    /// The exact number of matching jobs
    Count(Count),
    /// One job with its attempts and logs
    Show(One),
    /// Run failed, dead and cancelled jobs again, and scheduled ones now
    Retry(Selection),
    /// Cancel waiting jobs; running ones are asked to stop
    Cancel(Selection),
    /// Delete finished jobs with their attempts and logs
    Delete(Selection),
    /// Change when and how urgently a waiting job runs
    Set(SetJob),
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct SetJob {
    /// Id of the job
    #[arg(value_name = "ID")]
    pub(crate) id: i64,
    /// 0 (most urgent) to 10
    #[arg(long, value_name = "N", group = "change", value_parser = clap::value_parser!(u8).range(0..=10), allow_negative_numbers = true)]
    pub(crate) priority: Option<u8>,
    /// When it is due, such as 2026-01-31T15:04:05Z; a time in the past means now
    #[arg(long, value_name = "TIME", group = "change", value_parser = time_of)]
    pub(crate) run_at: Option<Time>,
    /// Due this long from now
    #[arg(long = "in", value_name = "DURATION", group = "change", value_parser = duration_of, allow_hyphen_values = true, conflicts_with = "run_at")]
    pub(crate) delay: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct DeadLetters {
    #[command(subcommand)]
    pub(crate) verb: Option<DeadLettersVerb>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Subcommand)]
pub(crate) enum DeadLettersVerb {
    /// Newest first (also without a verb)
    List(List),
    /// One job with its attempts and logs
    Show(One),
    /// Run again with fresh attempts
    Replay(Selection),
    /// Delete permanently
    Delete(Selection),
}

/// A noun that can only be listed.
#[derive(Args)]
pub(crate) struct Noun {
    #[command(subcommand)]
    pub(crate) verb: Option<NounVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum NounVerb {
    /// Print all (also without a verb)
    List(Json),
}

#[derive(Args)]
pub(crate) struct Cleanup {
    #[command(subcommand)]
    pub(crate) verb: Option<CleanupVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum CleanupVerb {
    /// What each task would remove now (also without a verb)
    List(Json),
    /// Run one task, or all
    Run {
        /// One of those listed by `windlass cleanup`
        #[arg(value_name = "TASK")]
        task: Option<String>,
        /// Only count
        #[arg(long)]
        dry_run: bool,
        /// Overrides the configured age
        #[arg(long, value_name = "DURATION", value_parser = duration_of, allow_hyphen_values = true)]
        older_than: Option<Duration>,
        #[command(flatten)]
        json: Json,
    },
}

#[derive(Args)]
pub(crate) struct ConfigNoun {
    #[command(subcommand)]
    pub(crate) verb: Option<ConfigVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum ConfigVerb {
    /// Every effective value and where it came from (also without a verb)
    Show(Json),
    /// Write a file with every key, commented out
    Init {
        /// Where to write it; an existing file is not overwritten
        #[arg(value_name = "FILE", default_value = crate::config::FILE)]
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) verb: BenchVerb,
}

#[derive(Subcommand)]
pub(crate) enum BenchVerb {
    /// Enqueue, drain, pickup and the bare SQL limits, in its own schema or file
    Queue(BenchQueue),
    /// How soon an idle worker starts a job, enqueued plainly and in a caller's transaction
    Pickup(BenchPickup),
    /// Bulk load and single writes until they are searchable
    Index(BenchIndex),
    /// Searches over many entities: speed, recall, and time until ready after a start
    Search(BenchSearch),
    /// A constant rate for a while: does the queue keep up, and how late do jobs start?
    Soak(BenchSoak),
    /// Many schedules, each ticking once a minute: how late do jobs start, and at what cost?
    Schedules(BenchSchedules),
}

#[derive(Args)]
pub(crate) struct BenchQueue {
    /// Jobs per phase
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) jobs: u64,
    /// Finished jobs to insert before measuring; a drain of empty tables comes first. On Postgres each is preceded by a
    /// CHECKPOINT of the whole server if the role may run one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) retain: u64,
    /// Jobs that run at once
    #[arg(long, value_name = "C", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,
    /// Also drain jobs that share this many concurrency keys, alternating with jobs without keys
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: Option<u64>,
    /// Jobs of one key that run at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "keys", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) key_limit: u16,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct BenchIndex {
    /// Entities of about a hundred words
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) docs: u64,
    /// Then write as many again one by one at this rate per second, for at most twenty seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: Option<u32>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct BenchSearch {
    /// Entities of about a hundred words
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) docs: u64,
    /// Searches
    #[arg(long, value_name = "Q", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) queries: u64,
    /// Search once more while half as many entities are added
    #[arg(long)]
    pub(crate) during_load: bool,
    /// Only load, into the given database: the first step of the benchmark, in its own process
    #[arg(long, hide = true)]
    pub(crate) load_only: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct BenchPickup {
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct BenchSoak {
    /// Jobs offered per second, whether or not the queue keeps up
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rate: u64,
    /// How long
    #[arg(long = "for", value_name = "DURATION", default_value = "1m", value_parser = duration_of)]
    pub(crate) period: Duration,
    /// Jobs that run at once
    #[arg(long, value_name = "C", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,
    /// Keep a snapshot open throughout (Postgres)
    #[arg(long)]
    pub(crate) hold_snapshot: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct BenchSchedules {
    /// Schedules
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) schedules: u64,
    /// How long
    #[arg(long = "for", value_name = "DURATION", default_value = "1m", value_parser = duration_of)]
    pub(crate) period: Duration,
    /// All in the same second of the minute, instead of spread out
    #[arg(long)]
    pub(crate) at_once: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples_that_can_be_typed() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert!(!examples.is_empty(), "{} has no example", verb.get_name());
            for line in examples {
                let words = words(line.split_once("| ").map_or(line, |(_, after)| after));
                assert_eq!(words[..2], ["windlass", verb.get_name()], "{line}");
                assert!(Cli::try_parse_from(words).is_ok(), "{line}");
                assert!(line.len() <= 98, "{line}");
            }
        }
    }

    #[test]
    fn every_argument_has_a_help_text() {
        fn look(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(look);
        }
        look(&Cli::command());
    }

    /// Splits a line like a shell.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for c in line.chars() {
            match (c, quote) {
                ('\'' | '"', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                (' ', None) => words.push(std::mem::take(&mut word)),
                (c, _) => word.push(c),
            }
        }
        words.push(word);
        words
    }
}
