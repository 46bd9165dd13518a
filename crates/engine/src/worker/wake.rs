//! Collects wake-up hints from the store's threads for the dispatcher.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use windlass_core::QueueId;
use windlass_core::store::{OnWake, Wake};

#[derive(Clone, Default)]
pub(crate) struct WakeBox {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    hints: Mutex<Hints>,
    notify: Notify,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    /// Queues with a new job, due now or later.
    pub(crate) queues: Vec<QueueId>,
    /// Queues in which something is due now.
    pub(crate) due: Vec<QueueId>,
    /// Poll everything.
    pub(crate) any: bool,
    /// Poll for runs to cancel.
    pub(crate) cancel: bool,
}

impl WakeBox {
    /// For the store, which drops it once this box is gone.
    pub(crate) fn listener(&self) -> OnWake {
        let inner: Weak<Inner> = Arc::downgrade(&self.inner);
        Box::new(move |wake| match inner.upgrade() {
            Some(inner) => {
                inner.put(wake);
                true
            }
            None => false,
        })
    }

    pub(crate) async fn woken(&self) -> Hints {
        self.inner.notify.notified().await;
        self.take()
    }

    /// The hints collected so far.
    pub(crate) fn take(&self) -> Hints {
        std::mem::take(&mut *self.inner.lock())
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, wake: Wake) {
        let mut hints = self.lock();
        let fresh = match wake {
            Wake::Queue(queue) => add(&mut hints.queues, queue),
            Wake::Due(queue) => add(&mut hints.due, queue),
            Wake::Any => !std::mem::replace(&mut hints.any, true),
            Wake::Cancel => !std::mem::replace(&mut hints.cancel, true),
        };
        drop(hints);
        if fresh {
            self.notify.notify_one();
        }
    }
}

fn add(queues: &mut Vec<QueueId>, queue: QueueId) -> bool {
    let fresh = !queues.contains(&queue);
    if fresh {
        queues.push(queue);
    }
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hints_are_kept_apart_and_each_once() {
        let wakes = WakeBox::default();
        let listener = wakes.listener();
        let (later, due) = (Wake::Queue(QueueId(7)), Wake::Due(QueueId(7)));
        for wake in [Wake::Cancel, later, due, later, due] {
            assert!(listener(wake), "the box is there");
        }
        let hints = wakes.woken().await;
        assert_eq!((hints.queues, hints.due), (vec![QueueId(7)], vec![QueueId(7)]));
        assert_eq!((hints.any, hints.cancel), (false, true));
        drop(wakes);
        assert!(!listener(Wake::Any), "the box is gone");
    }
}
