//! `schedules`: those in the database, and questions about time that need none.

mod calendar;
mod file;
mod lines;
mod next;
mod put;
mod show;

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::input::shown;
use windlass_core::store::ScheduleRecord;
use windlass_core::{Time, time};
use windlass_engine::Client;

use super::{Session, enqueue};
use crate::args::{RunSchedule, ScheduleNames, Schedules, SchedulesVerb};
use crate::failure::{During, Failure};
use crate::output::{Output, visible};

/// Answers the verbs that ask no database.
pub(crate) fn ask(verb: &Option<SchedulesVerb>, output: &Output) -> Option<Result<(), Failure>> {
    match verb {
        Some(SchedulesVerb::Next(args)) => Some(next::run(args, output)),
        Some(SchedulesVerb::Calendar(args)) => Some(calendar::run(args, output)),
        _ => None,
    }
}

pub(crate) async fn run(session: &Session, args: Schedules) -> Result<(), Failure> {
    match args.verb.unwrap_or(SchedulesVerb::List(args.list)) {
        SchedulesVerb::List(json) => show::list(session, json.json).await,
        SchedulesVerb::Show(args) => show::one(session, &args).await,
        SchedulesVerb::Put(args) => put::run(session, &args).await,
        SchedulesVerb::Delete(names) => delete(session, &names).await,
        SchedulesVerb::Run(args) => run_now(session, &args).await,
        SchedulesVerb::Pause(names) => pause(session, &names, true).await,
        SchedulesVerb::Resume(names) => pause(session, &names, false).await,
        SchedulesVerb::Next(args) => next::run(&args, &session.output),
        SchedulesVerb::Calendar(args) => calendar::run(&args, &session.output),
    }
}

async fn run_now(session: &Session, args: &RunSchedule) -> Result<(), Failure> {
    let client = session.client().await?;
    let enqueued = client.run_schedule(&args.name).await.during("cannot run the schedule")?;
    let enqueued = enqueued.ok_or_else(|| missing(&args.name))?;
    enqueue::answer(session, &client, enqueued, args.wait, args.json.json).await
}

async fn pause(session: &Session, names: &ScheduleNames, paused: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    known(&client, &names.names).await?;
    let mut changed = Vec::new();
    for name in &names.names {
        let record =
            client.store().pause_schedule(name, paused).await.during("cannot change the schedule")?;
        changed.push(record.ok_or_else(|| missing(name))?);
    }
    show::table(session, &changed, names.json.json)
}

async fn delete(session: &Session, names: &ScheduleNames) -> Result<(), Failure> {
    let client = session.client().await?;
    let what = "cannot delete the schedule";
    let records = known(&client, &names.names).await?;
    for name in &names.names {
        client.delete_schedule(name).await.during(what)?;
    }
    if names.json.json {
        return show::table(session, &records, true);
    }
    for name in &names.names {
        session.output.line(format_args!("schedule {} is gone; its jobs stay", visible(name)))?;
    }
    Ok(())
}

/// Every name is looked up before the first schedule is changed.
async fn known(client: &Client, names: &[String]) -> Result<Vec<ScheduleRecord>, Failure> {
    let mut records = Vec::new();
    for name in names {
        let record = client.store().schedule(name).await.during("cannot read the schedule")?;
        records.push(record.ok_or_else(|| missing(name).hint("nothing was changed"))?);
    }
    Ok(records)
}

fn missing(name: &str) -> Failure {
    let what = format!("there is no schedule `{}`", shown(name));
    Failure::new(what, "`windlass schedules` lists them")
}

/// Only to fill in what a question leaves out; nothing is decided by this machine's clock.
fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, time::micros))
}
