//! Progress and log lines on their way to the store. Bounded: a chatty handler loses lines, never jobs.

use std::sync::{Arc, Mutex};

use windlass_core::store::{Report, ReportBody};

const MAX_WAITING: usize = 20_000;
const MAX_LINE_BYTES: usize = 4_096;

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
        let mut newest = std::collections::HashSet::new();
        all.reverse();
        all.retain(|report| match report.body {
            ReportBody::Progress { .. } => newest.insert(report.id),
            ReportBody::Log { .. } => true,
        });
        all.reverse();
        all
    }
}
