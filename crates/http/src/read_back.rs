//! Reads newly enqueued jobs back for their callers, many at once.
//!
//! An enqueue returns the job as stored, because its times come from the database. One read per request would cost as
//! much as the write.

use std::collections::HashMap;

use windlass_core::store::{JobFilter, Page};
use windlass_core::{JobId, JobRecord};
use windlass_engine::{Client, Coalescer};
use windlass_pack::Problem;
use windlass_pack::paging::EXCERPT;

const MAX_READ: usize = 500;
/// Larger payloads are read one by one, so that 500 of a megabyte are never in memory together.
const READ_WHOLE: u32 = 64 * 1024;

pub(crate) struct ReadBack {
    client: Client,
    reads: Coalescer<JobId, Result<Option<JobRecord>, Problem>>,
}

impl ReadBack {
    pub(crate) fn start(client: &Client) -> ReadBack {
        let reader = client.clone();
        let reads = Coalescer::start(MAX_READ, 1, move |ids: Vec<JobId>| {
            let client = reader.clone();
            async move {
                match read_cut(&client, &ids, READ_WHOLE).await {
                    // Cloned, because two callers may have got the same duplicate.
                    Ok(jobs) => ids.iter().map(|id| Ok(jobs.get(id).cloned())).collect(),
                    Err(problem) => ids.iter().map(|_| Err(problem.clone())).collect(),
                }
            }
        });
        ReadBack { client: client.clone(), reads }
    }

    /// `None` if it was deleted meanwhile.
    pub(crate) async fn job(&self, id: JobId) -> Result<Option<JobRecord>, Problem> {
        let closed = || Err(Problem::internal("a job could not be read back", "the reader has ended"));
        let job = self.reads.ask(id).await.unwrap_or_else(closed)?;
        match job {
            Some(job) if job.payload_bytes.max(job.result_bytes) > u64::from(READ_WHOLE) => {
                Ok(self.client.job(id).await?.map(|detail| detail.job))
            }
            job => Ok(job),
        }
    }
}

/// Jobs as a list shows them. Jobs that do not exist are left out.
pub(crate) async fn read(client: &Client, ids: &[JobId]) -> Result<HashMap<JobId, JobRecord>, Problem> {
    read_cut(client, ids, EXCERPT).await
}

async fn read_cut(
    client: &Client,
    ids: &[JobId],
    excerpt: u32,
) -> Result<HashMap<JobId, JobRecord>, Problem> {
    let mut jobs = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(MAX_READ) {
        let filter = JobFilter { ids: ids.to_vec(), ..JobFilter::default() };
        let page = Page { before: None, limit: MAX_READ as u32, excerpt: Some(excerpt) };
        for job in client.jobs(&filter, &page).await? {
            jobs.insert(job.id, job);
        }
    }
    Ok(jobs)
}
