//! A low-priority thread for embedding large batches.
//!
//! Searches and single writes have a waiting caller and come first; this thread uses the processor time they leave.
//! Never holds a lock of the index.

use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

/// Lower priority than all other threads of the process.
const NICE: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// Dropping this ends the thread after the work already sent.
pub(super) struct Background {
    work: Sender<Work>,
}

impl Background {
    pub(super) fn start() -> std::io::Result<Background> {
        let (work, given) = channel::<Work>();
        std::thread::Builder::new().name("windlass-background".to_owned()).spawn(move || {
            // `nice` sets the priority of one thread on Linux only. It may fail, and then the work runs at normal
            // priority.
            if cfg!(target_os = "linux") {
                let _ = rustix::process::nice(NICE);
            }
            for work in given {
                work();
            }
        })?;
        Ok(Background { work })
    }

    /// `None` when the work panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if let Ok(done) = done {
                let _ = answer.send(done);
            }
        };
        self.work.send(Box::new(work)).ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_does_not_stop_later_work() {
        let background = Background::start().unwrap();
        assert_eq!(background.run(|| -> u8 { panic!("on purpose") }).await, None);
        assert_eq!(background.run(|| 7).await, Some(7));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_thread_has_a_lower_priority_than_the_process() {
        let background = Background::start().unwrap();
        let own = rustix::process::nice(0).unwrap();
        let its = background.run(|| rustix::process::nice(0).unwrap()).await.unwrap();
        assert!(its > own || its == 19, "{its} beside {own}");
    }
}
