//! What the demo prints at its end. Every figure is read from the tables, none from the demo's own counting.

use std::time::Duration;

use windlass_core::store::{JobFilter, Page};
use windlass_core::{JobRecord, JobState, QueueSpec, Store, duration};

use crate::failure::{During, Failure};
use crate::output::table::Table;
use crate::output::{Output, taken};

const PAGE: u32 = 1_000;

/// Every job that carries `tag`, newest first.
pub(super) async fn read(store: &dyn Store, tag: &str) -> Result<Vec<JobRecord>, Failure> {
    let filter = JobFilter { tag: Some(tag.to_owned()), ..JobFilter::default() };
    let mut jobs: Vec<JobRecord> = Vec::new();
    loop {
        let page = Page { before: jobs.last().map(|job| job.id), limit: PAGE };
        let more = store.list(&filter, &page).await.during("cannot read the jobs back")?;
        let last = more.len() < PAGE as usize;
        jobs.extend(more);
        if last {
            return Ok(jobs);
        }
    }
}

pub(super) fn print(jobs: &[JobRecord], queues: &[QueueSpec], output: &Output) -> Result<(), Failure> {
    let titles = [
        "family",
        ">jobs",
        ">done",
        ">retried",
        ">failed",
        ">dead letters",
        ">scheduled",
        ">P95",
        ">SLA",
        "",
    ];
    let mut table = Table::new(&titles);
    for queue in queues {
        let mine: Vec<&JobRecord> = jobs.iter().filter(|job| job.queue == queue.name).collect();
        if mine.is_empty() {
            continue;
        }
        let count =
            |fits: &dyn Fn(&JobRecord) -> bool| mine.iter().filter(|job| fits(job)).count().to_string();
        let p95 = p95(&mine);
        table.row(vec![
            queue.name.clone(),
            mine.len().to_string(),
            count(&|job| job.state == JobState::Completed),
            count(&|job| job.attempt > 1),
            count(&|job| job.state == JobState::Failed),
            count(&|job| job.state == JobState::DeadLetter),
            count(&|job| job.state == JobState::Scheduled),
            p95.map_or("–".to_owned(), taken),
            queue.sla.map_or("best effort".to_owned(), duration::format),
            match p95.zip(queue.sla) {
                Some((p95, sla)) if p95 > sla => "missed".to_owned(),
                Some(_) => "met".to_owned(),
                None => String::new(),
            },
        ]);
    }
    table.print(output)
}

/// Due to finished; a job that was retried is counted from when it was first due.
fn p95(jobs: &[&JobRecord]) -> Option<Duration> {
    let mut taken: Vec<Duration> =
        jobs.iter().filter_map(|job| Some(job.finished_at?.since(job.created_at))).collect();
    taken.sort_unstable();
    let place = (taken.len() as f64 * 0.95).ceil() as usize;
    taken.get(place.checked_sub(1)?).copied()
}
