//! Merges single enqueues of many callers into one commit.
//!
//! The next batch is whatever arrived while the last one was being committed: no timer, so a lone caller waits for
//! nobody. A fixed linger of 2 ms was measured at a third of this rate.

use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, oneshot};
use windlass_core::store::Enqueued;
use windlass_core::{NewJob, Store};

use crate::EnqueueError;

const MAX_MERGED: usize = 1_000;
const WAITING: usize = 10_000;

type Answer = oneshot::Sender<Result<Enqueued, EnqueueError>>;

pub(crate) struct Coalescer {
    sender: mpsc::Sender<(NewJob, Answer)>,
}

impl Coalescer {
    /// The task ends when the coalescer is dropped.
    pub(crate) fn start(store: &Arc<dyn Store>) -> Coalescer {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(run(Arc::downgrade(store), receiver));
        Coalescer { sender }
    }

    /// For jobs nothing about which can be refused ([`NewJob::is_plain`]).
    pub(crate) async fn enqueue(&self, job: NewJob) -> Result<Enqueued, EnqueueError> {
        let (answer, answered) = oneshot::channel();
        if self.sender.send((job, answer)).await.is_err() {
            return Err(closed());
        }
        answered.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> EnqueueError {
    EnqueueError::Store(Arc::new(windlass_core::StoreError::Open {
        what: "the client".to_owned(),
        why: "it was closed".to_owned(),
    }))
}

async fn run(store: Weak<dyn Store>, mut receiver: mpsc::Receiver<(NewJob, Answer)>) {
    let mut waiting = Vec::with_capacity(MAX_MERGED);
    while receiver.recv_many(&mut waiting, MAX_MERGED).await > 0 {
        let Some(store) = store.upgrade() else { return };
        let (jobs, answers): (Vec<NewJob>, Vec<Answer>) = waiting.drain(..).unzip();
        match store.enqueue(&jobs).await {
            Ok(enqueued) => {
                for (answer, enqueued) in answers.into_iter().zip(enqueued) {
                    // A caller that stopped waiting still has its job.
                    let _ = answer.send(Ok(enqueued));
                }
            }
            Err(error) => {
                let error = EnqueueError::from(error);
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}
