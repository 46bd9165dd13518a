//! Reads fresh jobs back for their callers, many at once.
//!
//! An enqueue answers with the job as the database has it (its times are the database's), and a read per request would
//! cost as much as the write. The next batch is whoever asked while the last one was read, as in the engine's coalescer.

use std::collections::HashMap;

use tokio::sync::{mpsc, oneshot};
use windlass_core::store::{JobFilter, Page};
use windlass_core::{JobId, JobRecord};
use windlass_engine::Client;
use windlass_pack::Problem;

const MAX_MERGED: usize = 500;
const WAITING: usize = 10_000;

type Reply = oneshot::Sender<Result<Option<JobRecord>, Problem>>;

pub(crate) struct ReadBack {
    sender: mpsc::Sender<(JobId, Reply)>,
}

impl ReadBack {
    /// The task ends when the last handle is dropped.
    pub(crate) fn start(client: &Client) -> ReadBack {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(run(client.clone(), receiver));
        ReadBack { sender }
    }

    /// `None` when it was deleted meanwhile.
    pub(crate) async fn job(&self, id: JobId) -> Result<Option<JobRecord>, Problem> {
        let closed = || Problem::internal("a job could not be read back", "the reader has ended");
        let (reply, answer) = oneshot::channel();
        self.sender.send((id, reply)).await.map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

async fn run(client: Client, mut receiver: mpsc::Receiver<(JobId, Reply)>) {
    let mut waiting = Vec::with_capacity(MAX_MERGED);
    while receiver.recv_many(&mut waiting, MAX_MERGED).await > 0 {
        let (ids, replies): (Vec<JobId>, Vec<Reply>) = waiting.drain(..).unzip();
        match read(&client, &ids).await {
            Ok(jobs) => {
                for (id, reply) in ids.into_iter().zip(replies) {
                    // Cloned: two callers may have met the same duplicate. Who stopped waiting is not missed.
                    let _ = reply.send(Ok(jobs.get(&id).cloned()));
                }
            }
            Err(problem) => {
                for reply in replies {
                    let _ = reply.send(Err(problem.clone()));
                }
            }
        }
    }
}

/// All that are there, by id.
pub(crate) async fn read(client: &Client, ids: &[JobId]) -> Result<HashMap<JobId, JobRecord>, Problem> {
    let mut jobs = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(MAX_MERGED) {
        let filter = JobFilter { ids: ids.to_vec(), ..JobFilter::default() };
        let page = Page { before: None, limit: MAX_MERGED as u32 };
        for job in client.jobs(&filter, &page).await? {
            jobs.insert(job.id, job);
        }
    }
    Ok(jobs)
}
