//! Collects wake-up hints from the store's threads for the dispatcher.

use std::sync::{Arc, Mutex, Weak};

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
    pub(crate) queues: Vec<QueueId>,
    /// Look at everything.
    pub(crate) any: bool,
    /// Look for jobs to stop.
    pub(crate) cancel: bool,
}

impl WakeBox {
    /// For the store's list: wants hints for as long as the box is there.
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
        match self.inner.hints.lock() {
            Ok(mut hints) => std::mem::take(&mut *hints),
            Err(_) => Hints { any: true, ..Hints::default() },
        }
    }
}

impl Inner {
    fn put(&self, wake: Wake) {
        let Ok(mut hints) = self.hints.lock() else { return };
        let fresh = match wake {
            Wake::Queue(queue) if hints.queues.contains(&queue) => false,
            Wake::Queue(queue) => {
                hints.queues.push(queue);
                true
            }
            Wake::Any => !std::mem::replace(&mut hints.any, true),
            Wake::Cancel => !std::mem::replace(&mut hints.cancel, true),
        };
        drop(hints);
        if fresh {
            self.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hints_are_kept_apart_and_each_once() {
        let wakes = WakeBox::default();
        let listener = wakes.listener();
        for wake in [Wake::Cancel, Wake::Queue(QueueId(7)), Wake::Queue(QueueId(7))] {
            assert!(listener(wake), "the box is there");
        }
        let hints = wakes.woken().await;
        assert_eq!((hints.queues, hints.any, hints.cancel), (vec![QueueId(7)], false, true));
        drop(wakes);
        assert!(!listener(Wake::Any), "nobody is left to wake");
    }
}
