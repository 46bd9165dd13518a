//! Runs one case with a runtime, a harness and a deadline, and closes all handles before the database is removed.

use std::future::Future;
use std::time::Duration;

use super::Harness;

/// A case that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// Two threads, because some errors only show when two handles work at the same time.
pub fn run<F, Made, C, Ran>(name: &str, factory: F, case: C)
where
    F: FnOnce() -> Made,
    Made: Future<Output = Harness>,
    C: FnOnce(Harness) -> Ran,
    Ran: Future<Output = ()>,
{
    // Declared before the runtime and so dropped after it, when no connection is open.
    let mut _guard = None;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut harness = factory().await;
        _guard = harness.take_guard();
        let handles = harness.handles();
        let over = tokio::time::timeout(DEADLINE, case(harness)).await;
        assert!(over.is_ok(), "{name} was not over after {DEADLINE:?}");
        let open = std::mem::take(&mut *handles.lock().unwrap());
        for handle in open {
            handle.close().await;
        }
    });
}
