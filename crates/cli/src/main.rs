//! The `windlass` command.
//!
//! Owns the way from arguments to a verb and from a failure to an exit code. Each verb lives in `commands`, both
//! databases are named in `compose` and nowhere else.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod compose;
mod config;
mod failure;
mod output;
mod serving;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use args::{BenchVerb, Cli, ConfigVerb, NounVerb, TypesVerb, Verb};
use commands::Session;
use config::{Config, Environment, Flags};
use failure::{During, Failure};
use output::Output;

/// How long background threads may take to end after everything was written.
const LAST_MOMENT: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let cli = Cli::read();
    let environment = Environment::capture();
    let output = Output::new(&environment);
    log(&cli.verb, &environment, output);
    match start(cli, &environment, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // With stderr gone there is nobody to tell; the exit code says it.
            let _ = std::io::stderr().write_all(failure.text(output.error_colour).as_bytes());
            ExitCode::from(failure.code())
        }
    }
}

/// Logs go to stderr: everything for a server, only trouble for a verb that answers and ends.
fn log(verb: &Verb, environment: &Environment, output: Output) {
    let level = match verb {
        Verb::Serve(_) | Verb::Worker(_) => "info,sqlx=error",
        // An alert is the change's answer, however quiet its level.
        Verb::Budgets(_) => "warn,windlass_engine::alert=info,sqlx=error",
        _ => "warn,sqlx=error",
    };
    let wanted = environment.get("RUST_LOG");
    let filter = match wanted.as_deref().map(EnvFilter::try_new) {
        Some(Ok(filter)) => filter,
        Some(Err(error)) => {
            output.note(format_args!("RUST_LOG is ignored: {error}"));
            EnvFilter::new(level)
        }
        None => EnvFilter::new(level),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(output.error_colour)
        .with_writer(std::io::stderr)
        .init();
}

fn start(cli: Cli, environment: &Environment, output: Output) -> Result<(), Failure> {
    match &cli.verb {
        Verb::Completions { shell } => return commands::completions::run(*shell),
        // Some ask no database, so they need no configuration either.
        Verb::Schedules(args) => {
            if let Some(answered) = commands::schedules::ask(&args.verb, &output) {
                return answered;
            }
        }
        Verb::Openapi { json } => return commands::openapi::run(*json, &output),
        Verb::Config(args) => {
            if let Some(ConfigVerb::Init { file }) = &args.verb {
                return commands::config::init(file, &output);
            }
        }
        _ => {}
    }
    let (lease, bind) = match &cli.verb {
        Verb::Serve(args) => (args.running.lease.clone(), args.bind.clone()),
        Verb::Worker(args) => (args.running.lease.clone(), None),
        Verb::Demo(args) => (None, args.bind.clone()),
        _ => (None, None),
    };
    refuse_server(&cli.verb, environment)?;
    let flags = Flags { file: cli.global.config, database: cli.global.database, lease, bind };
    let mut config = Config::load(&flags, environment)?;
    if !matches!(cli.verb, Verb::Serve(_) | Verb::Demo(_) | Verb::Bench(_)) {
        serving::join(&mut config)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .during("cannot start the runtime")?;
    let session = Session::new(config, output);
    let result = runtime.block_on(async {
        let result = run(&session, cli.verb).await;
        // A process told twice to end does not wait for anything.
        if !matches!(result, Err(Failure::Silent(_))) {
            session.close().await;
        }
        result
    });
    runtime.shutdown_timeout(LAST_MOMENT);
    result
}

/// Verbs open the database themselves. One that was told to ask a server must not answer from somewhere else.
fn refuse_server(verb: &Verb, environment: &Environment) -> Result<(), Failure> {
    let here = matches!(
        verb,
        Verb::Serve(_)
            | Verb::Worker(_)
            | Verb::Demo(_)
            | Verb::Migrate(_)
            | Verb::Restore(_)
            | Verb::Bench(_)
            | Verb::Config(_)
    );
    if here || environment.get("WINDLASS_SERVER").is_none() {
        return Ok(());
    }
    let why = "this version asks no server, it opens the database itself";
    Err(Failure::usage("WINDLASS_SERVER cannot be followed", why)
        .hint("unset WINDLASS_SERVER and name that server's database with --database"))
}

async fn run(session: &Session, verb: Verb) -> Result<(), Failure> {
    use commands::*;
    match verb {
        Verb::Serve(args) => serve::serve(session, &args.running).await,
        Verb::Worker(args) => serve::work(session, &args.running, args.queues).await,
        Verb::Demo(args) => demo::run(session, &args).await,
        Verb::Migrate(args) => migrate::run(session, &args.verb).await,
        Verb::Enqueue(args) => enqueue::run(session, &args).await,
        Verb::Jobs(args) => jobs::run(session, args).await,
        Verb::Queues(args) => queues::run(session, args).await,
        Verb::Kinds(args) => kinds::run(session, args).await,
        Verb::Workers(args) => workers::list(session, listed(args)).await,
        Verb::Budgets(args) => budgets::run(session, args).await,
        Verb::Audit(args) => audit::run(session, args).await,
        Verb::DeadLetters(args) => dead_letters::run(session, args).await,
        Verb::Schedules(args) => schedules::run(session, args).await,
        Verb::Workflows(args) => workflows::run(session, args).await,
        Verb::Cleanup(args) => cleanup::run(session, args).await,
        Verb::Backup(args) => backup::run(session, args).await,
        Verb::Restore(args) => backup::restore(session, &args).await,
        Verb::Doctor(args) => doctor::run(session, args.json).await,
        Verb::Config(args) => {
            let json = matches!(args.verb, Some(ConfigVerb::Show(json)) if json.json) || args.list.json;
            config::show(session, json).await
        }
        Verb::Index(args) => entities::index::run(session, &args).await,
        Verb::Search(args) => entities::search::search(session, &args).await,
        Verb::Similar(args) => entities::search::similar(session, &args).await,
        Verb::Types(args) => match args.verb {
            Some(TypesVerb::Show { name, json }) => entities::types::show(session, &name, json.json).await,
            Some(TypesVerb::List(json)) => entities::types::list(session, json.json).await,
            None => entities::types::list(session, args.list.json).await,
        },
        Verb::Top(args) => top::run(session, &args).await,
        Verb::Bench(args) => match args.verb {
            BenchVerb::Queue(queue) => bench::queue(session, &queue).await,
            BenchVerb::Pickup(pickup) => bench::pickup(session, &pickup).await,
            BenchVerb::Index(index) => bench::index(session, &index).await,
            BenchVerb::Search(search) => bench::search(session, &search).await,
            BenchVerb::Soak(soak) => bench::soak(session, &soak).await,
            BenchVerb::Schedules(schedules) => bench::schedules(session, &schedules).await,
        },
        Verb::Openapi { json } => openapi::run(json, &session.output),
        Verb::Completions { shell } => completions::run(shell),
    }
}

fn listed(noun: args::Noun) -> bool {
    match noun.verb {
        Some(NounVerb::List(json)) => json.json,
        None => noun.list.json,
    }
}
