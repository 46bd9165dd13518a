//! Notifies listeners that work may be due.
//!
//! Several workers may share one store handle; each gets every hint. A listener is dropped once it returns false. Hints
//! carry no data, and losing one delays work by at most a poll interval.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::QueueId;

/// A hint that work may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The queue got a job, due now or later.
    Queue(QueueId),
    /// The queue got a job that is due now: a claim will find it, no poll is needed first.
    Due(QueueId),
    /// A job in some queue, a changed setting, or a cancel.
    Any,
    /// A cancel was requested that may affect this process.
    Cancel,
}

impl Wake {
    pub fn queue(self) -> Option<QueueId> {
        match self {
            Wake::Queue(queue) | Wake::Due(queue) => Some(queue),
            Wake::Any | Wake::Cancel => None,
        }
    }

    /// Whether a worker of the queue should poll.
    pub fn concerns(self, queue: QueueId) -> bool {
        self == Wake::Any || self.queue() == Some(queue)
    }
}

/// Returns whether it wants further hints. It must not block or call the store.
pub type OnWake = Box<dyn Fn(Wake) -> bool + Send + Sync>;

/// All listeners of one store handle.
#[derive(Default)]
pub struct Wakers {
    listening: Mutex<Vec<OnWake>>,
}

impl Wakers {
    fn lock(&self) -> MutexGuard<'_, Vec<OnWake>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, wake: OnWake) {
        self.lock().push(wake);
    }

    pub fn call(&self, wake: Wake) {
        self.lock().retain(|wants| wants(wake));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn each_listener_gets_every_hint_until_it_returns_false() {
        let (wakers, patient, brief) = (Wakers::default(), Arc::new(AtomicU32::new(0)), Arc::default());
        let counts: [(&Arc<AtomicU32>, u32); 2] = [(&brief, 1), (&patient, 9)];
        for (heard, enough) in counts {
            let heard = Arc::clone(heard);
            wakers.add(Box::new(move |_| heard.fetch_add(1, Ordering::Relaxed) + 1 < enough));
        }
        for _ in 0..3 {
            wakers.call(Wake::Any);
        }
        assert_eq!((brief.load(Ordering::Relaxed), patient.load(Ordering::Relaxed)), (1, 3));
    }
}
