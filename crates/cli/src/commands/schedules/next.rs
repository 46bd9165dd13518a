//! `schedules next`.

use serde::Serialize;
use windlass_core::schedule::{Timing, Zone};
use windlass_core::{Invalid, Time};
use windlass_http::fields::Fields;

use super::{lines, now};
use crate::args::NextTicks;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::table::Table;

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
    if args.expr == "-" {
        return lines::answer(output, |fields| {
            let (ticks, _) = read(fields, args)?.answer()?;
            Ok(view(&ticks))
        });
    }
    let from = args.from.unwrap_or_else(now);
    let question = Question { expr: args.expr.clone(), zone: args.zone.clone(), from, n: args.n };
    let (ticks, zone) = question.answer().map_err(|error| {
        Failure::new("cannot find the next ticks", error)
            .hint("`windlass schedules next --help` says how an expression is written")
    })?;
    if args.json.json {
        return output.json(&view(&ticks));
    }
    if ticks.is_empty() {
        return output.line(format_args!("no tick after {from}"));
    }
    let mut table = Table::new(&["tick", "local"]);
    for tick in ticks {
        table.row(vec![tick.to_string(), zone.local(tick).unwrap_or_default()]);
    }
    table.print(output)
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
        if !(1..=MAX_TICKS).contains(&self.n) {
            invalid.add("n", format!("must be 1 to {MAX_TICKS}, not {}", self.n));
        }
        let (timing, zone) = match (timing, zone) {
            (Ok(timing), Ok(zone)) if invalid.problems.is_empty() => (timing, zone),
            (timing, _) => {
                invalid.problems.extend(timing.err().unwrap_or_default().problems);
                return Err(invalid);
            }
        };
        let next = |after: &Time| timing.next(*after, &zone, self.from);
        let ticks = std::iter::successors(next(&self.from), next);
        let ticks = ticks.take(usize::try_from(self.n).unwrap_or(0)).collect();
        Ok((ticks, zone))
    }
}

fn view(ticks: &[Time]) -> Ticks {
    Ticks { ticks: ticks.iter().map(Time::to_string).collect() }
}
