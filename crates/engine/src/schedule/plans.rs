//! Parsed schedules, kept from tick to tick, and the tick of each.

use std::collections::{BTreeSet, HashMap, HashSet};

use windlass_core::schedule::{Plan, ScheduleSpec};
use windlass_core::store::{ScheduleRecord, Tick};
use windlass_core::{Invalid, NewJob, OnConflict, Time};

use crate::{Catalog, JobRequest};

/// Parsed schedules kept at most; the others are parsed again when they are due.
const KEPT: usize = 20_000;

#[derive(Default)]
pub(super) struct Plans {
    by_name: HashMap<String, Parsed>,
    /// Schedules already logged: one that cannot be ticked is read again every second.
    told: HashSet<(String, i64)>,
}

/// Valid while the row has this revision and creation time.
struct Parsed {
    revision: i64,
    created_at: Time,
    /// Without its payload, which is in every row read.
    spec: ScheduleSpec,
    plan: Plan,
}

impl Plans {
    /// Parses what is new and returns the kinds that will be enqueued.
    pub(super) fn read(&mut self, records: &[ScheduleRecord]) -> BTreeSet<String> {
        if self.by_name.len() + records.len() > KEPT {
            self.by_name.clear();
            self.told.clear();
        }
        let mut kinds = BTreeSet::new();
        for record in records {
            if self.parsed(record).is_none() {
                match parse(record) {
                    Ok(parsed) => drop(self.by_name.insert(record.name.clone(), parsed)),
                    Err(why) => self.complain(record, &why),
                }
            }
            kinds.extend(self.parsed(record).map(|parsed| parsed.spec.kind.clone()));
        }
        kinds
    }

    fn parsed(&self, record: &ScheduleRecord) -> Option<&Parsed> {
        let same =
            |parsed: &&Parsed| parsed.revision == record.revision && parsed.created_at == record.created_at;
        self.by_name.get(&record.name).filter(same)
    }

    /// A schedule that cannot be ticked here is skipped: another process may know its kind, or be newer.
    pub(super) fn ticks(&mut self, records: &[ScheduleRecord], catalog: &Catalog, now: Time) -> Vec<Tick> {
        let mut ticks = Vec::with_capacity(records.len());
        for record in records {
            let Some(parsed) = self.parsed(record) else { continue };
            match parsed.tick(record, catalog, now) {
                Ok(tick) => ticks.push(tick),
                Err(invalid) => self.complain(record, &invalid.to_string()),
            }
        }
        ticks
    }

    fn complain(&mut self, record: &ScheduleRecord, why: &str) {
        if self.told.insert((record.name.clone(), record.revision)) {
            tracing::error!(schedule = record.name, why, "a schedule that is due cannot be ticked here");
        }
    }
}

fn parse(record: &ScheduleRecord) -> Result<Parsed, String> {
    let mut spec = record.spec().map_err(|error| error.chain())?;
    let plan = spec.plan(record.created_at).map_err(|invalid| invalid.to_string())?;
    spec.payload.clear();
    Ok(Parsed { revision: record.revision, created_at: record.created_at, spec, plan })
}

impl Parsed {
    fn tick(&self, record: &ScheduleRecord, catalog: &Catalog, now: Time) -> Result<Tick, Invalid> {
        let due = self.plan.due(record.last_tick, now);
        let mut jobs = Vec::with_capacity(due.ticks.len());
        if !due.ticks.is_empty() {
            let job = request(&self.spec, record.payload.clone()).resolve(catalog)?;
            jobs.extend(
                due.ticks.iter().map(|tick| NewJob { tags: self.spec.job_tags(Some(*tick)), ..job.clone() }),
            );
        }
        if due.missed > 0 {
            let (schedule, missed) = (&record.name, due.missed);
            tracing::info!(schedule, missed, "ticks passed without a job");
        }
        let last_tick = due.last.unwrap_or(record.last_tick);
        Ok(Tick {
            name: record.name.clone(),
            revision: record.revision,
            from: record.last_tick,
            last_tick,
            next_at: self.plan.next(last_tick),
            missed: due.missed,
            jobs,
        })
    }
}

/// The job of a schedule, without its tags.
pub(super) fn request(spec: &ScheduleSpec, payload: Vec<u8>) -> JobRequest {
    JobRequest {
        kind: spec.kind.clone(),
        payload,
        priority: spec.priority,
        max_attempts: spec.max_attempts,
        timeout: spec.timeout,
        on_conflict: spec.unique_key.is_some().then_some(OnConflict::Keep),
        unique_key: spec.unique_key.clone(),
        concurrency_key: spec.concurrency_key.clone(),
        ..JobRequest::default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use windlass_core::{KindId, NewJob, QueueId, RunAt};

    pub(crate) fn job() -> NewJob {
        NewJob {
            kind: KindId(1),
            queue: QueueId(1),
            priority: 5,
            payload: Vec::new(),
            run_at: RunAt::Now,
            max_attempts: 1,
            timeout: None,
            unique: None,
            idempotency: None,
            concurrency_key: None,
            tags: Vec::new(),
            entity: None,
        }
    }
}
