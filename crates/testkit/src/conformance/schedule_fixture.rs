//! Shared by the schedule cases: a spec, and the tick of a schedule as the engine computes it.

use std::time::Duration;

use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::store::{DueSchedules, Put, ScheduleRecord, Tick};
use windlass_core::{NewJob, Time};

use super::{Harness, KIND};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn spec(name: &str, expr: &str) -> ScheduleSpec {
    ScheduleSpec {
        name: name.to_owned(),
        kind: KIND.to_owned(),
        payload: b"{ \"n\": 1 }".to_vec(),
        rules: vec![RuleSpec { expr: expr.to_owned(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    }
}

impl Harness {
    /// Creates a schedule, which must be new.
    pub(super) async fn schedule(&self, spec: &ScheduleSpec) -> ScheduleRecord {
        let put = self.store.put_schedule(spec, None).await.unwrap();
        assert_eq!(put.what, Put::Created);
        put.record
    }

    pub(super) async fn read(&self, name: &str) -> ScheduleRecord {
        let found = self.store.schedule(name).await.unwrap();
        found.unwrap_or_else(|| panic!("the schedule {name} is gone"))
    }

    pub(super) async fn due(&self, limit: u32) -> DueSchedules {
        self.store.due_schedules(self.now().await, limit).await.unwrap()
    }

    /// The tick of a schedule at `now`, with the jobs for all ticks since the last one.
    pub(super) fn tick_of(&self, record: &ScheduleRecord, now: Time) -> Tick {
        let spec = record.spec().unwrap();
        let plan = spec.plan(record.created_at).unwrap();
        let due = plan.due(record.last_tick, now);
        let last_tick = due.last.unwrap_or(record.last_tick);
        let jobs = due.ticks.iter().map(|tick| NewJob { tags: spec.job_tags(Some(*tick)), ..self.job() });
        Tick {
            name: record.name.clone(),
            revision: record.revision,
            from: record.last_tick,
            last_tick,
            next_at: plan.next(last_tick),
            missed: due.missed,
            jobs: jobs.collect(),
        }
    }
}
