//! `schedules`: those in the database, and calculations that need none.

mod calendar;
mod file;
mod lines;
mod next;
mod put;
mod show;

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::{Time, time};
use windlass_pack::Method;
use windlass_pack::api::{Api, ApiRequest};

use super::{Session, enqueue};
use crate::api::answer::{Answered, ask};
use crate::args::{RunSchedule, ScheduleNames, Schedules, SchedulesVerb};
use crate::failure::{During, Failure};
use crate::output::{Output, visible};

const ONE: &str = "/v1/schedules/{name}";

/// Runs the verbs that need no database.
pub(crate) fn run_offline(verb: &Option<SchedulesVerb>, output: &Output) -> Option<Result<(), Failure>> {
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
        SchedulesVerb::Pause(names) => pause(session, &names, "/v1/schedules/{name}/pause").await,
        SchedulesVerb::Resume(names) => pause(session, &names, "/v1/schedules/{name}/resume").await,
        SchedulesVerb::Next(args) => next::run(&args, &session.output),
        SchedulesVerb::Calendar(args) => calendar::run(&args, &session.output),
    }
}

async fn run_now(session: &Session, args: &RunSchedule) -> Result<(), Failure> {
    let api = session.api().await?;
    let request = ApiRequest::post("/v1/schedules/{name}/run", &[&args.name]);
    let what = "cannot run the schedule";
    enqueue::hand_in(session, api.as_ref(), request, what, args.wait, args.json.json).await.map_err(elsewhere)
}

async fn pause(session: &Session, names: &ScheduleNames, path: &str) -> Result<(), Failure> {
    let api = session.api().await?;
    known(api.as_ref(), &names.names).await?;
    let mut changed = Vec::new();
    for name in &names.names {
        let answer = ask(api.as_ref(), ApiRequest::post(path, &[name])).await;
        changed.push(answer.during("cannot change the schedule")?);
    }
    show::these(session, &changed, names.json.json)
}

async fn delete(session: &Session, names: &ScheduleNames) -> Result<(), Failure> {
    let api = session.api().await?;
    let records = known(api.as_ref(), &names.names).await?;
    for name in &names.names {
        let request = ApiRequest::new(Method::DELETE, ONE, &[name]);
        api.call(request).await.during("cannot delete the schedule")?;
    }
    if names.json.json {
        return show::these(session, &records, true);
    }
    for name in &names.names {
        session.output.line(format_args!("schedule {} was deleted; its jobs stay", visible(name)))?;
    }
    Ok(())
}

/// All names are looked up before the first schedule is changed.
async fn known(api: &dyn Api, names: &[String]) -> Result<Vec<Answered>, Failure> {
    let mut records = Vec::new();
    for name in names {
        let record = ask(api, ApiRequest::get(ONE, &[name])).await.during("cannot change the schedule");
        records.push(record.map_err(Failure::unchanged)?);
    }
    Ok(records)
}

fn elsewhere(failure: Failure) -> Failure {
    failure.or_hint("`windlass schedules` lists them")
}

/// Only a default for a missing time. No decision depends on this machine's clock.
fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, time::micros))
}
