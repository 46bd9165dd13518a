//! Removes what nobody needs any more, in small steps. The same tasks run by themselves and by `windlass cleanup`.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::{Prune, PruneWhat};
use windlass_core::{Store, StoreError};

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub finished: Duration,
    pub dead_letters: Duration,
    pub idempotency: Duration,
    pub rollups: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { finished: 7 * DAY, dead_letters: 30 * DAY, idempotency: DAY, rollups: 30 * DAY }
    }
}

/// One clean-up task by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionTask {
    pub name: &'static str,
    pub what: PruneWhat,
    pub older_than: Duration,
    pub description: &'static str,
}

impl Retention {
    pub fn tasks(&self) -> [RetentionTask; 5] {
        let task =
            |name, what, older_than, description| RetentionTask { name, what, older_than, description };
        [
            task("finished", PruneWhat::Finished, self.finished, "completed, cancelled and superseded jobs"),
            task("dead-letters", PruneWhat::DeadLetters, self.dead_letters, "failed jobs and dead letters"),
            task(
                "idempotency",
                PruneWhat::Idempotency,
                self.idempotency,
                "idempotency keys past their window",
            ),
            task("windows", PruneWhat::Windows, Duration::ZERO, "windows of unique keys that are over"),
            task("rollups", PruneWhat::Rollups, self.rollups, "per-minute statistics"),
        ]
    }

    /// Runs every task soon after the start and then hourly, until dropped.
    pub async fn run(self, store: Arc<dyn Store>) {
        // Soon, because a process that is restarted every hour would otherwise never clean; not at once, because a
        // fleet starts together.
        let mut pause = HOUR.mul_f64(fastrand::f64() / 20.0);
        loop {
            tokio::time::sleep(pause).await;
            pause = HOUR.mul_f64(0.9 + fastrand::f64() / 5.0);
            for task in self.tasks() {
                match task.run(&*store, None, false).await {
                    Ok(0) => {}
                    Ok(rows) => tracing::info!(task = task.name, rows, "cleaned up"),
                    Err(error) => tracing::warn!(task = task.name, error = error.chain(), "clean-up failed"),
                }
            }
        }
    }
}

impl RetentionTask {
    /// Removes (or, on a dry run, counts) what is older than `older_than` or the configured age.
    pub async fn run(
        &self,
        store: &dyn Store,
        older_than: Option<Duration>,
        dry_run: bool,
    ) -> Result<u64, StoreError> {
        let older_than = older_than.unwrap_or(self.older_than);
        store.prune(&Prune { what: self.what, older_than, dry_run }).await
    }
}
