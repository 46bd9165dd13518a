//! Concurrency that follows the backlog: what each queue with bounds is seen to do, and a step of its tuner now and then.
//!
//! Also tells the store about this worker's limits, whenever they change. Never decides by itself: `core::scale` does.

use std::time::{Duration, Instant};

use windlass_core::scale::{Seen, patience};
use windlass_core::store::{Backlog, WorkerLimits};
use windlass_core::{QueueId, StoreError};

use super::dispatch::{Dispatcher, Event, Phase, answered};

const STEP_EVERY: Duration = Duration::from_secs(5);
/// How soon limits that could not be told are told again.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// A backlog is counted only as far as the decision needs it, and never further than this.
const MAX_COUNT: f64 = 1_000_000.0;

/// What was seen of a queue since the last step.
#[derive(Debug)]
pub(super) struct Watch {
    since: Instant,
    ended: u64,
    pub(super) busiest: u32,
    /// The concurrency an operator or the configuration gave it to start with.
    pub(super) started: Option<u32>,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Watch {
        Watch { since: now, ended: 0, busiest: 0, started: None }
    }

    fn per_second(&self, now: Instant) -> f64 {
        self.ended as f64 / now.saturating_duration_since(self.since).as_secs_f64().max(0.001)
    }
}

impl Dispatcher {
    /// Every few seconds, where a queue has bounds: asks for its backlog, which brings the next step.
    pub(super) fn start_tuning(&mut self, now: Instant) {
        if now < self.tune_at || !matches!(self.phase, Phase::Working) {
            return;
        }
        self.tune_at = now + STEP_EVERY;
        for work in self.queues.iter().filter(|work| work.tuner.is_some() && !work.paused) {
            let sla = self.client.catalog().queue(work.id).and_then(|queue| queue.spec.sla);
            // The fleet's drain is not known before the answer; ten times our own is enough of it to decide.
            let needed = work.watch.per_second(now) * 10.0 * patience(sla).as_secs_f64();
            let cap = (needed + 1_000.0).min(MAX_COUNT) as u64;
            let (store, events, queue) = (self.client.store().clone(), self.events.clone(), work.id);
            tokio::spawn(async move {
                let result = answered("count due jobs", store.backlog(queue, cap)).await;
                let _ = events.send(Event::Measured { queue, sla, result });
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
            Err(error) => return self.troubled("count due jobs", error),
        };
        let Some(tuner) = &mut work.tuner else { return };
        let seen = Seen {
            backlog: backlog.due,
            drain_per_s: work.watch.per_second(now) * backlog.workers.max(1) as f64,
            busiest: work.watch.busiest,
            sla,
        };
        let before = work.concurrency;
        work.concurrency = tuner.step(&seen);
        work.watch = Watch { started: work.watch.started, busiest: work.running(), ..Watch::new(now) };
        if work.concurrency != before {
            tracing::debug!(
                queue = queue.0,
                from = before,
                to = work.concurrency,
                ?seen,
                "concurrency moved"
            );
            self.untold = true;
        }
    }

    /// A run of the queue ended.
    pub(super) fn watch_run(&mut self, queue: usize, jobs: usize, took: Duration) {
        let work = &mut self.queues[queue];
        if let Some(tuner) = &mut work.tuner {
            tuner.ran(took);
            work.watch.ended += jobs as u64;
        }
    }

    pub(super) fn tell_limits(&mut self, now: Instant) {
        if !self.untold || self.telling || now < self.tell_at {
            return;
        }
        (self.untold, self.telling) = (false, true);
        let limits = self.limits_now();
        let (store, events, worker) = (self.client.store().clone(), self.events.clone(), self.worker_id());
        tokio::spawn(async move {
            let told = answered("report limits", store.report_limits(worker, &limits)).await;
            let _ = events.send(Event::Told(told));
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

    /// Nothing depends on it but what people see, so a failure is only tried again.
    pub(super) fn told(&mut self, result: Result<bool, StoreError>, now: Instant) {
        self.telling = false;
        if let Err(error) = result {
            tracing::debug!(error = error.chain(), "this worker's limits could not be told");
            self.untold = true;
            self.tell_at = now + TELL_AGAIN;
        }
    }
}
