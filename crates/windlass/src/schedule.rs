//! Schedules of typed jobs.

use std::time::Duration;

use windlass_core::schedule::{CalendarSpec, Misfire, RuleSpec, ScheduleSpec};
use windlass_core::{Invalid, duration};

use crate::Job;

/// When a job is enqueued again and again. It ticks whenever one of its rules does.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, Misfire, Schedule};
/// # #[derive(Serialize, Deserialize)] struct Report {}
/// # impl Job for Report { const KIND: &'static str = "REPORT"; }
/// let nightly = Schedule::new("nightly-report", Report {})
///     .cron("30 2 * * MON-FRI")
///     .zone("Europe/Berlin")
///     .misfire(Misfire::Once);
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    spec: ScheduleSpec,
    /// The payload could not be written as JSON.
    unwritable: Option<String>,
}

impl Schedule {
    pub fn new<J: Job>(name: impl Into<String>, job: J) -> Schedule {
        let payload = serde_json::to_vec(&job);
        let unwritable = payload.as_ref().err().map(ToString::to_string);
        let spec = ScheduleSpec {
            name: name.into(),
            kind: J::KIND.to_owned(),
            payload: payload.unwrap_or_else(|_| b"null".to_vec()),
            ..ScheduleSpec::default()
        };
        Schedule { spec, unwritable }
    }

    /// Five fields, six with seconds first, or `@daily` and its kin.
    pub fn cron(self, expr: impl Into<String>) -> Schedule {
        self.rule(RuleSpec { expr: expr.into(), ..RuleSpec::default() })
    }

    /// In elapsed time, counted from when the schedule was made.
    pub fn every(self, period: Duration) -> Schedule {
        self.cron(format!("every {}", duration::format(period)))
    }

    /// An expression with a zone of its own, or bound to phases of a calendar.
    pub fn rule(mut self, rule: RuleSpec) -> Schedule {
        self.spec.rules.push(rule);
        self
    }

    /// Of the rules that name none: an IANA name. UTC when not said.
    pub fn zone(mut self, zone: impl Into<String>) -> Schedule {
        self.spec.zone = Some(zone.into());
        self
    }

    /// A calendar that rules may name, besides NYSE.
    pub fn calendar(mut self, calendar: CalendarSpec) -> Schedule {
        self.spec.calendars.push(calendar);
        self
    }

    /// What becomes of ticks that nobody was there for; the latest stands for all of them when not said.
    pub fn misfire(mut self, misfire: Misfire) -> Schedule {
        self.spec.misfire = misfire;
        self
    }

    /// Most ticks made up for at once under [`Misfire::All`]; 100 when not said.
    pub fn catch_up(mut self, ticks: u32) -> Schedule {
        self.spec.catch_up = Some(ticks);
        self
    }

    /// 0 is the most urgent, 10 the least.
    pub fn priority(mut self, priority: u8) -> Schedule {
        self.spec.priority = Some(i64::from(priority));
        self
    }

    pub fn max_attempts(mut self, runs: u16) -> Schedule {
        self.spec.max_attempts = Some(i64::from(runs));
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Schedule {
        self.spec.timeout = Some(timeout);
        self
    }

    /// A tick that finds a waiting job of this key adds none.
    pub fn unique_key(mut self, key: impl Into<String>) -> Schedule {
        self.spec.unique_key = Some(key.into());
        self
    }

    pub fn tag(mut self, tag: impl Into<String>) -> Schedule {
        self.spec.tags.push(tag.into());
        self
    }

    pub(crate) fn into_spec(self) -> Result<ScheduleSpec, Invalid> {
        match self.unwritable {
            None => Ok(self.spec),
            Some(error) => {
                let invalid = Invalid::one("payload", format!("cannot be written as JSON: {error}"));
                Err(of(&self.spec.name, invalid))
            }
        }
    }
}

/// The problems of one schedule among others.
pub(crate) fn of(name: &str, mut invalid: Invalid) -> Invalid {
    for problem in &mut invalid.problems {
        problem.field = format!("schedules.{name}.{}", problem.field);
    }
    invalid
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use windlass_core::Time;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Report {}

    impl Job for Report {
        const KIND: &'static str = "REPORT";
    }

    #[test]
    fn it_ticks_exactly_as_often_as_was_said() {
        for period in ["1.5s", "25h1m", "1h30m15.25s", "100.001ms"].map(|text| duration::parse(text).unwrap())
        {
            let spec = Schedule::new("often", Report {}).every(period).into_spec().unwrap();
            let plan = spec.plan(Time(0)).unwrap();
            let ticks: Vec<Time> =
                std::iter::successors(plan.next(Time(0)), |tick| plan.next(*tick)).take(3).collect();
            let micros = i64::try_from(period.as_micros()).unwrap();
            assert_eq!(ticks, [Time(micros), Time(2 * micros), Time(3 * micros)], "{period:?}");
        }
    }
}
