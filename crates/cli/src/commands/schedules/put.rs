//! `schedules put`: from flags, or the whole description from a file.

use windlass_core::Invalid;
use windlass_core::schedule::{CalendarSpec, RuleSpec, ScheduleSpec};
use windlass_core::store::Put;
use windlass_engine::EngineError;
use windlass_http::view::ScheduleView;
use windlass_http::{Described, schedule_request};

use super::{Session, file};
use crate::args::PutSchedule;
use crate::commands::{enqueue, line};
use crate::failure::{During, Failure};
use crate::output::visible;

const WHAT: &str = "cannot write the schedule";

pub(super) async fn run(session: &Session, args: &PutSchedule) -> Result<(), Failure> {
    let refused = |invalid: Invalid| Failure::new(WHAT, invalid).hint("nothing was written");
    let described = match &args.file {
        Some(path) => from_file(&args.name, path).map_err(refused)?,
        None => from_flags(args)?,
    };
    let client = session.writer().await?;
    let put = match client.put_schedule(&described.spec).await {
        Err(EngineError::Invalid(invalid)) => return Err(refused(described.in_its_words(invalid))),
        put => put.during(WHAT)?,
    };
    let view = ScheduleView::from(&put.record);
    if args.json.json {
        return session.output.json(&view);
    }
    let what = match put.what {
        Put::Created => "is new",
        Put::Changed => "was changed",
        Put::Same => "was like this already",
    };
    let next = view.next_tick.map_or_else(|| "no next tick".to_owned(), |at| format!("next tick {}", at.0));
    session.output.line(format_args!("schedule {} {what}; {next}", visible(&view.name)))
}

pub(super) fn from_file(name: &str, path: &str) -> Result<Described, Invalid> {
    let json = file::json(path)?.to_string();
    let fields = line::fields(json.as_bytes()).map_err(|rule| Invalid::one(path, rule))?;
    schedule_request(name, fields)
}

fn from_flags(args: &PutSchedule) -> Result<Described, Failure> {
    let (expr, word) = match (&args.cron, &args.every) {
        (Some(cron), _) => (cron.clone(), "cron"),
        (None, Some(every)) => (format!("every {every}"), "every"),
        (None, None) => {
            return Err(Failure::usage(WHAT, "one of --cron, --every and --file has to say when"));
        }
    };
    let (calendar, calendars) = calendar(args.calendar.as_deref())
        .map_err(|invalid| Failure::new(WHAT, invalid).hint("nothing was written"))?;
    let rule = RuleSpec { expr, zone: None, calendar, during: args.during.clone() };
    let spec = ScheduleSpec {
        name: args.name.clone(),
        kind: args.kind.clone().unwrap_or_default(),
        payload: enqueue::payload(WHAT, args.payload.as_deref())?,
        rules: vec![rule],
        zone: args.zone.clone(),
        calendars,
        misfire: args.misfire.unwrap_or_default(),
        catch_up: args.catch_up,
        priority: args.priority,
        max_attempts: args.max_attempts,
        timeout: args.timeout,
        unique_key: args.unique_key.clone(),
        concurrency_key: args.concurrency_key.clone(),
        tags: args.tag.clone(),
    };
    Ok(Described::short(spec, word))
}

/// One by name, or one in a file, which goes with the schedule.
fn calendar(said: Option<&str>) -> Result<(Option<String>, Vec<CalendarSpec>), Invalid> {
    match said {
        Some(path) if path.ends_with(".toml") => {
            let spec = file::calendar(path)?;
            Ok((Some(spec.name.clone()), vec![spec]))
        }
        name => Ok((name.map(str::to_owned), Vec::new())),
    }
}
