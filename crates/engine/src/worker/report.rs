//! Progress, log lines and statistics on their way to the store. Bounded: a chatty handler loses lines, never jobs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windlass_core::Store;
use windlass_core::store::{Report, ReportBody, Rollup};

use super::dispatch::{Dispatcher, Event};
use super::tally::Tally;

const MAX_WAITING: usize = 20_000;
const MAX_LINE_BYTES: usize = 4_096;
const REPORT_EVERY: Duration = Duration::from_millis(200);
const ROLLUP_EVERY: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
pub(crate) struct ReportSender {
    waiting: Arc<Mutex<Vec<Report>>>,
}

impl ReportSender {
    pub(crate) fn send(&self, mut report: Report) {
        if let ReportBody::Log { line } = &mut report.body {
            let end = line.floor_char_boundary(MAX_LINE_BYTES);
            line.truncate(end);
        }
        if let Ok(mut waiting) = self.waiting.lock()
            && waiting.len() < MAX_WAITING
        {
            waiting.push(report);
        }
    }

    /// Everything waiting, oldest first; of each job's progress only the newest.
    pub(crate) fn take(&self) -> Vec<Report> {
        let Ok(mut waiting) = self.waiting.lock() else { return Vec::new() };
        if waiting.is_empty() {
            return Vec::new();
        }
        let mut all = std::mem::take(&mut *waiting);
        drop(waiting);
        let mut newest = HashSet::new();
        all.reverse();
        all.retain(|report| match report.body {
            ReportBody::Progress { .. } => newest.insert(report.id),
            ReportBody::Log { .. } => true,
        });
        all.reverse();
        all
    }
}

pub(super) struct Reports {
    pub(super) tally: Tally,
    report_at: Instant,
    rollup_at: Instant,
    /// Reports are being written.
    writing: bool,
}

impl Reports {
    pub(super) fn new(now: Instant) -> Reports {
        Reports {
            tally: Tally::default(),
            report_at: now + REPORT_EVERY,
            rollup_at: now + ROLLUP_EVERY,
            writing: false,
        }
    }

    /// Only a run can report anything.
    pub(super) fn wakes_at(&self, running: bool) -> Instant {
        if running { self.rollup_at.min(self.report_at) } else { self.rollup_at }
    }
}

impl Dispatcher {
    pub(super) fn flush_reports(&mut self, now: Instant) {
        if now >= self.reports.report_at {
            self.reports.report_at = now + REPORT_EVERY;
            let reports = if self.reports.writing { Vec::new() } else { self.env.reports.take() };
            if !reports.is_empty() {
                self.reports.writing = true;
                let store = self.client.store().clone();
                self.spawn(async move {
                    write_reports(&*store, reports).await;
                    Event::Reported
                });
            }
        }
        if now >= self.reports.rollup_at {
            self.reports.rollup_at = now + ROLLUP_EVERY;
            let (store, rollups) = (self.client.store().clone(), self.reports.tally.take());
            tokio::spawn(async move { write_rollups(&*store, rollups).await });
        }
    }

    pub(super) fn reported(&mut self) {
        self.reports.writing = false;
    }
}

pub(super) async fn write_reports(store: &dyn Store, reports: Vec<Report>) {
    if !reports.is_empty()
        && let Err(error) = store.report(&reports).await
    {
        tracing::warn!(lines = reports.len(), error = error.chain(), "progress and log lines were lost");
    }
}

pub(super) async fn write_rollups(store: &dyn Store, rollups: Vec<Rollup>) {
    if !rollups.is_empty()
        && let Err(error) = store.record(&rollups).await
    {
        tracing::warn!(error = error.chain(), "statistics of the last seconds were lost");
    }
}
