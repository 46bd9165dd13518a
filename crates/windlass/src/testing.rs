//! Assertions about enqueued jobs, for an application's tests.

use windlass_core::store::{JobFilter, Page};
use windlass_core::{JobState, StoreError};

use crate::{Job, Windlass};

const MOST: u32 = 1_000;

impl Windlass {
    /// Payloads of the waiting jobs of one kind, newest first.
    pub async fn enqueued<J: Job>(&self) -> Result<Vec<J>, StoreError> {
        let Some(kind) = self.client().catalog().kind_named(J::KIND).map(|kind| kind.id) else {
            return Ok(Vec::new());
        };
        let filter = JobFilter {
            kind: Some(kind),
            states: vec![JobState::Pending, JobState::Scheduled],
            ..JobFilter::default()
        };
        let jobs =
            self.client().store().list(&filter, &Page { before: None, limit: MOST, excerpt: None }).await?;
        jobs.iter()
            .map(|job| {
                serde_json::from_slice(&job.payload).map_err(|error| StoreError::Corrupt {
                    what: format!("payload of job {}: {error}", job.id),
                })
            })
            .collect()
    }

    /// Panics unless a waiting job of this kind satisfies `expected`; the message lists the waiting jobs.
    pub async fn assert_enqueued<J: Job>(&self, expected: impl Fn(&J) -> bool) {
        match self.enqueued::<J>().await {
            Err(error) => panic!("could not list the jobs of {}: {}", J::KIND, error.chain()),
            Ok(jobs) if jobs.iter().any(&expected) => {}
            Ok(jobs) => {
                let seen: Vec<String> =
                    jobs.iter().map(|job| serde_json::to_string(job).unwrap_or_default()).collect();
                panic!("no waiting {} job is as expected; waiting: [{}]", J::KIND, seen.join(", "));
            }
        }
    }
}
