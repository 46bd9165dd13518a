//! The `windlass` command as a library, so that a program can run it with its own parts.
//!
//! Owns the way from arguments to a verb and from a failure to an exit code. Verbs are in `commands`; only `compose`
//! names the databases.

#![deny(unsafe_code)]

mod api;
mod args;
mod commands;
mod compose;
mod config;
mod failure;
mod memory;
mod output;
mod parts;
mod serving;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use windlass_pack::settings::Settings;
use windlass_pack::{Pack, settings_of};

use args::{BenchVerb, ConfigVerb, NounVerb, Typed, Verb, What};
use commands::Session;
use compose::Parts;
use config::{Config, Environment, Flags, Keys};
use failure::{During, Failure};
use output::Output;

/// How long background threads may take to end.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// Runs the whole command with additional parts. Call it from your own `main`.
pub fn run(packs: Vec<Arc<dyn Pack>>) -> ExitCode {
    // Before anything uses TLS. Features of dependencies are unified, and with two providers rustls panics instead of
    // choosing. This fails only if one was installed before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    memory::tune();
    let environment = Environment::capture();
    let output = Output::new(&environment);
    match begin(&packs, &environment, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If stderr is closed, only the exit code is left.
            let _ = std::io::stderr().write_all(failure.text(output.error_colour).as_bytes());
            ExitCode::from(failure.code())
        }
    }
}

fn begin(packs: &[Arc<dyn Pack>], environment: &Environment, output: Output) -> Result<(), Failure> {
    let verbs = Parts::new(false, packs).assemble(Settings::default())?.verbs();
    let typed = Typed::read(&verbs);
    log(&typed.what, environment, output);
    start(typed, packs, environment, output)
}

/// Logs go to stderr: everything for a server, only warnings for a verb that ends.
fn log(what: &What, environment: &Environment, output: Output) {
    let verb = match what {
        What::Own(verb) => Some(verb.as_ref()),
        What::Part(_) => None,
    };
    let level = match verb {
        Some(Verb::Serve(_) | Verb::Worker(_)) => "info,sqlx=error",
        // Alerts are part of the result of a change, even at a low level.
        Some(Verb::Budgets(_)) => "warn,windlass_engine::alert=info,sqlx=error",
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

fn start(
    typed: Typed,
    packs: &[Arc<dyn Pack>],
    environment: &Environment,
    output: Output,
) -> Result<(), Failure> {
    let remote = api::remote(&typed, environment, &output)?;
    if let What::Own(verb) = &typed.what
        && let Some(answered) = without_configuration(verb, packs, &output)
    {
        return answered;
    }
    let parts = Parts::new(aborts(&typed.what), packs);
    let config = configure(&typed, environment, &parts, remote.is_some())?;
    parts.run_on(&config.database);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .during("cannot start the runtime")?;
    let session = Session::new(config, parts, output, remote);
    let result = runtime.block_on(async {
        let result = match typed.what {
            What::Own(verb) => carry_out(&session, *verb).await,
            What::Part(chosen) => chosen.run(&session).await,
        };
        // After a second signal, nothing is awaited.
        if !matches!(result, Err(Failure::Silent(_))) {
            session.close().await;
        }
        result
    });
    runtime.shutdown_timeout(LAST_MOMENT);
    result
}

/// Verbs that need neither a database nor a configuration.
fn without_configuration(
    verb: &Verb,
    packs: &[Arc<dyn Pack>],
    output: &Output,
) -> Option<Result<(), Failure>> {
    match verb {
        Verb::Completions { shell } => Some(commands::completions::run(*shell)),
        Verb::Schedules(args) => commands::schedules::run_offline(&args.verb, output),
        Verb::Openapi { json } => Some(commands::openapi::run(packs, *json, output)),
        Verb::Config(args) => match &args.verb {
            Some(ConfigVerb::Init { file }) => {
                let keys = Keys::with(settings_of(&Parts::new(false, packs).packs));
                Some(commands::config::init(file, &keys, output))
            }
            _ => None,
        },
        _ => None,
    }
}

fn aborts(what: &What) -> bool {
    match what {
        What::Own(verb) => match verb.as_ref() {
            Verb::Serve(args) => args.running.allow_abort,
            Verb::Worker(args) => args.running.allow_abort,
            _ => false,
        },
        What::Part(_) => false,
    }
}

/// `remote`: a server has the database.
fn configure(
    typed: &Typed,
    environment: &Environment,
    parts: &Parts,
    remote: bool,
) -> Result<Config, Failure> {
    let verb = match &typed.what {
        What::Own(verb) => Some(verb.as_ref()),
        What::Part(_) => None,
    };
    let (lease, bind) = match verb {
        Some(Verb::Serve(args)) => (args.running.lease.clone(), args.bind.clone()),
        Some(Verb::Worker(args)) => (args.running.lease.clone(), None),
        Some(Verb::Demo(args)) => (None, args.bind.clone()),
        _ => (None, None),
    };
    let (file, database) = (typed.global.config.clone(), typed.global.database.clone());
    let flags = Flags { file, database, lease, bind };
    let mut config = Config::load(&flags, environment, parts)?;
    if !remote && !matches!(verb, Some(Verb::Serve(_) | Verb::Demo(_) | Verb::Bench(_))) {
        serving::join(&mut config)?;
    }
    Ok(config)
}

async fn carry_out(session: &Session, verb: Verb) -> Result<(), Failure> {
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
        Verb::Workers(args) => workers::all(session, listed(args)).await,
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
        Verb::Top(args) => top::run(session, &args).await,
        Verb::Bench(args) => match args.verb {
            BenchVerb::Queue(queue) => bench::queue(session, &queue).await,
            BenchVerb::Pickup(pickup) => bench::pickup(session, &pickup).await,
            BenchVerb::Index(index) => bench::index(session, &index).await,
            BenchVerb::Search(search) => bench::search(session, &search).await,
            BenchVerb::Soak(soak) => bench::soak(session, &soak).await,
            BenchVerb::Schedules(schedules) => bench::schedules(session, &schedules).await,
        },
        // Handled earlier, without a configuration.
        Verb::Openapi { .. } => Ok(()),
        Verb::Completions { shell } => completions::run(shell),
    }
}

fn listed(noun: args::Noun) -> bool {
    match noun.verb {
        Some(NounVerb::List(json)) => json.json,
        None => noun.list.json,
    }
}
