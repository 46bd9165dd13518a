//! Whom a store tells that work may be due.
//!
//! Owns the hint and the list of those who want it: several workers may share one handle, and each hears everything.
//! Never keeps one that no longer listens, and never carries facts: a lost hint costs at most a poll interval.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::QueueId;

/// A hint that work may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A job of the queue, now or later.
    Queue(QueueId),
    /// A job of the queue that is due: whoever claims next finds it, and need not ask what comes when.
    Due(QueueId),
    /// Some job somewhere, a setting, or a cancel.
    Any,
    /// An operator asked for a cancel that may concern us.
    Cancel,
}

impl Wake {
    pub fn queue(self) -> Option<QueueId> {
        match self {
            Wake::Queue(queue) | Wake::Due(queue) => Some(queue),
            Wake::Any | Wake::Cancel => None,
        }
    }

    /// Whether a worker that serves the queue has reason to look.
    pub fn concerns(self, queue: QueueId) -> bool {
        self == Wake::Any || self.queue() == Some(queue)
    }
}

/// Answers whether it wants further hints. It must not block, and must not come back to the store.
pub type OnWake = Box<dyn Fn(Wake) -> bool + Send + Sync>;

/// Everybody who listens at one handle.
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
    fn each_hears_everything_until_it_has_had_enough() {
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
