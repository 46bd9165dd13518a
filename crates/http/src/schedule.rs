//! Parses the object of `PUT /v1/schedules/{name}` or a file of `schedules put` into a specification that core
//! validates.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::Invalid;
use windlass_core::schedule::{CalendarSpec, MAX_CATCH_UP, Misfire, Phase, RuleSpec, ScheduleSpec};
use windlass_pack::fields::{Fields, Unreadable};
use windlass_pack::{Schemas, Shape};

use crate::request::{Attempts, Priority, Span};

/// A schedule, and the names of the fields it was written with.
pub struct Described {
    pub spec: ScheduleSpec,
    /// Field names of the first rules: `cron`, `every`. Others are `rules[n]`.
    words: Vec<&'static str>,
}

/// The fields are still validated one by one.
const TOGETHER: &str = "cannot be given together with cron or every, nor these together";

impl Described {
    /// A schedule with one rule from a single field.
    pub fn short(spec: ScheduleSpec, word: &'static str) -> Described {
        Described { spec, words: vec![word] }
    }

    /// Renames the fields of problems to those the user wrote, each once.
    pub fn in_its_words(&self, invalid: Invalid) -> Invalid {
        let mut named = Invalid::default();
        for problem in invalid.problems {
            let field = self.name_of(&problem.field);
            if !named.problems.iter().any(|known| known.field == field && known.rule == problem.rule) {
                named.add(field, problem.rule);
            }
        }
        named
    }

    fn name_of(&self, field: &str) -> String {
        let of_rule = field.strip_prefix("rules[").and_then(|rest| rest.split_once("]."));
        let of_rule = of_rule.and_then(|(n, part)| Some((n.parse::<usize>().ok()?, part)));
        let Some((n, part)) = of_rule else { return field.to_owned() };
        match (self.words.get(n), part) {
            (Some(_), "calendar" | "during") => part.to_owned(),
            (Some(word), "expr") => (*word).to_owned(),
            (Some(word), part) => format!("{word}.{part}"),
            (None, part) => format!("rules[{}].{part}", n - self.words.len()),
        }
    }

    /// Combines parse problems with violated rules. Drops problems that only follow from a parse problem: of a rule
    /// that was not read, or about a calendar that was not read.
    pub(crate) fn beside(&self, mut found: Invalid, rules: Invalid) -> Invalid {
        let together = found.problems.iter().position(|problem| problem.rule == TOGETHER);
        let together = together.map(|place| found.problems.remove(place));
        let refused = |start: &str| found.problems.iter().any(|problem| problem.field.starts_with(start));
        let when = ["cron", "every", "rules", "calendar", "during"].into_iter().any(refused);
        let mut rules = self.in_its_words(rules);
        rules.problems.retain(|problem| {
            let own = problem.field.split('.').next().unwrap_or_default();
            let follows = match own {
                "rules" => when,
                rule if rule.starts_with("rules[") => refused(rule),
                _ => false,
            };
            let unread = problem.field.ends_with("calendar") && refused("calendars");
            !(follows || unread)
        });
        let mut all = found.and(rules);
        all.problems.extend(together);
        all
    }
}

/// Reads all known fields; unknown ones are refused by name.
pub fn schedule_request(name: &str, fields: Fields<'_>) -> Result<Described, Invalid> {
    let (described, invalid) = read_schedule(name, fields);
    invalid.into_result().map(|()| described)
}

/// The fields that could be read, and the problems with the others.
pub(crate) fn read_schedule(name: &str, mut fields: Fields<'_>) -> (Described, Invalid) {
    let (rules, words) = rules(&mut fields);
    let spec = ScheduleSpec {
        name: name.to_owned(),
        kind: fields.required_text("kind"),
        payload: fields.raw("payload").map_or_else(|| b"{}".to_vec(), |raw| raw.get().as_bytes().to_vec()),
        rules,
        zone: fields.text("zone"),
        calendars: calendars(&mut fields),
        misfire: fields.parsed("misfire", str::parse).unwrap_or_default(),
        catch_up: catch_up(&mut fields),
        priority: fields.integer("priority"),
        max_attempts: fields.integer("max_attempts"),
        timeout: fields.duration("timeout"),
        unique_key: fields.text("unique_key"),
        concurrency_key: fields.text("concurrency_key"),
        tags: fields.texts("tags"),
    };
    (Described { spec, words }, fields.end().err().unwrap_or_default())
}

fn catch_up(fields: &mut Fields<'_>) -> Option<u32> {
    let ticks = fields.integer("catch_up")?;
    if !(1..=i64::from(MAX_CATCH_UP)).contains(&ticks) {
        fields.refuse("catch_up", format!("must be 1 to {MAX_CATCH_UP}, not {ticks}"));
    }
    u32::try_from(ticks).ok()
}

/// `rules`, or one of `cron` and `every` with `calendar` and `during`. If several are given, all of them are validated.
fn rules(fields: &mut Fields<'_>) -> (Vec<RuleSpec>, Vec<&'static str>) {
    let (cron, every) = (fields.text("cron"), fields.text("every"));
    let (calendar, during) = (fields.text("calendar"), phases(fields));
    let list = fields.raw("rules");
    let beside = calendar.is_some() || !during.is_empty();
    let short = [(cron, "cron"), (every.map(|every| format!("every {every}")), "every")];
    let (mut rules, mut words) = (Vec::new(), Vec::new());
    for (expr, word) in short {
        let Some(expr) = expr else { continue };
        rules.push(RuleSpec { expr, zone: None, calendar: calendar.clone(), during: during.clone() });
        words.push(word);
    }
    match (words.len(), list) {
        (0, None) if !fields.is_refused("cron") && !fields.is_refused("every") => {
            fields.refuse("cron", "is required; or every, or rules");
        }
        (0, Some(_)) if beside => {
            fields.refuse("calendar", "and during belong to a rule; write them into rules");
        }
        (1.., Some(_)) | (2.., None) => fields.refuse("rules", TOGETHER),
        _ => {}
    }
    if let Some(list) = list {
        rules.extend(listed(fields, list));
    }
    (rules, words)
}

fn phases(fields: &mut Fields<'_>) -> Vec<Phase> {
    let mut phases = Vec::new();
    for text in fields.one_or_more("during") {
        match text.parse() {
            Ok(phase) => phases.push(phase),
            Err(rule) => fields.refuse("during", rule),
        }
    }
    phases
}

fn listed(fields: &mut Fields<'_>, raw: &RawValue) -> Vec<RuleSpec> {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        fields.refuse("rules", "must be a list of objects with expr");
        return Vec::new();
    };
    let mut rules = Vec::with_capacity(items.len());
    for (n, item) in items.into_iter().enumerate() {
        let rule = object(fields, &format!("rules[{n}]"), item, |mut rule| {
            let spec = RuleSpec {
                expr: rule.required_text("expr"),
                zone: rule.text("zone"),
                calendar: rule.text("calendar"),
                during: phases(&mut rule),
            };
            rule.end().map(|()| spec)
        });
        // A placeholder for a rule that could not be read, so that the others keep their index.
        rules.push(rule.unwrap_or_default());
    }
    rules
}

/// By name, in the format of `schedules calendar` files.
fn calendars(fields: &mut Fields<'_>) -> Vec<CalendarSpec> {
    let Some(raw) = fields.raw("calendars") else { return Vec::new() };
    let Ok(named) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) else {
        fields.refuse("calendars", "must be an object of calendars by name");
        return Vec::new();
    };
    let mut calendars = Vec::with_capacity(named.len());
    for (name, raw) in named {
        let within = format!("calendars.{}", windlass_core::input::shown(&name));
        let calendar = object(fields, &within, raw, |mut calendar| {
            let spec = CalendarSpec {
                name: name.clone(),
                zone: calendar.required_text("zone"),
                sessions: lists(&mut calendar, "sessions"),
                closed: calendar.texts("closed"),
                half_days: lists(&mut calendar, "half_days"),
            };
            calendar.end().map(|()| spec)
        });
        calendars.extend(calendar);
    }
    calendars
}

fn lists(fields: &mut Fields<'_>, name: &'static str) -> BTreeMap<String, Vec<String>> {
    let Some(raw) = fields.raw(name) else { return BTreeMap::new() };
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        fields.refuse(name, "must be an object of lists of texts");
        BTreeMap::new()
    })
}

/// Reads a nested object; its problems are added to the outer one's.
fn object<T>(
    fields: &mut Fields<'_>,
    name: &str,
    raw: &RawValue,
    read: impl FnOnce(Fields<'_>) -> Result<T, Invalid>,
) -> Option<T> {
    match Fields::read(raw.get().as_bytes(), "") {
        Ok(inner) => match read(inner) {
            Ok(value) => return Some(value),
            Err(invalid) => {
                for problem in invalid.problems {
                    fields.refuse(&format!("{name}.{}", problem.field), problem.rule);
                }
            }
        },
        Err(Unreadable::NotAnObject(sort)) => {
            fields.refuse(name, format!("must be an object, not {sort}"));
        }
        Err(Unreadable::Syntax(error)) => fields.refuse(name, error.to_string()),
    }
    None
}

/// The schema of what [`schedule_request`] reads.
pub(crate) struct NewSchedule;

impl Shape for NewSchedule {
    fn schema(schemas: &mut Schemas) -> Value {
        let about = "When to enqueue a recurring job: exactly one of cron, every and rules.";
        schemas.object("NewSchedule", about, |schedule| {
            schedule.optional::<String>(
                "cron",
                "Five fields (minute, hour, day of month, month, day of week), six with seconds first, or a macro such as @daily",
            );
            schedule.optional::<Span>("every", "A fixed interval, counted from the creation of the schedule");
            schedule.optional::<String>("calendar", "For cron or every: NYSE, or one of calendars");
            schedule.optional::<Phases>("during", "Only in these phases of the calendar; open by default");
            schedule.optional::<Vec<NewRule>>("rules", "It ticks whenever one of them does");
            schedule.required::<String>("kind", "`GET /v1/kinds` lists them");
            schedule.optional::<Value>("payload", "Any JSON; {} by default");
            schedule.optional::<String>("zone", "IANA name; by default that of the calendar, else UTC");
            schedule.optional::<NewCalendars>("calendars", "By name, for the rules of this schedule");
            schedule.optional::<MisfireWord>("misfire", "What happens to ticks that passed while no process was running; once by default");
            schedule.optional::<CatchUp>("catch_up", "Most ticks caught up at once under `all`");
            schedule.optional::<Priority>("priority", "0 is most urgent; the kind's by default");
            schedule.optional::<Attempts>("max_attempts", "All runs, including the first");
            schedule.optional::<Span>("timeout", "How long one run may take");
            schedule.optional::<String>("unique_key", "A tick that finds a job of this key waiting or running adds none");
            schedule.optional::<String>("concurrency_key", "Jobs of a kind with the same key share a lane");
            schedule.optional::<Vec<String>>("tags", "Words to find its jobs by, at most 14");
        })
    }
}

struct NewRule;

impl Shape for NewRule {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("NewRule", "One expression, optionally restricted to phases of a calendar.", |rule| {
            rule.required::<String>("expr", "As for cron, or `every 90s`");
            rule.optional::<String>("zone", "The schedule's by default");
            rule.optional::<String>("calendar", "NYSE, or one of the schedule's calendars");
            rule.optional::<Phases>("during", "Only in these phases of the calendar; open by default");
        })
    }
}

struct Phases;

impl Shape for Phases {
    fn schema(_: &mut Schemas) -> Value {
        let one = json!({ "type": "string", "enum": Phase::ALL.map(Phase::name) });
        json!({ "oneOf": [one, { "type": "array", "items": one }] })
    }
}

struct MisfireWord;

impl Shape for MisfireWord {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": Misfire::ALL.map(Misfire::name) })
    }
}

struct CatchUp;

impl Shape for CatchUp {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "integer", "minimum": 1, "maximum": MAX_CATCH_UP })
    }
}

struct NewCalendars;

impl Shape for NewCalendars {
    fn schema(schemas: &mut Schemas) -> Value {
        json!({ "type": "object", "additionalProperties": NewCalendar::schema(schemas) })
    }
}

struct NewCalendar;

impl Shape for NewCalendar {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("Calendar", "When a market or an office is open.", |calendar| {
            calendar.required::<String>("zone", "IANA name");
            calendar.optional::<Hours>("sessions", "By days of the week: {\"mon-fri\": [\"09:00-17:30\"]}");
            calendar.optional::<Vec<String>>("closed", "Dates: 2026-12-24, or 12-24 for every year");
            calendar.optional::<Hours>("half_days", "Dates with their own sessions");
        })
    }
}

struct Hours;

impl Shape for Hours {
    fn schema(schemas: &mut Schemas) -> Value {
        json!({ "type": "object", "additionalProperties": Vec::<String>::schema(schemas) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Described, Invalid> {
        schedule_request("s", Fields::read(text.as_bytes(), "").unwrap())
    }

    fn problems(text: &str) -> Vec<String> {
        let invalid = read(text).err().unwrap_or_default();
        invalid.problems.into_iter().map(|problem| format!("{}: {}", problem.field, problem.rule)).collect()
    }

    #[test]
    fn short_and_long_forms_are_equivalent() {
        let short = read(r#"{"kind":"K","cron":"@daily","calendar":"NYSE","during":"day_off"}"#).unwrap();
        let long = read(r#"{"kind":"K","rules":[{"expr":"@daily","calendar":"NYSE","during":["day_off"]}]}"#)
            .unwrap();
        assert_eq!(short.spec, long.spec);
        assert_eq!(read(r#"{"kind":"K","every":"90s"}"#).unwrap().spec.rules[0].expr, "every 90s");
        assert_eq!(short.spec.payload, b"{}");
    }

    #[test]
    fn every_problem_has_its_field() {
        assert_eq!(
            problems(
                r#"{"rules":[{"expr":7},{"expr":"@daily","when":1,"during":["shut"]},3],"calendar":"NYSE",
                    "misfire":"never","catch_up":0,"calendars":{"tokyo":{"sessions":{"mon":"9-10"}}},"tz":"UTC"}"#
            ),
            [
                "calendar: and during belong to a rule; write them into rules",
                "rules[0].expr: must be text, not a number",
                "rules[1].during: `shut` is not one of open, after_hours, day_off",
                "rules[1].when: is not a field here; known: expr, zone, calendar, during",
                "rules[2]: must be an object, not a number",
                "kind: is required",
                "calendars.tokyo.zone: is required",
                "calendars.tokyo.sessions: must be an object of lists of texts",
                "misfire: must be skip, once or all, not `never`",
                "catch_up: must be 1 to 1000, not 0",
                "tz: is not a field here; known: cron, every, calendar, during, rules, kind, payload, zone, calendars, \
                 misfire, catch_up, priority, max_attempts, timeout, unique_key, concurrency_key, tags",
            ]
        );
        assert_eq!(problems(r#"{"kind":"K"}"#), ["cron: is required; or every, or rules"]);
        let both = problems(r#"{"kind":"K","cron":"@daily","every":"1h"}"#);
        assert!(both[0].starts_with("rules: cannot be given together"), "{both:?}");
    }

    #[test]
    fn problems_of_a_short_rule_use_its_field_names() {
        let fields = |text: &str| -> Vec<String> {
            let described = read(text).unwrap();
            let invalid = described.spec.plan(windlass_core::Time(0)).unwrap_err();
            described.in_its_words(invalid).problems.into_iter().map(|problem| problem.field).collect()
        };
        assert_eq!(
            fields(r#"{"kind":"K","cron":"61 * * * *","calendar":"LSE"}"#),
            ["cron.minute", "calendar"]
        );
        assert_eq!(fields(r#"{"kind":"K","cron":"often"}"#), ["cron"]);
        assert_eq!(fields(r#"{"kind":"K","every":"1ms"}"#), ["every"]);
        assert_eq!(
            fields(r#"{"kind":"K","rules":[{"expr":"often"},{"expr":"every 1ms"}]}"#),
            ["rules[0].expr", "rules[1].expr"]
        );
        assert_eq!(fields(r#"{"kind":"K","rules":[{"expr":"61 * * * *"}]}"#), ["rules[0].minute"]);
    }

    /// The OpenAPI document lists exactly the fields that are read.
    #[test]
    fn the_schema_has_the_fields_that_are_read() {
        let mut schemas = Schemas::default();
        NewSchedule::schema(&mut schemas);
        let schema = schemas.into_named().remove("NewSchedule").unwrap();
        let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let refused = problems(r#"{"kind":"K","cron":"@daily","?":1}"#).remove(0);
        let known: Vec<&str> = refused.split_once("known: ").unwrap().1.split(", ").collect();
        assert_eq!(properties, known);
    }
}
