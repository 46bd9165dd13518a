//! Clean-up tasks: what each removes, on request and by itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use windlass_core::Time;
use windlass_core::audit::Actor;

use crate::problem::Problem;
use crate::service::Service;

const HOUR: Duration = Duration::from_secs(3_600);

/// How a task is asked to run.
#[derive(Clone, Debug)]
pub struct CleanupRun {
    pub older_than: Duration,
    /// Count, remove nothing.
    pub dry_run: bool,
    /// The operator who asked; `None`: a dry run, or the task runs by itself and leaves no line in the audit.
    pub actor: Option<Actor>,
}

/// Answers the rows removed, or on a dry run those that would be.
pub type Remove = Arc<dyn Fn(CleanupRun) -> BoxFuture<'static, Result<u64, Problem>> + Send + Sync>;

#[derive(Clone)]
pub struct CleanupTask {
    pub name: &'static str,
    pub description: &'static str,
    pub older_than: Duration,
    pub remove: Remove,
}

/// Runs every task soon after the start and then hourly.
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
        // Soon, because a process that is restarted every hour would otherwise never clean; not at once, because a fleet
        // starts together.
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
