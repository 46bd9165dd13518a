//! `schedules next`.

use serde::Serialize;
use windlass_core::schedule::{Timing, Zone};
use windlass_core::{Invalid, Time};
use windlass_pack::fields::Fields;

use super::{lines, now, put};
use crate::args::NextTicks;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::table::Table;

const WHAT: &str = "cannot find the next ticks";
const MAX_TICKS: i64 = 1_000;

struct Question {
    expr: String,
    zone: String,
    from: Time,
    n: i64,
}

#[derive(Serialize)]
struct Ticks {
    ticks: Vec<String>,
}

pub(super) fn run(args: &NextTicks, output: &Output) -> Result<(), Failure> {
    let Some(expr) = &args.expr else { return of_file(args, output) };
    if expr == "-" {
        return lines::answer(output, |fields| {
            let (ticks, _) = read(fields, args)?.answer()?;
            Ok(view(&ticks))
        });
    }
    let from = args.from.unwrap_or_else(now);
    let question = Question { expr: expr.clone(), zone: args.zone.clone(), from, n: args.n };
    // All of it comes from the command line.
    let (ticks, zone) = question.answer().map_err(|error| {
        Failure::usage(WHAT, error).hint("`windlass schedules next --help` says how an expression is written")
    })?;
    print(output, args, from, ticks, |_| zone.clone())
}

/// A schedule from a file, which need not be stored.
fn of_file(args: &NextTicks, output: &Output) -> Result<(), Failure> {
    let path = args.file.as_deref().unwrap_or_default();
    let from = args.from.unwrap_or_else(now);
    count(args.n).map_err(|error| Failure::usage(WHAT, error))?;
    let refused =
        |error: Invalid| Failure::new(WHAT, error).hint("`windlass schedules put --help` shows a file");
    let described = put::from_file("preview", path).map_err(refused)?;
    let plan = described.spec.plan(from).map_err(|error| refused(described.in_its_words(error)))?;
    let ticks = ahead(from, args.n, |after| plan.next(after));
    print(output, args, from, ticks, |tick| plan.zone_at(tick))
}

fn print(
    output: &Output,
    args: &NextTicks,
    from: Time,
    ticks: Vec<Time>,
    zone: impl Fn(Time) -> Zone,
) -> Result<(), Failure> {
    if args.json.json {
        return output.json(&view(&ticks));
    }
    if ticks.is_empty() {
        return output.line(format_args!("no tick after {from}"));
    }
    table(output, "tick", &ticks, zone)
}

/// Ticks in UTC and in the zone of their rule.
pub(super) fn table(
    output: &Output,
    head: &'static str,
    ticks: &[Time],
    zone: impl Fn(Time) -> Zone,
) -> Result<(), Failure> {
    let mut table = Table::new(&[head, "local"]);
    for tick in ticks {
        table.row(vec![tick.to_string(), zone(*tick).local(*tick).unwrap_or_default()]);
    }
    table.print(output)
}

/// The next `n` ticks strictly after `from`.
pub(super) fn ahead(from: Time, n: i64, next: impl Fn(Time) -> Option<Time>) -> Vec<Time> {
    let ticks = std::iter::successors(next(from), |tick| next(*tick));
    ticks.take(usize::try_from(n).unwrap_or(0)).collect()
}

pub(super) fn count(n: i64) -> Result<(), Invalid> {
    match (1..=MAX_TICKS).contains(&n) {
        true => Ok(()),
        false => Err(Invalid::one("n", format!("must be 1 to {MAX_TICKS}, not {n}"))),
    }
}

fn read(mut fields: Fields<'_>, args: &NextTicks) -> Result<Question, Invalid> {
    let question = Question {
        expr: fields.required_text("expr"),
        zone: fields.text("zone").unwrap_or_else(|| args.zone.clone()),
        from: fields.time("from").or(args.from).unwrap_or_else(now),
        n: fields.integer("n").unwrap_or(args.n),
    };
    fields.end().map(|()| question)
}

impl Question {
    fn answer(&self) -> Result<(Vec<Time>, Zone), Invalid> {
        let mut invalid = Invalid::default();
        let timing = Timing::parse(&self.expr);
        let zone = Zone::named(&self.zone);
        if let Err(error) = &zone {
            invalid.add("zone", error.to_string());
        }
        invalid.problems.extend(count(self.n).err().unwrap_or_default().problems);
        let (timing, zone) = match (timing, zone) {
            (Ok(timing), Ok(zone)) if invalid.problems.is_empty() => (timing, zone),
            (timing, _) => {
                invalid.problems.extend(timing.err().unwrap_or_default().problems);
                return Err(invalid);
            }
        };
        let ticks = ahead(self.from, self.n, |after| timing.next(after, &zone, self.from));
        Ok((ticks, zone))
    }
}

fn view(ticks: &[Time]) -> Ticks {
    Ticks { ticks: ticks.iter().map(Time::to_string).collect() }
}
