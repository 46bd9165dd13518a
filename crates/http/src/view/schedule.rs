//! A schedule and its state.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_core::schedule::{CalendarSpec, DEFAULT_CATCH_UP, RuleSpec, ScheduleSpec};
use windlass_core::store::ScheduleRecord;
use windlass_core::{Time, duration};
use windlass_pack::shape;

use super::{Stamp, raw};

/// Number of future ticks shown.
const AHEAD: usize = 5;

shape! {
    /// A recurring job and its next ticks.
    pub struct ScheduleView as "Schedule" {
        pub name: String,
        pub kind: String,
        /// For each of its jobs, byte for byte.
        pub payload: Option<Box<RawValue>>,
        /// It ticks whenever one of them does.
        pub rules: Vec<RuleView>,
        /// For rules without a zone; null means their calendar's, else UTC.
        pub zone: Option<String>,
        /// Its own calendars by name.
        pub calendars: Value,
        /// skip, once or all.
        pub misfire: &'static str,
        /// Most ticks caught up at once under `all`.
        pub catch_up: u32,
        /// null means the kind's.
        pub priority: Option<i64>,
        pub max_attempts: Option<i64>,
        pub timeout: Option<String>,
        pub unique_key: Option<String>,
        pub concurrency_key: Option<String>,
        pub tags: Vec<String>,
        pub paused: bool,
        /// The latest tick processed.
        pub last_tick: Option<Stamp>,
        /// null if it is paused or never ticks again.
        pub next_tick: Option<Stamp>,
        /// The next few.
        pub next_ticks: Vec<Stamp>,
        /// Ticks without a job, because of the policy or because there were too many.
        pub missed: u64,
        pub created_at: Stamp,
        pub updated_at: Stamp,
        /// Why this server cannot evaluate it.
        pub error: Option<String>,
    }
}

shape! {
    /// One expression, optionally restricted to phases of a calendar.
    pub struct RuleView as "Rule" {
        pub expr: String,
        pub zone: Option<String>,
        pub calendar: Option<String>,
        /// open, after_hours or day_off.
        pub during: Vec<&'static str>,
    }
}

impl From<&RuleSpec> for RuleView {
    fn from(rule: &RuleSpec) -> RuleView {
        RuleView {
            expr: rule.expr.clone(),
            zone: rule.zone.clone(),
            calendar: rule.calendar.clone(),
            during: rule.during.iter().map(|phase| phase.name()).collect(),
        }
    }
}

impl From<&ScheduleRecord> for ScheduleView {
    fn from(record: &ScheduleRecord) -> ScheduleView {
        let (spec, error) = match record.spec() {
            Ok(spec) => (spec, None),
            Err(error) => (ScheduleSpec::default(), Some(error.chain())),
        };
        let ahead = ahead(record, &spec);
        ScheduleView {
            name: record.name.clone(),
            payload: raw(&record.payload),
            rules: spec.rules.iter().map(RuleView::from).collect(),
            zone: spec.zone,
            calendars: calendars(&spec.calendars),
            misfire: spec.misfire.name(),
            catch_up: spec.catch_up.unwrap_or(DEFAULT_CATCH_UP),
            priority: spec.priority,
            max_attempts: spec.max_attempts,
            timeout: spec.timeout.map(duration::format),
            unique_key: spec.unique_key,
            concurrency_key: spec.concurrency_key,
            tags: spec.tags,
            kind: spec.kind,
            paused: record.paused,
            last_tick: record.ticked().map(Stamp),
            next_tick: ahead.first().copied().map(Stamp),
            next_ticks: ahead.into_iter().map(Stamp).collect(),
            missed: record.missed,
            created_at: Stamp(record.created_at),
            updated_at: Stamp(record.updated_at),
            error,
        }
    }
}

fn ahead(record: &ScheduleRecord, spec: &ScheduleSpec) -> Vec<Time> {
    let plan = spec.plan(record.created_at).ok();
    let next = record.next_at.filter(|_| !record.paused);
    let following = |tick: &Time| plan.as_ref().and_then(|plan| plan.next(*tick));
    std::iter::successors(next, following).take(AHEAD).collect()
}

fn calendars(own: &[CalendarSpec]) -> Value {
    let named = own.iter().map(|calendar| {
        let CalendarSpec { name, zone, sessions, closed, half_days } = calendar;
        let shown = json!({ "zone": zone, "sessions": sessions, "closed": closed, "half_days": half_days });
        (name.clone(), shown)
    });
    Value::Object(named.collect::<Map<_, _>>())
}
