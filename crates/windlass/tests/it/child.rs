//! The worker process of the fault tests: this test binary, started again with a database in its environment. It logs
//! to standard error, so that a test can see what the process did.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use windlass::WorkerOptions;
use windlass_core::Store;

use crate::jobs;

pub(crate) const DATABASE: &str = "WINDLASS_CHILD_DATABASE";
pub(crate) const LEDGER: &str = "WINDLASS_CHILD_LEDGER";
pub(crate) const EFFECTS: &str = "WINDLASS_CHILD_EFFECTS";
pub(crate) const LEASE_MS: &str = "WINDLASS_CHILD_LEASE_MS";
/// A file with an offset in microseconds to this process' view of the database clock; polled for changes.
pub(crate) const CLOCK: &str = "WINDLASS_CHILD_CLOCK";

const CLOCK_POLL: Duration = Duration::from_millis(5);

/// Child process. As a plain test, without the environment of a parent, it does nothing.
#[test]
fn worker() {
    let Ok(url) = std::env::var(DATABASE) else { return };
    let ledger = PathBuf::from(std::env::var(LEDGER).unwrap());
    let effects = std::env::var(EFFECTS).unwrap();
    let lease = Duration::from_millis(std::env::var(LEASE_MS).unwrap().parse().unwrap());
    let clock = PathBuf::from(std::env::var(CLOCK).unwrap());
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = WorkerOptions { lease, ..WorkerOptions::default() };
        let windlass = jobs::builder(&url, &ledger, &effects).worker(options).build().await.unwrap();
        let _workers = windlass.start().await.unwrap();
        println!("started");
        follow_clock(windlass.client().store().clone(), clock).await;
    });
}

pub(crate) fn log_to_stderr() {
    let filter = EnvFilter::new("warn,windlass_engine=debug");
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
}

/// Prints `clock <offset>` once a new offset is in force.
async fn follow_clock(store: Arc<dyn Store>, file: PathBuf) {
    let mut offset = 0;
    loop {
        let asked = std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        if asked != offset {
            offset = asked;
            store.set_clock_offset(offset);
            println!("clock {offset}");
        }
        tokio::time::sleep(CLOCK_POLL).await;
    }
}
