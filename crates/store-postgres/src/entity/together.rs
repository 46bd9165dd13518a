//! Calls that come while others are under way share a transaction.
//!
//! Differs from SQLite, whose one writer groups everything: here a save by itself is a transaction of half a dozen round
//! trips, which at thousands a second is most of what process and server do. Owns who waits. Nobody is told apart by it:
//! a shared transaction that fails, or meets a lock that somebody keeps, leaves nothing behind, and its calls are tried one
//! by one. Never delays a call that comes alone, and never depends on the caller being there still.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use windlass_core::StoreError;
use windlass_core::entity::{BoxKinds, EntityWrite};
use windlass_core::store::Saved;

use super::save::Failed;
use crate::PostgresStore;
use crate::error::STORE;

/// Calls with more writes than this have a transaction of their own.
const FEW: usize = 16;
/// Writes of one shared transaction.
const MANY: usize = 256;
/// Shared transactions at once: one more than the one that waits for its commit.
const AT_ONCE: usize = 2;
/// A row that somebody holds for longer is waited for by whoever wants it, not by all.
const BEGIN: &str = "begin; set local lock_timeout = '100ms'";

#[derive(Default)]
pub(crate) struct Together {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Call>,
    under_way: usize,
}

struct Call {
    boxes: BoxKinds,
    writes: Arc<[EntityWrite]>,
    answer: oneshot::Sender<Result<Vec<Saved>, StoreError>>,
}

/// One of the transactions under way after another, until nobody waits.
struct Turn {
    together: Arc<Together>,
    over: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            self.together.state().under_way -= 1;
        }
    }
}

impl Together {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: enough are under way, and each looks for who waits before it ends.
    fn wait(self: &Arc<Together>, call: Call) -> Option<Turn> {
        let mut state = self.state();
        state.waiting.push_back(call);
        if state.under_way == AT_ONCE {
            return None;
        }
        state.under_way += 1;
        Some(Turn { together: self.clone(), over: false })
    }
}

impl Turn {
    /// The next to share a transaction: those who came first and box their entities alike. `None` ends the turn.
    fn calls(&mut self) -> Option<Vec<Call>> {
        let (mut calls, mut writes) = (Vec::<Call>::new(), 0);
        let mut state = self.together.state();
        while let Some(next) = state.waiting.front() {
            writes += next.writes.len();
            if writes > MANY || calls.first().is_some_and(|first| first.boxes != next.boxes) {
                break;
            }
            calls.extend(state.waiting.pop_front());
        }
        if calls.is_empty() {
            state.under_way -= 1;
            self.over = true;
            return None;
        }
        Some(calls)
    }
}

impl PostgresStore {
    pub(super) async fn save_together(
        &self,
        boxes: &BoxKinds,
        writes: Arc<[EntityWrite]>,
    ) -> Result<Vec<Saved>, StoreError> {
        // A key is waited at until its holder's transaction ends.
        if writes.len() > FEW || writes.iter().any(|write| write.idempotency.is_some()) {
            return self.save_entities(boxes, &writes).await;
        }
        let (answer, answered) = oneshot::channel();
        if let Some(turn) = self.together.wait(Call { boxes: boxes.clone(), writes, answer }) {
            tokio::spawn(self.clone().save_waiting(turn));
        }
        answered.await.unwrap_or_else(|_| Err(unavailable("the process is ending")))
    }

    async fn save_waiting(self, mut turn: Turn) {
        while let Some(calls) = turn.calls() {
            self.save_calls(calls).await;
        }
    }

    async fn save_calls(&self, calls: Vec<Call>) {
        let Some(boxes) = calls.first().map(|call| &call.boxes) else { return };
        let writes: Vec<&EntityWrite> = calls.iter().flat_map(|call| &*call.writes).collect();
        match self.save_once(BEGIN, boxes, &writes).await {
            Ok(saved) => {
                let mut saved = saved.into_iter();
                for call in calls {
                    let answers = saved.by_ref().take(call.writes.len()).collect();
                    let _ = call.answer.send(Ok(answers));
                }
            }
            Err(Failed::Unknown(error) | Failed::Undone(error @ StoreError::Unavailable { .. })) => {
                for call in calls {
                    let _ = call.answer.send(Err(unavailable(&error.chain())));
                }
            }
            Err(Failed::Undone(error)) => {
                tracing::debug!(
                    error = error.chain(),
                    calls = calls.len(),
                    "shared saves are tried one by one"
                );
                calls.into_iter().for_each(|call| self.save_alone(call));
            }
        }
    }

    /// Beside whatever else is under way.
    fn save_alone(&self, call: Call) {
        let store = self.clone();
        tokio::spawn(async move {
            let saved = store.save_entities(&call.boxes, &call.writes).await;
            let _ = call.answer.send(saved);
        });
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable { store: STORE, op: "save entities", source: why.into() }
}
