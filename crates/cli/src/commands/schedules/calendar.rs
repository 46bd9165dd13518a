//! `schedules calendar`.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use windlass_core::schedule::{Calendar, Calendars, Phase};
use windlass_core::{Invalid, Time};

use super::{file, lines, now};
use crate::args::CalendarAt;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::table::Table;

#[derive(Serialize)]
struct Answer {
    open: bool,
}

pub(super) fn run(args: &CalendarAt, output: &Output) -> Result<(), Failure> {
    let mut shelf = Shelf::default();
    let name = args.name.as_deref().or(args.file.as_deref()).unwrap_or_default();
    if name == "-" {
        return lines::answer(output, |mut fields| {
            let name = fields.required_text("name");
            let at = fields.time("at").or(args.at).unwrap_or_else(now);
            fields.end()?;
            let calendar = shelf.calendar(&name)?;
            calendar.check(at)?;
            Ok(Answer { open: calendar.open(at) })
        });
    }
    let at = args.at.unwrap_or_else(now);
    let calendar = match &args.file {
        Some(file) => file::calendar(file).and_then(|spec| spec.check()).map(Arc::new),
        None => shelf.calendar(name),
    };
    let calendar = calendar.and_then(|calendar| calendar.check(at).map(|()| calendar)).map_err(|error| {
        // Errors in a name or time are wrong usage; errors in a file are not.
        let of_file = args.file.is_some() || name.ends_with(".toml");
        let failure = if of_file { Failure::new } else { Failure::usage };
        failure("cannot look at the calendar", error)
            .hint("`windlass schedules calendar --help` shows a file with one")
    })?;
    if args.json.json {
        return output.json(&Answer { open: calendar.open(at) });
    }
    show(&calendar, at, output)
}

fn show(calendar: &Calendar, at: Time, output: &Output) -> Result<(), Failure> {
    let local = |at: Time| calendar.zone().local(at).unwrap_or_else(|| at.to_string());
    let (word, change) = match calendar.phase(at) {
        Phase::Open => ("open", "closes"),
        Phase::AfterHours => ("closed (after hours)", "opens"),
        Phase::DayOff => ("closed (day off)", "opens"),
    };
    let mut table = Table::new(&["what", "when", "local"]);
    let mut row = |what: &str, at: Time| table.row(vec![what.to_owned(), at.to_string(), local(at)]);
    row(word, at);
    for (from, to) in calendar.sessions(at) {
        row("session from", from);
        row("session to", to);
    }
    if let Some(at) = calendar.next_change(at) {
        row(change, at);
    }
    table.print(output)
}

/// The built-in calendars, and files, each of which is read once.
#[derive(Default)]
struct Shelf {
    built_in: Calendars,
    files: HashMap<String, Result<Arc<Calendar>, Invalid>>,
}

impl Shelf {
    fn calendar(&mut self, name: &str) -> Result<Arc<Calendar>, Invalid> {
        if name.ends_with(".toml") {
            let read = self
                .files
                .entry(name.to_owned())
                .or_insert_with(|| file::calendar(name).and_then(|spec| spec.check()).map(Arc::new));
            return read.clone();
        }
        let known = self.built_in.named(name).cloned();
        known.map_err(|rule| Invalid::one("name", format!("{rule}, or the path of a .toml file")))
    }
}
