//! A user's description of a schedule, and its validation.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plan::{Plan, Rule};
use super::{CalendarSpec, Calendars, Phase, Timing, Zone};
use crate::budget::MANUAL_TAG;
use crate::input::{MAX_NAME_BYTES, MAX_TAGS, shown};
use crate::{Invalid, Time};

const MAX_RULES: usize = 16;
const MAX_CALENDARS: usize = 16;
pub const MAX_CATCH_UP: u32 = 1_000;
pub const DEFAULT_CATCH_UP: u32 = 100;
/// Every due schedule is read whole. Larger data belongs in the application's own tables.
pub const MAX_SCHEDULE_BYTES: usize = 256 << 10;
/// Prefix of the tag with the schedule's name.
const OF_SCHEDULE: &str = "schedule:";
/// Prefix of the tag with the time of the tick.
const OF_TICK: &str = "tick:";
/// Prefix of the names of built-in schedules.
const RESERVED: &str = "windlass-";
/// Tags added to every job of a schedule.
const OWN_TAGS: usize = 2;

/// What to enqueue, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleSpec {
    pub name: String,
    pub kind: String,
    /// JSON text.
    pub payload: Vec<u8>,
    /// `None` means the kind's.
    pub priority: Option<i64>,
    pub max_attempts: Option<i64>,
    pub timeout: Option<Duration>,
    /// At most one job with this key waits: a tick that finds one adds no other.
    pub unique_key: Option<String>,
    pub concurrency_key: Option<String>,
    pub tags: Vec<String>,
    /// It ticks whenever one of them does.
    pub rules: Vec<RuleSpec>,
    /// For rules without a zone. Defaults to the calendar's, else UTC.
    pub zone: Option<String>,
    /// Calendars for the rules in addition to the built-in ones. Stored with the schedule.
    pub calendars: Vec<CalendarSpec>,
    pub misfire: Misfire,
    /// Most ticks caught up at once under [`Misfire::All`].
    pub catch_up: Option<u32>,
}

/// Refuses to create or replace a built-in schedule. Operators may delete one; a process that is configured to have it
/// creates it again at its next start.
pub fn check_free(name: &str) -> Result<(), Invalid> {
    if !name.starts_with(RESERVED) {
        return Ok(());
    }
    let rule = format!(
        "`{}` is reserved, like all names that begin with `{RESERVED}`; it can be paused, resumed, run and deleted",
        shown(name)
    );
    Err(Invalid::one("name", rule))
}

/// One expression, optionally restricted to a calendar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    pub expr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// Phases of the calendar; defaults to `open`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub during: Vec<Phase>,
}

/// The position of a schedule among its ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulePosition {
    /// When the schedule was created. Intervals count from here.
    pub anchor: Time,
    /// The latest tick processed, or the creation time of a new schedule.
    pub last_tick: Time,
    /// `None` if it never ticks again.
    pub next_at: Option<Time>,
}

/// What happens to ticks that passed while no process was running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Misfire {
    /// They are dropped.
    Skip,
    /// Only the latest is enqueued.
    #[default]
    Once,
    /// All are enqueued, or only the latest if there are too many.
    All,
}

impl Misfire {
    pub const ALL: [Misfire; 3] = [Misfire::Skip, Misfire::Once, Misfire::All];

    pub fn name(self) -> &'static str {
        match self {
            Misfire::Skip => "skip",
            Misfire::Once => "once",
            Misfire::All => "all",
        }
    }
}

impl FromStr for Misfire {
    type Err = String;

    fn from_str(text: &str) -> Result<Misfire, String> {
        let found = Misfire::ALL.into_iter().find(|misfire| misfire.name() == text);
        found.ok_or_else(|| format!("must be skip, once or all, not `{}`", shown(text)))
    }
}

impl ScheduleSpec {
    /// Its position once written: a new schedule starts now, a changed one continues from its last tick.
    pub fn position(&self, before: Option<(Time, Time)>, now: Time) -> Result<SchedulePosition, Invalid> {
        let (anchor, last_tick) = before.unwrap_or((now, now));
        let next_at = self.plan(anchor)?.next(last_tick);
        Ok(SchedulePosition { anchor, last_tick, next_at })
    }

    /// The tags of the job for `tick`, or of one started manually.
    pub fn job_tags(&self, tick: Option<Time>) -> Vec<String> {
        let mut tags = self.tags.clone();
        tags.push(format!("{OF_SCHEDULE}{}", self.name));
        tags.push(tick.map_or_else(|| MANUAL_TAG.to_owned(), |tick| format!("{OF_TICK}{tick}")));
        tags
    }

    /// Reports all problems at once. Intervals count from `anchor`, the creation time.
    pub fn plan(&self, anchor: Time) -> Result<Plan, Invalid> {
        let mut invalid = Invalid::default();
        self.check_job(&mut invalid);
        self.check_size(&mut invalid);
        let calendars = &self.own_calendars(&mut invalid);
        if self.rules.is_empty() || self.rules.len() > MAX_RULES {
            invalid.add("rules", format!("must be 1 to {MAX_RULES}, not {}", self.rules.len()));
        }
        let catch_up = self.catch_up.unwrap_or(DEFAULT_CATCH_UP);
        if !(1..=MAX_CATCH_UP).contains(&catch_up) {
            invalid.add("catch_up", format!("must be 1 to {MAX_CATCH_UP}, not {catch_up}"));
        }
        let zone = self.zone.as_deref().map(Zone::named).transpose().unwrap_or_else(|error| {
            invalid.add("zone", error.to_string());
            None
        });
        let mut rules = Vec::new();
        for (n, rule) in self.rules.iter().enumerate().take(MAX_RULES) {
            match rule.check(zone.as_ref(), calendars, anchor) {
                Ok(rule) => rules.push(rule),
                Err(refused) => {
                    for problem in refused.problems {
                        // A problem with the whole expression belongs to the field `expr`.
                        let part = match problem.field.as_str() {
                            "expression" | "interval" => "expr",
                            part => part,
                        };
                        invalid.add(format!("rules[{n}].{part}"), problem.rule);
                    }
                }
            }
        }
        invalid.into_result()?;
        Ok(Plan::new(rules, self.misfire, catch_up))
    }

    fn check_job(&self, invalid: &mut Invalid) {
        // The name must fit into a tag of its jobs.
        invalid.check_name_of("name", &self.name, MAX_NAME_BYTES - OF_SCHEDULE.len());
        invalid.check_name("kind", &self.kind);
        invalid.check_payload("payload", self.payload.len());
        if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&self.payload) {
            invalid.add("payload", format!("is not JSON: {error}"));
        }
        if let Some(priority) = self.priority {
            invalid.check_priority("priority", priority);
        }
        if let Some(attempts) = self.max_attempts {
            invalid.check_attempts("max_attempts", attempts);
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            invalid.add("timeout", "must be longer than zero");
        }
        for (field, key) in [("unique_key", &self.unique_key), ("concurrency_key", &self.concurrency_key)] {
            if let Some(key) = key {
                invalid.check_key(field, key);
            }
        }
        invalid.check_tags("tags", &self.tags);
        let tags = self.tags.len();
        if tags > MAX_TAGS - OWN_TAGS && tags <= MAX_TAGS {
            invalid.add("tags", format!("has {tags} entries; {OWN_TAGS} of {MAX_TAGS} are the schedule's"));
        }
    }

    fn check_size(&self, invalid: &mut Invalid) {
        let bytes = self.payload.len() + self.to_kept().len();
        if bytes > MAX_SCHEDULE_BYTES && self.payload.len() <= crate::input::MAX_PAYLOAD_BYTES {
            let field = if self.payload.len() > MAX_SCHEDULE_BYTES / 2 { "payload" } else { "calendars" };
            let rule = format!("make a schedule of {bytes} bytes; at most {MAX_SCHEDULE_BYTES} are allowed");
            invalid.add(field, rule);
        }
    }

    /// The built-in calendars and the schedule's own.
    fn own_calendars(&self, invalid: &mut Invalid) -> Calendars {
        let mut calendars = Calendars::default();
        if self.calendars.len() > MAX_CALENDARS {
            let rule = format!("are {}; at most {MAX_CALENDARS} are allowed", self.calendars.len());
            invalid.add("calendars", rule);
            return calendars;
        }
        for spec in &self.calendars {
            match spec.check() {
                Ok(calendar) => calendars.add(calendar),
                Err(refused) => {
                    for problem in refused.problems {
                        let name = shown(&spec.name);
                        invalid.add(format!("calendars.{name}.{}", problem.field), problem.rule);
                    }
                }
            }
        }
        calendars
    }
}

impl RuleSpec {
    fn check(&self, zone: Option<&Zone>, calendars: &Calendars, anchor: Time) -> Result<Rule, Invalid> {
        let mut invalid = Invalid::default();
        let timing =
            Timing::parse(&self.expr).map_err(|refused| invalid.problems.extend(refused.problems)).ok();
        let calendar = match self.calendar.as_deref().map(|name| calendars.named(name)) {
            Some(Ok(calendar)) => Some(calendar.clone()),
            Some(Err(rule)) => {
                invalid.add("calendar", rule);
                None
            }
            None if !self.during.is_empty() => {
                invalid.add("during", "means something only with calendar");
                None
            }
            None => None,
        };
        let own = self.zone.as_deref().map(Zone::named).transpose().unwrap_or_else(|error| {
            invalid.add("zone", error.to_string());
            None
        });
        let of_calendar = calendar.as_ref().map(|calendar| calendar.zone());
        let zone = own.as_ref().or(zone).or(of_calendar).unwrap_or(&Zone::UTC).clone();
        let during = if self.during.is_empty() { vec![Phase::Open] } else { self.during.clone() };
        let Some(timing) = timing.filter(|_| invalid.problems.is_empty()) else { return Err(invalid) };
        let rule = Rule { timing, zone, anchor, within: calendar.map(|calendar| (calendar, during)) };
        if rule.next(anchor).is_none() {
            return Err(Invalid::one("expr", "never ticks in the phases of the calendar it is bound to"));
        }
        Ok(rule)
    }
}
