//! `demo`: works off a day of sample jobs and shows what came of them.

mod day;
mod report;

use std::time::{Duration, Instant};

use windlass_core::store::JobFilter;
use windlass_core::{JobState, Store};
use windlass_engine::{Client, tryout};

use super::Session;
use super::serve::{Crew, Site};
use crate::args;
use crate::compose::Address;
use crate::config::Database;
use crate::failure::{During, Failure};
use crate::output::progress::Progress;
use crate::output::{taken, visible};

const LOOK: Duration = Duration::from_millis(150);
/// Without an end in sight for this long, something outside the demo holds the jobs up.
const STALLED: Duration = Duration::from_secs(20);
const CHUNK: usize = 1_000;

pub(crate) async fn run(session: &Session, args: &args::Demo) -> Result<(), Failure> {
    let config = &session.config;
    let output = &session.output;
    let mut database = config.database.clone();
    if database.is_default {
        database.address = Address::Sqlite(config.server.data.join("demo.db"));
    }
    let store = session.ready(&database, true).await?;
    let mut handlers = day::handlers();
    tryout::add(&mut handlers, false);
    let kinds = config.kinds.apply(handlers.specs());
    let client = Client::open(store, &config.queues, &kinds).await.during("cannot start")?;
    let site = match args.no_serve {
        true => None,
        false => Some(Site::open(session, client.clone()).await?),
    };
    let mut crew = Crew::start(session, client.clone(), handlers, Vec::new()).await?;
    let shown = tokio::select! {
        shown = show(session, &client, &database) => shown,
        failure = crew.disturbed() => Err(failure),
    };
    if let Err(failure) = shown {
        return crew.stop_after(failure).await;
    }
    let Some(site) = site else { return crew.stop().await };
    let said = output
        .line("\nThe workers stay up for what you enqueue; stop them with Ctrl-C.")
        .and_then(|()| site.announce(output));
    let crew = crew.with(site);
    match said {
        Ok(()) => crew.until_stopped(session).await,
        Err(failure) => crew.stop_after(failure).await,
    }
}

/// Enqueues the day, follows it to its end, prints what came of it.
async fn show(session: &Session, client: &Client, database: &Database) -> Result<(), Failure> {
    let output = &session.output;
    let store = client.store().as_ref();
    let tag = format!("demo-{}", store.now().await.during("cannot read the clock")?.0 / 1_000_000);
    let day = day::jobs(&tag);
    let total = day.jobs.len() as u64;
    output.line(format_args!(
        "A day of sample jobs: {total} of 14 kinds in five families, in {}",
        database.address
    ))?;
    let begun = Instant::now();
    for chunk in day.jobs.chunks(CHUNK) {
        client.enqueue_many(chunk.to_vec()).await.during("cannot enqueue the sample jobs")?;
    }
    let enqueued = begun.elapsed();
    until_done(session, store, &tag, total - day.tomorrow).await?;
    let took = begun.elapsed();
    let jobs = report::read(store, &tag).await?;
    output.line(format_args!("enqueued in {}, worked off in {}\n", taken(enqueued), taken(took)))?;
    report::print(&jobs, &session.config.queues, output)?;
    next(session, database, &jobs)
}

/// Looks at the table until every job that is due has ended.
async fn until_done(session: &Session, store: &dyn Store, tag: &str, due: u64) -> Result<(), Failure> {
    let states = JobState::ALL.into_iter().filter(|state| state.is_finished()).collect();
    let filter = JobFilter { states, tag: Some(tag.to_owned()), ..JobFilter::default() };
    let mut progress = Progress::new(session.output, "worked off", due);
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        let done = store.count(&filter).await.during("cannot count the sample jobs")?;
        if done >= due {
            progress.finish(done);
            return Ok(());
        }
        if done > last {
            (last, moved) = (done, Instant::now());
        }
        if moved.elapsed() > STALLED {
            let why = format!("{done} of {due} are done and nothing moves");
            return Err(Failure::new("the sample jobs are stuck", why)
                .hint("`windlass queues` shows whether a queue is paused"));
        }
        progress.set(done);
        tokio::time::sleep(LOOK).await;
    }
}

/// Commands that work as they stand, with this very binary and database.
fn next(session: &Session, database: &Database, jobs: &[windlass_core::JobRecord]) -> Result<(), Failure> {
    let output = &session.output;
    let binary = std::env::args().next().unwrap_or_else(|| "windlass".to_owned());
    let command = |rest: &str| {
        output.line(format_args!("  {} {rest} --database {}", visible(&binary), database.address))
    };
    output.line("\nWhat to try next:")?;
    command("queues")?;
    command("dead-letters")?;
    if let Some(dead) = jobs.iter().find(|job| job.state == JobState::DeadLetter) {
        command(&format!("jobs show {}", dead.id))?;
        command(&format!("dead-letters replay {}", dead.id))?;
    }
    command("jobs --state scheduled")?;
    command("enqueue SLEEP --payload '{\"ms\": 200}'")
}
