//! Which rows of the engine are removed, and at what age.

use std::time::Duration;

use windlass_core::store::PruneWhat;

const DAY: Duration = Duration::from_secs(86_400);

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

/// A named clean-up task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionTask {
    pub name: &'static str,
    pub what: PruneWhat,
    pub older_than: Duration,
    pub description: &'static str,
}

impl Retention {
    pub fn tasks(&self) -> [RetentionTask; 5] {
        let task = |what: PruneWhat, older_than, description| RetentionTask {
            name: what.name(),
            what,
            older_than,
            description,
        };
        [
            task(PruneWhat::Finished, self.finished, "completed, cancelled and superseded jobs"),
            task(PruneWhat::DeadLetters, self.dead_letters, "failed jobs and dead letters"),
            task(PruneWhat::Idempotency, self.idempotency, "idempotency keys past their window"),
            task(PruneWhat::Windows, Duration::ZERO, "windows of unique keys that are over"),
            task(PruneWhat::Rollups, self.rollups, "per-minute statistics"),
        ]
    }
}
