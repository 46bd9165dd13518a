//! A thread for work that may wait its turn: many texts to read and embed at once.
//!
//! Owns its priority. It yields the processor to searches and single writes, which somebody waits for, and takes all that
//! they leave. Never holds a lock of the index.

use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

/// Lower than everything else in the process.
const NICE: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// Ends with its owner, after what it was given.
pub(super) struct Background {
    work: Sender<Work>,
}

impl Background {
    pub(super) fn start() -> std::io::Result<Background> {
        let (work, given) = channel::<Work>();
        std::thread::Builder::new().name("windlass-background".to_owned()).spawn(move || {
            // On Linux a thread has a priority of its own. Elsewhere it may be refused, and the work is done as fast.
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
    async fn a_panic_costs_its_own_work_and_no_other() {
        let background = Background::start().unwrap();
        assert_eq!(background.run(|| -> u8 { panic!("this one is meant") }).await, None);
        assert_eq!(background.run(|| 7).await, Some(7));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn it_gives_way_to_the_rest_of_the_process() {
        let background = Background::start().unwrap();
        let own = rustix::process::nice(0).unwrap();
        let its = background.run(|| rustix::process::nice(0).unwrap()).await.unwrap();
        assert!(its > own || its == 19, "{its} beside {own}");
    }
}
