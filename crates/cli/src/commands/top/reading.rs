//! What is read each time, and how little of it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use windlass_core::store::{
    DEPTH_SHOWN, JobFilter, LATENCY_BUCKETS, Page, ResourceUse, Rollup, WorkerRow, latency_quantile,
};
use windlass_core::{JobState, QueueId, Store, StoreError, Time, WorkerId};

use crate::output::{short, visible};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);
/// Minutes in a queue's plot.
pub(super) const MINUTES: usize = 30;
/// Workers count by the minute and write every ten seconds: reading that more often shows nothing new.
const COUNTS_FRESH: Duration = Duration::from_secs(5);
const RUNNING_SHOWN: u32 = 200;
const FAILURES_SHOWN: usize = 30;
/// Among the newest so many jobs.
const FAILURES_READ: u32 = 200;
const ERROR_SHOWN: usize = 300;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Reading {
    pub(super) at: String,
    pub(super) queues: Vec<QueueLine>,
    pub(super) workers: Vec<WorkerLine>,
    /// Newest first.
    pub(super) failures: Vec<FailureLine>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct QueueLine {
    pub(super) name: String,
    pub(super) paused: bool,
    /// Due jobs, counted up to 10000.
    pub(super) depth: u64,
    /// Jobs whose time lies ahead, counted up to 10000.
    pub(super) scheduled: u64,
    pub(super) running: u64,
    pub(super) oldest_seconds: Option<f64>,
    pub(super) p95_seconds: Option<f64>,
    pub(super) sla_seconds: Option<f64>,
    /// Jobs all processes together may run at once; what the workers say they have.
    pub(super) slots: Option<u64>,
    pub(super) global_concurrency: Option<u32>,
    /// In the last seconds: between two readings that differ, or else in this minute so far.
    pub(super) completed_per_s: f64,
    pub(super) failed_per_s: f64,
    /// Completed in each of the last minutes, the newest last.
    pub(super) completed_by_minute: Vec<u64>,
    #[serde(skip)]
    pub(super) id: QueueId,
}

impl QueueLine {
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.oldest_seconds.map(whole)
    }

    pub(super) fn p95(&self) -> Option<Duration> {
        self.p95_seconds.map(Duration::from_secs_f64)
    }

    pub(super) fn sla(&self) -> Option<Duration> {
        self.sla_seconds.map(Duration::from_secs_f64)
    }

    pub(super) fn breaks_sla(&self) -> bool {
        matches!((self.p95_seconds, self.sla_seconds), (Some(p95), Some(sla)) if p95 > sla)
    }

    pub(super) fn is_capped(&self) -> bool {
        self.depth >= DEPTH_SHOWN
    }

    pub(super) fn shown_depth(&self) -> String {
        if self.is_capped() { format!("{DEPTH_SHOWN}+") } else { self.depth.to_string() }
    }

    pub(super) fn state(&self) -> &'static str {
        match () {
            () if self.paused => "paused",
            () if self.breaks_sla() => "late",
            () if self.depth > 0 || self.running > 0 => "works",
            () => "idle",
        }
    }
}

/// Ages are read by people: seconds are enough from one on.
fn whole(seconds: f64) -> Duration {
    if seconds < 1.0 {
        Duration::from_millis((seconds * 1e3) as u64)
    } else {
        Duration::from_secs(seconds as u64)
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkerLine {
    pub(super) id: String,
    pub(super) process: String,
    pub(super) running: u64,
    /// Of all its queues together.
    pub(super) slots: u64,
    pub(super) resources: Vec<Held>,
    /// Some of what it runs, by kind.
    pub(super) kinds: Vec<KindCount>,
    pub(super) heard_seconds: f64,
    pub(super) up_seconds: f64,
}

impl WorkerLine {
    /// `browser 2/3`, for each resource.
    pub(super) fn permits(&self) -> String {
        let each =
            self.resources.iter().map(|of| format!("{} {}/{}", visible(&of.resource), of.in_use, of.permits));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Permits of a resource.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Held {
    pub(super) resource: String,
    pub(super) in_use: u64,
    pub(super) permits: u32,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct KindCount {
    pub(super) kind: String,
    pub(super) jobs: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FailureLine {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) ago_seconds: f64,
    pub(super) error: String,
}

/// What the workers counted about one queue.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    p95: Option<Duration>,
    completed_per_s: f64,
    failed_per_s: f64,
    by_minute: Vec<u64>,
    /// Of the last hour.
    completed: u64,
    failed: u64,
}

pub(super) struct Reader {
    store: Arc<dyn Store>,
    counts: HashMap<QueueId, Counts>,
    counted: Option<Instant>,
    /// When the counts were last found changed, by the database's clock, and what they were before.
    paces: HashMap<QueueId, Pace>,
}

impl Reader {
    pub(super) fn new(store: Arc<dyn Store>) -> Reader {
        Reader { store, counts: HashMap::new(), counted: None, paces: HashMap::new() }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) async fn read(&mut self) -> Result<Reading, StoreError> {
        let now = self.store.now().await?;
        if self.counted.is_none_or(|at| at.elapsed() >= COUNTS_FRESH) {
            self.counts = counts(&self.store.rollups(now.minus(HOUR)).await?, now);
            self.counted = Some(Instant::now());
            for (queue, counts) in &mut self.counts {
                self.paces.entry(*queue).or_insert_with(|| Pace::new(counts, now)).look(counts, now);
            }
        }
        let workers = self.store.workers().await?;
        Ok(Reading {
            at: Time(now.0 - now.0.rem_euclid(1_000_000)).to_string(),
            queues: self.queues(&workers).await?,
            workers: self.workers(workers, now).await?,
            failures: self.failures(now).await?,
        })
    }

    async fn queues(&self, workers: &[WorkerRow]) -> Result<Vec<QueueLine>, StoreError> {
        let slots = |queue: QueueId| {
            let of = workers.iter().flat_map(|worker| &worker.concurrency).filter(|(of, _)| *of == queue);
            Some(of.map(|(_, slots)| u64::from(*slots)).sum()).filter(|slots| *slots > 0)
        };
        let mut queues = self.store.queues().await?;
        queues.sort_by_key(|queue| (queue.spec.priority, queue.id));
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let line = |queue: windlass_core::store::QueueState| {
            let counts = self.counts.get(&queue.id).cloned().unwrap_or_default();
            QueueLine {
                name: queue.spec.name.clone(),
                paused: queue.paused,
                depth: queue.depth,
                scheduled: queue.scheduled,
                running: queue.running,
                oldest_seconds: seconds(queue.oldest),
                p95_seconds: seconds(counts.p95),
                sla_seconds: seconds(queue.spec.sla),
                slots: slots(queue.id),
                global_concurrency: queue.spec.global_concurrency,
                completed_per_s: counts.completed_per_s,
                failed_per_s: counts.failed_per_s,
                completed_by_minute: counts.by_minute,
                id: queue.id,
            }
        };
        Ok(queues.into_iter().map(line).collect())
    }

    async fn workers(&self, workers: Vec<WorkerRow>, now: Time) -> Result<Vec<WorkerLine>, StoreError> {
        let mut kinds: HashMap<WorkerId, Vec<KindCount>> = HashMap::new();
        if workers.iter().any(|worker| worker.running > 0) {
            for job in self.jobs(&[JobState::Running], RUNNING_SHOWN).await? {
                let Some(worker) = job.worker else { continue };
                let seen = kinds.entry(worker).or_default();
                match seen.iter_mut().find(|count| count.kind == job.kind) {
                    Some(count) => count.jobs += 1,
                    None => seen.push(KindCount { kind: job.kind, jobs: 1 }),
                }
            }
        }
        let held = |of: ResourceUse| Held { resource: of.resource, in_use: of.in_use, permits: of.permits };
        let line = |worker: WorkerRow| WorkerLine {
            id: worker.id.to_string(),
            process: worker.label,
            running: worker.running,
            slots: worker.concurrency.iter().map(|(_, slots)| u64::from(*slots)).sum(),
            resources: worker.resources.into_iter().map(held).collect(),
            kinds: kinds.remove(&worker.id).unwrap_or_default(),
            heard_seconds: now.since(worker.heartbeat_at).as_secs_f64(),
            up_seconds: now.since(worker.started_at).as_secs_f64(),
        };
        Ok(workers.into_iter().map(line).collect())
    }

    async fn failures(&self, now: Time) -> Result<Vec<FailureLine>, StoreError> {
        let mut jobs = self.jobs(&[JobState::Failed, JobState::DeadLetter], FAILURES_READ).await?;
        // The list is by id, which is the order they were enqueued in.
        jobs.sort_by_key(|job| Reverse(job.finished_at));
        jobs.truncate(FAILURES_SHOWN);
        let line = |job: windlass_core::JobRecord| FailureLine {
            id: job.id.to_string(),
            kind: job.kind,
            state: job.state.name().to_owned(),
            ago_seconds: job.finished_at.map_or(0.0, |at| now.since(at).as_secs_f64()),
            error: short(&job.last_error.unwrap_or_default(), ERROR_SHOWN),
        };
        Ok(jobs.into_iter().map(line).collect())
    }

    async fn jobs(
        &self,
        states: &[JobState],
        limit: u32,
    ) -> Result<Vec<windlass_core::JobRecord>, StoreError> {
        let filter = JobFilter { states: states.to_vec(), ..JobFilter::default() };
        self.store.list(&filter, &Page { before: None, limit }).await
    }
}

/// What the workers have counted reaches the tables every ten seconds: the rate is between the last two looks that
/// differ, and nothing once no news came for longer than that.
#[derive(Debug)]
struct Pace {
    at: Time,
    completed: u64,
    failed: u64,
    per_s: Option<(f64, f64)>,
}

/// Twice what workers take to write.
const NO_NEWS: Duration = Duration::from_secs(20);

impl Pace {
    fn new(counts: &Counts, at: Time) -> Pace {
        Pace { at, completed: counts.completed, failed: counts.failed, per_s: None }
    }

    /// Puts the rate of the last seconds where it is known.
    fn look(&mut self, counts: &mut Counts, now: Time) {
        let (completed, failed) = (counts.completed, counts.failed);
        let since = now.since(self.at);
        if (completed, failed) != (self.completed, self.failed) {
            let per_s =
                |now: u64, before: u64| now.saturating_sub(before) as f64 / since.as_secs_f64().max(1.0);
            let rates = (per_s(completed, self.completed), per_s(failed, self.failed));
            *self = Pace { at: now, completed, failed, per_s: Some(rates) };
        } else if since > NO_NEWS {
            self.per_s = Some((0.0, 0.0));
        }
        if let Some((completed, failed)) = self.per_s {
            (counts.completed_per_s, counts.failed_per_s) = (completed, failed);
        }
    }
}

fn counts(rollups: &[Rollup], now: Time) -> HashMap<QueueId, Counts> {
    let micros = i64::try_from(MINUTE.as_micros()).unwrap_or(i64::MAX);
    let this_minute = now.0.div_euclid(micros);
    // Workers write every ten seconds, so a minute that has just begun is empty whatever they do.
    let recent = ((now.0 - this_minute * micros) as f64 / 1e6).max(10.0);
    let mut latency: HashMap<QueueId, Vec<u64>> = HashMap::new();
    let mut all: HashMap<QueueId, Counts> = HashMap::new();
    for rollup in rollups {
        let buckets = latency.entry(rollup.queue).or_insert_with(|| vec![0; LATENCY_BUCKETS]);
        for (bucket, count) in buckets.iter_mut().zip(&rollup.latency) {
            *bucket += u64::from(*count);
        }
        let counts = all.entry(rollup.queue).or_default();
        counts.by_minute.resize(MINUTES, 0);
        counts.completed += rollup.completed;
        counts.failed += rollup.retried + rollup.dead;
        let back = this_minute - rollup.minute.0.div_euclid(micros);
        if let Some(slot) = usize::try_from(back).ok().and_then(|back| (MINUTES - 1).checked_sub(back)) {
            counts.by_minute[slot] += rollup.completed;
        }
        if back <= 0 {
            counts.completed_per_s += rollup.completed as f64 / recent;
            counts.failed_per_s += (rollup.retried + rollup.dead) as f64 / recent;
        }
    }
    for (queue, buckets) in latency {
        if let Some(counts) = all.get_mut(&queue) {
            counts.p95 = latency_quantile(&buckets, 0.95);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::KindId;

    fn rollups() -> ([Rollup; 4], Time) {
        let minute = |n: i64| Time(n * 60_000_000);
        let rollup = |at, completed| Rollup { completed, dead: 1, ..Rollup::new(at, QueueId(1), KindId(1)) };
        let rollups =
            [rollup(minute(100), 30), rollup(minute(99), 60), rollup(minute(98), 600), rollup(minute(60), 9)];
        (rollups, Time(minute(100).0 + 30_000_000))
    }

    #[test]
    fn a_first_look_knows_this_minute_alone() {
        let (rollups, now) = rollups();
        let counts = &counts(&rollups, now)[&QueueId(1)];
        assert_eq!(counts.completed_per_s, 1.0);
        assert!((counts.failed_per_s - 1.0 / 30.0).abs() < 1e-9);
        assert_eq!(counts.by_minute[MINUTES - 3..], [600, 60, 30]);
        assert_eq!(counts.by_minute.iter().sum::<u64>(), 690, "what is older than the plot is not in it");
    }

    /// A queue that stands still shows nothing soon, whatever it did a minute ago.
    #[test]
    fn rates_are_of_the_last_seconds() {
        let (mut rollups, mut now) = rollups();
        let mut look = |pace: &mut Option<Pace>, more: u64, seconds: i64| {
            rollups[0].completed += more;
            now = Time(now.0 + seconds * 1_000_000);
            let mut counts = counts(&rollups, now).remove(&QueueId(1)).unwrap();
            pace.get_or_insert_with(|| Pace::new(&counts, now)).look(&mut counts, now);
            counts.completed_per_s
        };
        let mut pace = None;
        assert_eq!(look(&mut pace, 0, 0), 1.0);
        assert_eq!(look(&mut pace, 50, 10), 5.0);
        assert_eq!(look(&mut pace, 0, 5), 5.0, "the workers write every ten seconds");
        assert_eq!(look(&mut pace, 20, 5), 2.0);
        assert_eq!(look(&mut pace, 0, 21), 0.0, "nothing ends any more");
    }
}
