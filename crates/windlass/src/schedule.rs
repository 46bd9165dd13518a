//! Schedules of typed jobs.

use std::time::Duration;

use windlass_core::schedule::{CalendarSpec, Misfire, RuleSpec, ScheduleSpec};
use windlass_core::{Invalid, duration};

use crate::Job;

/// Enqueues a job whenever one of its rules is due.
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
    /// Why the payload cannot be written as JSON.
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

    /// A cron expression: five fields, six with seconds first, or a name such as `@daily`.
    pub fn cron(self, expr: impl Into<String>) -> Schedule {
        self.rule(RuleSpec { expr: expr.into(), ..RuleSpec::default() })
    }

    /// A fixed period, counted from the creation of the schedule.
    pub fn every(self, period: Duration) -> Schedule {
        self.cron(format!("every {}", duration::format(period)))
    }

    /// A rule with its own time zone, or limited to phases of a calendar.
    pub fn rule(mut self, rule: RuleSpec) -> Schedule {
        self.spec.rules.push(rule);
        self
    }

    /// Default time zone of rules without one, an IANA name; UTC if unset.
    pub fn zone(mut self, zone: impl Into<String>) -> Schedule {
        self.spec.zone = Some(zone.into());
        self
    }

    /// A calendar that rules may name, besides NYSE.
    pub fn calendar(mut self, calendar: CalendarSpec) -> Schedule {
        self.spec.calendars.push(calendar);
        self
    }

    /// What happens to ticks missed while no worker ran. The default is one job for all of them.
    pub fn misfire(mut self, misfire: Misfire) -> Schedule {
        self.spec.misfire = misfire;
        self
    }

    /// Most missed ticks enqueued at once under [`Misfire::All`]; the default is 100.
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

    /// A tick adds no job while one with this key is waiting.
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

/// Prefixes each problem with the name of the schedule.
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
    fn a_period_of_any_precision_ticks_exactly() {
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
