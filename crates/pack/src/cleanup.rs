//! Cleanup tasks, run on request and hourly.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use windlass_core::Time;
use windlass_core::audit::Actor;

use crate::problem::Problem;
use crate::service::Service;

const HOUR: Duration = Duration::from_secs(3_600);

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct CleanupRun {
    pub older_than: Duration,
    /// Only count.
    pub dry_run: bool,
    /// The operator who requested it. `None` for a dry run or an automatic run, which is not audited.
    pub actor: Option<Actor>,
}

/// Returns the rows removed, or on a dry run those that would be.
pub type Remove = Arc<dyn Fn(CleanupRun) -> BoxFuture<'static, Result<u64, Problem>> + Send + Sync>;

#[derive(Clone)]
pub struct CleanupTask {
    pub name: &'static str,
    pub description: &'static str,
    pub older_than: Duration,
    pub remove: Remove,
}

/// Runs all tasks soon after the start and then hourly.
pub struct Cleaner {
    tasks: Vec<CleanupTask>,
    begun: bool,
}

impl Cleaner {
    pub fn new(tasks: Vec<CleanupTask>) -> Cleaner {
        Cleaner { tasks, begun: false }
    }
}

#[async_trait]
impl Service for Cleaner {
    fn name(&self) -> &'static str {
        "clean-up"
    }

    async fn tick(&mut self, _: Time) -> Duration {
        // Soon, because a process that restarts every hour would never clean up. Not at once, because many processes
        // may start together.
        if !std::mem::replace(&mut self.begun, true) {
            return HOUR.mul_f64(fastrand::f64() / 20.0);
        }
        for task in &self.tasks {
            let run = CleanupRun { older_than: task.older_than, dry_run: false, actor: None };
            match (task.remove)(run).await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(task = task.name, rows, "cleaned up"),
                Err(error) => tracing::warn!(task = task.name, error = error.detail(), "clean-up failed"),
            }
        }
        HOUR.mul_f64(0.9 + fastrand::f64() / 5.0)
    }
}
