//! Merges requests of many callers into shared calls.
//!
//! A batch is what arrived while the calls before it were under way. There is no timer, so a lone request is sent at
//! once; a fixed linger of 2 ms was measured at a third of the rate.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

/// Requests waiting above which callers wait before theirs is taken.
const MAX_WAITING: usize = 10_000;

pub struct Coalescer<Request, Answer> {
    sender: mpsc::Sender<(Request, oneshot::Sender<Answer>)>,
}

impl<Request: Send + 'static, Answer: Send + 'static> Coalescer<Request, Answer> {
    /// `call` takes at most `most` requests and returns one answer for each, in order; `at_once` calls may be under way
    /// together. Its tasks end when the coalescer is dropped.
    pub fn start<Call, Called>(most: usize, at_once: usize, call: Call) -> Coalescer<Request, Answer>
    where
        Call: Fn(Vec<Request>) -> Called + Send + Sync + 'static,
        Called: Future<Output = Vec<Answer>> + Send,
    {
        let (sender, receiver) = mpsc::channel::<(Request, oneshot::Sender<Answer>)>(MAX_WAITING);
        let (receiver, call) = (Arc::new(Mutex::new(receiver)), Arc::new(call));
        for _ in 0..at_once {
            let (receiver, call) = (receiver.clone(), call.clone());
            tokio::spawn(async move {
                loop {
                    let mut batch = Vec::new();
                    if receiver.lock().await.recv_many(&mut batch, most).await == 0 {
                        return;
                    }
                    let (requests, callers): (Vec<Request>, Vec<_>) = batch.into_iter().unzip();
                    for (caller, answer) in callers.into_iter().zip(call(requests).await) {
                        // A caller that stopped waiting changes nothing: its request was carried out.
                        let _ = caller.send(answer);
                    }
                }
            });
        }
        Coalescer { sender }
    }

    /// `None` when the request was not answered: the call panicked, or the runtime it was started on has ended.
    pub async fn ask(&self, request: Request) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.sender.send((request, answer)).await.ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Answers with the size of the batch, once the gate lets the call end.
    fn gated(most: usize, at_once: usize) -> (Coalescer<u32, usize>, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let waits = gate.clone();
        let call = move |requests: Vec<u32>| {
            let waits = waits.clone();
            async move {
                waits.acquire().await.unwrap().forget();
                vec![requests.len(); requests.len()]
            }
        };
        (Coalescer::start(most, at_once, call), gate)
    }

    #[tokio::test]
    async fn what_arrives_during_a_call_shares_the_next() {
        let (coalescer, gate) = gated(5, 1);
        let all = join_all((0..8).map(|n| coalescer.ask(n)));
        let (answers, ()) = tokio::join!(all, async {
            tokio::task::yield_now().await;
            gate.add_permits(9);
        });
        let answers: Vec<usize> = answers.into_iter().flatten().collect();
        assert_eq!(answers.len(), 8);
        assert!(answers.iter().all(|size| *size <= 5) && answers.iter().any(|size| *size > 1), "{answers:?}");
    }

    #[tokio::test]
    async fn a_call_that_hangs_leaves_the_others_their_own() {
        let (coalescer, gate) = gated(1, 2);
        let (mut first, mut second) = (Box::pin(coalescer.ask(1)), Box::pin(coalescer.ask(2)));
        gate.add_permits(1);
        tokio::select! {
            one = &mut first => assert_eq!(one, Some(1)),
            two = &mut second => assert_eq!(two, Some(1)),
            () = tokio::time::sleep(SOON) => panic!("neither was called"),
        }
    }

    #[tokio::test]
    async fn callers_that_leave_cost_no_other() {
        let (coalescer, gate) = gated(1, 1);
        let mut leaves = Box::pin(coalescer.ask(1));
        assert!((&mut leaves).now_or_never().is_none());
        drop(leaves);
        gate.add_permits(2);
        assert_eq!(tokio::time::timeout(SOON, coalescer.ask(2)).await.unwrap(), Some(1));
    }

    /// After a panic there is one task less; without any left, callers learn that there is no answer.
    #[tokio::test]
    async fn a_call_that_panics_is_not_waited_for() {
        let coalescer = Coalescer::start(1, 1, |requests: Vec<u32>| async move {
            assert!(requests.is_empty(), "as the test wants");
            requests
        });
        assert_eq!(tokio::time::timeout(SOON, coalescer.ask(1)).await.unwrap(), None);
        assert_eq!(tokio::time::timeout(SOON, coalescer.ask(2)).await.unwrap(), None);
    }
}
