//! Runs one case: a runtime, a harness, a deadline, and the end of all handles before the database goes.

use std::future::Future;
use std::time::Duration;

use super::Harness;

/// No case works this long; one that does hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// Two threads, because some mistakes only show when two handles really work at once.
pub fn run<F, Made, C, Ran>(name: &str, factory: F, case: C)
where
    F: FnOnce() -> Made,
    Made: Future<Output = Harness>,
    C: FnOnce(Harness) -> Ran,
    Ran: Future<Output = ()>,
{
    // Declared before the runtime and so dropped after it: no connection is open when the guard cleans up.
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
