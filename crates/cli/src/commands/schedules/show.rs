//! `schedules list|show`.

use windlass_core::Time;
use windlass_core::schedule::Plan;
use windlass_core::store::ScheduleRecord;
use windlass_http::view::{ListView, ScheduleView, Stamp};

use super::{Session, missing, next};
use crate::args::OneSchedule;
use crate::failure::{During, Failure};
use crate::output::table::Table;
use crate::output::visible;

const PAGE: u32 = 1_000;
/// Ticks shown from a time on, unless a number is said.
const TICKS: i64 = 5;

pub(super) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let client = session.client().await?;
    let mut all: Vec<ScheduleRecord> = Vec::new();
    loop {
        let after = all.last().map(|record| record.name.clone());
        let page = client.store().schedules(after.as_deref(), PAGE).await.during("cannot list schedules")?;
        let last = page.len() < PAGE as usize;
        all.extend(page);
        if last {
            break;
        }
    }
    if all.is_empty() && !json {
        return session.output.line("no schedules; `windlass schedules put --help` makes one");
    }
    table(session, &all, json)
}

pub(super) fn table(session: &Session, records: &[ScheduleRecord], json: bool) -> Result<(), Failure> {
    if json {
        return session
            .output
            .json(&ListView::whole(records.iter().map(ScheduleView::from).collect::<Vec<_>>()));
    }
    let mut table = Table::new(&["schedule", "kind", "when", "next tick", "last tick", ">missed", ""]);
    for record in records {
        let view = ScheduleView::from(record);
        let note = match (&view.error, view.paused, &view.next_tick) {
            (Some(_), ..) => "cannot be read",
            (None, true, _) => "paused",
            (None, false, None) => "never again",
            _ => "",
        };
        table.row(vec![
            view.name.clone(),
            view.kind.clone(),
            when(&view),
            moment(view.next_tick.map(|tick| tick.0)),
            moment(view.last_tick.map(|tick| tick.0)),
            view.missed.to_string(),
            note.to_owned(),
        ]);
    }
    table.print(&session.output)
}

fn when(view: &ScheduleView) -> String {
    match view.rules.as_slice() {
        [rule] => {
            let zone = rule.zone.as_ref().or(view.zone.as_ref());
            let calendar = rule.calendar.as_ref().map(|calendar| format!(" · {calendar}"));
            let zone = zone.map(|zone| format!(" ({zone})"));
            format!("{}{}{}", rule.expr, zone.unwrap_or_default(), calendar.unwrap_or_default())
        }
        rules => format!("{} rules", rules.len()),
    }
}

fn moment(at: Option<Time>) -> String {
    at.map_or_else(|| "–".to_owned(), |at| at.to_string())
}

pub(super) async fn one(session: &Session, args: &OneSchedule) -> Result<(), Failure> {
    if let Some(n) = args.n {
        next::count(n).map_err(|error| Failure::usage("cannot show the schedule", error))?;
    }
    let client = session.client().await?;
    let record = client.store().schedule(&args.name).await.during("cannot read the schedule")?;
    let record = record.ok_or_else(|| missing(&args.name))?;
    let mut view = ScheduleView::from(&record);
    let plan = record.spec().ok().and_then(|spec| spec.plan(record.created_at).ok());
    if let Some(plan) = plan.as_ref().filter(|_| args.n.is_some() || args.from.is_some()) {
        view.next_ticks = asked(&record, plan, args).into_iter().map(Stamp).collect();
    }
    if args.json.json {
        return session.output.json(&view);
    }
    facts(session, &view)?;
    let ticks: Vec<Time> = view.next_ticks.iter().map(|tick| tick.0).collect();
    let Some(plan) = plan.filter(|_| !ticks.is_empty()) else { return Ok(()) };
    session.output.line("")?;
    next::table(&session.output, "next ticks", &ticks, |tick| plan.zone_at(tick))
}

/// Those after a time that was said are shown of a paused schedule too: somebody asks what would be.
fn asked(record: &ScheduleRecord, plan: &Plan, args: &OneSchedule) -> Vec<Time> {
    let n = args.n.unwrap_or(TICKS);
    match (args.from, record.next_at.filter(|_| !record.paused)) {
        (Some(from), _) => next::ahead(from, n, |after| plan.next(after)),
        (None, Some(first)) => next::ahead(Time(first.0 - 1), n, |after| plan.next(after)),
        (None, None) => Vec::new(),
    }
}

fn facts(session: &Session, view: &ScheduleView) -> Result<(), Failure> {
    let output = &session.output;
    let fact = |name: &str, value: Option<String>| match value {
        Some(value) => output.line(format_args!("  {name:<15} {}", visible(&value))),
        None => Ok(()),
    };
    output.line(format_args!("schedule {}", visible(&view.name)))?;
    fact("kind", Some(view.kind.clone()))?;
    for rule in &view.rules {
        let during = if rule.during.is_empty() { "open".to_owned() } else { rule.during.join(", ") };
        let within = rule.calendar.as_ref().map(|calendar| format!("   {calendar}: {during}"));
        let zone = rule.zone.as_ref().map(|zone| format!("   {zone}"));
        let text = format!("{}{}{}", rule.expr, zone.unwrap_or_default(), within.unwrap_or_default());
        fact("rule", Some(text))?;
    }
    fact("zone", view.zone.clone())?;
    let own: Vec<&str> =
        view.calendars.as_object().map(|own| own.keys().map(String::as_str).collect()).unwrap_or_default();
    fact("own calendars", (!own.is_empty()).then(|| own.join(", ")))?;
    let policy = match view.misfire {
        "all" => format!("all, at most {}", view.catch_up),
        other => other.to_owned(),
    };
    fact("misfire", Some(policy))?;
    fact("priority", view.priority.map(|priority| priority.to_string()))?;
    fact("max attempts", view.max_attempts.map(|runs| runs.to_string()))?;
    fact("timeout", view.timeout.clone())?;
    fact("unique key", view.unique_key.clone())?;
    fact("concurrency key", view.concurrency_key.clone())?;
    fact("tags", (!view.tags.is_empty()).then(|| view.tags.join(", ")))?;
    fact("payload", view.payload.as_ref().map(|payload| payload.get().to_owned()))?;
    fact("paused", Some(if view.paused { "yes" } else { "no" }.to_owned()))?;
    fact("last tick", Some(moment(view.last_tick.map(|tick| tick.0))))?;
    fact("missed", Some(view.missed.to_string()))?;
    fact("error", view.error.clone())
}
