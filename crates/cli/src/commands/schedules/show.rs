//! `schedules list|show`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use windlass_core::Time;
use windlass_core::schedule::Plan;
use windlass_http::schedule_request;
use windlass_pack::api::ApiRequest;

use super::{ONE, Session, elsewhere, next};
use crate::api::answer::{Answered, ask, dash, list as values, number, optional_text, text, texts, time};
use crate::args::OneSchedule;
use crate::commands::line;
use crate::failure::{During, Failure};
use crate::output::table::Table;
use crate::output::visible;

const PAGE: u32 = 1_000;
/// Ticks shown with `--from`, unless a number is given.
const TICKS: i64 = 5;

/// A page as received: payloads keep their digits.
#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

pub(super) async fn list(session: &Session, json: bool) -> Result<(), Failure> {
    let api = session.api().await?;
    let what = "cannot list schedules";
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let request =
            ApiRequest::get("/v1/schedules", &[]).query("limit", Some(PAGE)).query("cursor", cursor.as_ref());
        let answer = ask(api.as_ref(), request).await.during(what)?;
        let page: Page = serde_json::from_str(&answer.text()).map_err(|error| Failure::new(what, error))?;
        all.extend(page.items);
        match page.next_cursor {
            None => break,
            // A cursor that repeats would loop forever.
            again if again == cursor => return Err(Failure::new(what, "the server repeats a page")),
            next => cursor = next,
        }
    }
    if all.is_empty() && !json {
        return session.output.line("no schedules; `windlass schedules put --help` makes one");
    }
    print(session, &all, json)
}

/// Schedules from separate responses.
pub(super) fn these(session: &Session, answers: &[Answered], json: bool) -> Result<(), Failure> {
    let raw = |answer: &Answered| RawValue::from_string(answer.text().into_owned());
    let items = answers.iter().map(raw).collect::<Result<Vec<_>, _>>();
    print(session, &items.map_err(|error| Failure::new("cannot show the schedules", error))?, json)
}

fn print(session: &Session, schedules: &[Box<RawValue>], json: bool) -> Result<(), Failure> {
    if json {
        let items: Vec<&str> = schedules.iter().map(|schedule| schedule.get()).collect();
        let text = format!("{{\"items\":[{}],\"next_cursor\":null}}", items.join(","));
        return session.output.json_text(&text);
    }
    let mut table = Table::new(&["schedule", "kind", "when", "next tick", "last tick", ">missed", ""]);
    for schedule in schedules {
        let view: Value = serde_json::from_str(schedule.get()).unwrap_or_default();
        let note = match (&view["error"], view["paused"] == true, &view["next_tick"]) {
            (Value::String(_), ..) => "cannot be read",
            (_, true, _) => "paused",
            (_, false, Value::Null) => "never again",
            _ => "",
        };
        table.row(vec![
            text(&view, "name").to_owned(),
            text(&view, "kind").to_owned(),
            when(&view),
            moment(&view, "next_tick"),
            moment(&view, "last_tick"),
            number(&view, "missed").to_string(),
            note.to_owned(),
        ]);
    }
    table.print(&session.output)
}

fn when(view: &Value) -> String {
    match values(view, "rules") {
        [rule] => {
            let zone = rule["zone"].as_str().or(view["zone"].as_str());
            let calendar = rule["calendar"].as_str().map(|calendar| format!(" · {calendar}"));
            let zone = zone.map(|zone| format!(" ({zone})"));
            format!("{}{}{}", text(rule, "expr"), zone.unwrap_or_default(), calendar.unwrap_or_default())
        }
        rules => format!("{} rules", rules.len()),
    }
}

fn moment(view: &Value, field: &str) -> String {
    optional_text(view, field).unwrap_or_else(dash)
}

pub(super) async fn one(session: &Session, args: &OneSchedule) -> Result<(), Failure> {
    if let Some(n) = args.n {
        next::count(n).map_err(|error| Failure::usage("cannot show the schedule", error))?;
    }
    let api = session.api().await?;
    let answer = ask(api.as_ref(), ApiRequest::get(ONE, &[&args.name])).await;
    let answer = answer.during("cannot show the schedule").map_err(elsewhere)?;
    let view = &answer.value;
    let plan = plan(view);
    let asked = plan.as_ref().filter(|_| args.n.is_some() || args.from.is_some());
    let asked = asked.map(|plan| asked_for(view, plan, args));
    if args.json.json {
        return match asked {
            Some(ticks) => session.output.json_text(&with_ticks(&answer, &ticks)?),
            None => answer.print(&session.output),
        };
    }
    facts(session, &answer)?;
    let shown = || texts(view, "next_ticks").iter().filter_map(|tick| tick.parse().ok()).collect();
    let ticks: Vec<Time> = asked.unwrap_or_else(shown);
    let Some(plan) = plan.filter(|_| !ticks.is_empty()) else { return Ok(()) };
    session.output.line("")?;
    next::table(&session.output, "next ticks", &ticks, |tick| plan.zone_at(tick))
}

/// The plan of the schedule, parsed as the route parses schedules.
fn plan(view: &Value) -> Option<Plan> {
    let fields = ["kind", "rules", "zone", "calendars"];
    let values = fields.iter().map(|name| ((*name).to_owned(), view[*name].clone()));
    let object =
        Value::Object(values.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>()).to_string();
    let described = schedule_request(text(view, "name"), line::fields(object.as_bytes()).ok()?).ok()?;
    described.spec.plan(time(view, "created_at")?).ok()
}

/// With `--from`, ticks of a paused schedule are shown too, as a preview.
fn asked_for(view: &Value, plan: &Plan, args: &OneSchedule) -> Vec<Time> {
    let n = args.n.unwrap_or(TICKS);
    match (args.from, time(view, "next_tick")) {
        (Some(from), _) => next::ahead(from, n, |after| plan.next(after)),
        (None, Some(first)) => next::ahead(Time(first.0 - 1), n, |after| plan.next(after)),
        (None, None) => Vec::new(),
    }
}

/// The response with these ticks instead of its own.
fn with_ticks(answer: &Answered, ticks: &[Time]) -> Result<String, Failure> {
    let failed = |error: serde_json::Error| Failure::new("cannot show the schedule", error);
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&answer.text()).map_err(failed)?;
    let ticks: Vec<String> = ticks.iter().map(Time::to_string).collect();
    fields.insert("next_ticks".to_owned(), to_raw_value(&ticks).map_err(failed)?);
    serde_json::to_string(&fields).map_err(failed)
}

/// Values that parsing would round.
#[derive(Default, Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

fn facts(session: &Session, answer: &Answered) -> Result<(), Failure> {
    let (output, view) = (&session.output, &answer.value);
    let fact = |name: &str, value: Option<String>| match value {
        Some(value) => output.line(format_args!("  {name:<15} {}", visible(&value))),
        None => Ok(()),
    };
    output.line(format_args!("schedule {}", visible(text(view, "name"))))?;
    fact("kind", optional_text(view, "kind"))?;
    for rule in values(view, "rules") {
        let during = texts(rule, "during");
        let during = if during.is_empty() { "open".to_owned() } else { during.join(", ") };
        let within = rule["calendar"].as_str().map(|calendar| format!("   {calendar}: {during}"));
        let zone = rule["zone"].as_str().map(|zone| format!("   {zone}"));
        let text =
            format!("{}{}{}", text(rule, "expr"), zone.unwrap_or_default(), within.unwrap_or_default());
        fact("rule", Some(text))?;
    }
    fact("zone", optional_text(view, "zone"))?;
    let own: Vec<&str> =
        view["calendars"].as_object().map(|own| own.keys().map(String::as_str).collect()).unwrap_or_default();
    fact("own calendars", (!own.is_empty()).then(|| own.join(", ")))?;
    let policy = match text(view, "misfire") {
        "all" => format!("all, at most {}", number(view, "catch_up")),
        other => other.to_owned(),
    };
    fact("misfire", Some(policy))?;
    fact("priority", view["priority"].as_i64().map(|priority| priority.to_string()))?;
    fact("max attempts", view["max_attempts"].as_i64().map(|runs| runs.to_string()))?;
    fact("timeout", optional_text(view, "timeout"))?;
    fact("unique key", optional_text(view, "unique_key"))?;
    fact("concurrency key", optional_text(view, "concurrency_key"))?;
    let tags = texts(view, "tags");
    fact("tags", (!tags.is_empty()).then(|| tags.join(", ")))?;
    let body = answer.text();
    let raw: Raw<'_> = serde_json::from_str(&body).unwrap_or_default();
    fact("payload", raw.payload.map(|payload| payload.get().to_owned()))?;
    fact("paused", Some(if view["paused"] == true { "yes" } else { "no" }.to_owned()))?;
    fact("last tick", Some(moment(view, "last_tick")))?;
    fact("missed", Some(number(view, "missed").to_string()))?;
    fact("error", optional_text(view, "error"))
}
