//! Concurrency that follows the backlog: what each queue with bounds is seen to do, and a step of its tuner every few
//! seconds. Decisions are `core::scale`'s.
//!
//! Also tells the store about this worker's limits whenever they change.

use std::time::{Duration, Instant};

use windlass_core::scale::{Seen, patience};
use windlass_core::store::{Backlog, WorkerLimits};
use windlass_core::{QueueId, StoreError};

use super::dispatch::{Dispatcher, Event, Phase, answered};

const STEP_EVERY: Duration = Duration::from_secs(5);
/// Pause before limits that could not be reported are reported again.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// A backlog is counted only as far as the decision needs it, and never further than this.
const MAX_COUNT: f64 = 1_000_000.0;

/// What was seen of a queue since its last step.
#[derive(Debug)]
pub(super) struct Observed {
    since: Instant,
    ended: u64,
    pub(super) busiest: u32,
    /// The concurrency to start with, as the configuration or an operator set it.
    pub(super) started: Option<u32>,
}

impl Observed {
    pub(super) fn new(now: Instant) -> Observed {
        Observed { since: now, ended: 0, busiest: 0, started: None }
    }

    fn per_second(&self, now: Instant) -> f64 {
        self.ended as f64 / now.saturating_duration_since(self.since).as_secs_f64().max(0.001)
    }
}

/// Whether the store knows this worker's limits. Only what people are shown depends on it.
pub(super) struct LimitReports {
    outdated: bool,
    under_way: bool,
    not_before: Instant,
}

impl LimitReports {
    pub(super) fn new(now: Instant) -> LimitReports {
        LimitReports { outdated: true, under_way: false, not_before: now }
    }

    pub(super) fn changed(&mut self) {
        self.outdated = true;
    }
}

impl Dispatcher {
    /// Asks for the backlog of each queue with bounds; the answer brings the next step.
    pub(super) fn start_tuning(&mut self, now: Instant) {
        if now < self.tune_at || !matches!(self.phase, Phase::Working) {
            return;
        }
        self.tune_at = now + STEP_EVERY;
        for work in self.queues.iter().filter(|work| work.tuner.is_some() && !work.paused) {
            let sla = self.client.catalog().queue(work.id).and_then(|queue| queue.spec.sla);
            // How fast all workers together drain it is not known yet; ten times our own rate is enough to decide.
            let needed = work.observed.per_second(now) * 10.0 * patience(sla).as_secs_f64();
            let cap = (needed + 1_000.0).min(MAX_COUNT) as u64;
            let (store, queue) = (self.client.store().clone(), work.id);
            self.spawn(async move {
                let result = answered("count due jobs", store.backlog(queue, cap)).await;
                Event::Measured { queue, sla, result }
            });
        }
    }

    pub(super) fn measured(
        &mut self,
        queue: QueueId,
        sla: Option<Duration>,
        result: Result<Backlog, StoreError>,
        now: Instant,
    ) {
        let Some(work) = self.queues.iter_mut().find(|work| work.id == queue) else { return };
        let backlog = match result {
            Ok(backlog) => backlog,
            Err(error) => return self.store_failed("count due jobs", error, now),
        };
        let Some(tuner) = &mut work.tuner else { return };
        let seen = Seen {
            backlog: backlog.due,
            drain_per_s: work.observed.per_second(now) * backlog.workers.max(1) as f64,
            busiest: work.observed.busiest,
            sla,
        };
        let before = work.concurrency;
        work.concurrency = tuner.step(&seen);
        work.observed =
            Observed { started: work.observed.started, busiest: work.running(), ..Observed::new(now) };
        if work.concurrency != before {
            tracing::debug!(
                queue = queue.0,
                from = before,
                to = work.concurrency,
                ?seen,
                "concurrency moved"
            );
            self.limit_reports.changed();
        }
    }

    /// A run of the queue ended.
    pub(super) fn observe_run(&mut self, queue: usize, jobs: usize, took: Duration) {
        let work = &mut self.queues[queue];
        if let Some(tuner) = &mut work.tuner {
            tuner.ran(took);
            work.observed.ended += jobs as u64;
        }
    }

    pub(super) fn report_limits(&mut self, now: Instant) {
        let reports = &mut self.limit_reports;
        if !reports.outdated || reports.under_way || now < reports.not_before {
            return;
        }
        (reports.outdated, reports.under_way) = (false, true);
        let limits = self.limits_now();
        let (store, worker) = (self.client.store().clone(), self.worker_id());
        self.spawn(async move {
            Event::LimitsReported(answered("report limits", store.report_limits(worker, &limits)).await)
        });
    }

    fn limits_now(&self) -> WorkerLimits {
        let pools = self.queues.iter().flat_map(|work| &work.groups).filter_map(|group| group.pool.as_ref());
        let mut resources: Vec<String> = pools.map(|pool| pool.resource.clone()).collect();
        resources.sort_unstable();
        resources.dedup();
        let concurrency = self.queues.iter().map(|work| (work.id, work.concurrency)).collect();
        WorkerLimits { concurrency, resources }
    }

    /// A failure pauses nothing else: limits are only shown.
    pub(super) fn limits_reported(&mut self, result: Result<bool, StoreError>, now: Instant) {
        let reports = &mut self.limit_reports;
        reports.under_way = false;
        if let Err(error) = result {
            tracing::debug!(error = error.chain(), "this worker's limits could not be reported");
            reports.outdated = true;
            reports.not_before = now + REPORT_AGAIN;
        }
    }
}
