//! Runs leased jobs through their handler: timeout, panic guard, and halving of a batch that fails as a whole.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tracing::Instrument;
use windlass_core::{LeasedJob, Outcome};

use super::ServedKind;
use crate::handler::{Assignment, Context, RunEnv, outcome_of};

/// One outcome per job, in order. Never panics. Each call of the handler is bounded by the longest timeout among its
/// jobs; a batch that fails as a whole is called again in halves.
pub(crate) async fn run(served: Arc<ServedKind>, jobs: Vec<Arc<LeasedJob>>, env: RunEnv) -> Vec<Outcome> {
    match jobs.as_slice() {
        [job] => {
            let span = tracing::debug_span!(
                "job",
                job.id = job.id.0,
                job.r#type = served.name,
                job.queue = job.queue.0,
                job.attempt = job.attempt,
            );
            let result = call(&served, std::slice::from_ref(job), &env).instrument(span).await;
            match result {
                Ok(outcomes) => outcomes,
                Err(error) => vec![Outcome::Retry { after: None, error }],
            }
        }
        _ => halve(served, jobs, env).await,
    }
}

fn halve(
    served: Arc<ServedKind>,
    jobs: Vec<Arc<LeasedJob>>,
    env: RunEnv,
) -> BoxFuture<'static, Vec<Outcome>> {
    Box::pin(async move {
        match call(&served, &jobs, &env).await {
            Ok(outcomes) => outcomes,
            Err(error) if jobs.len() < 2 => {
                jobs.iter().map(|_| Outcome::Retry { after: None, error: error.clone() }).collect()
            }
            Err(error) => {
                tracing::warn!(kind = served.name, jobs = jobs.len(), error, "a batch failed; it is halved");
                let (left, right) = jobs.split_at(jobs.len() / 2);
                let mut outcomes = halve(served.clone(), left.to_vec(), env.clone()).await;
                outcomes.extend(halve(served, right.to_vec(), env).await);
                outcomes
            }
        }
    })
}

/// `Err` when the call as a whole failed.
async fn call(served: &ServedKind, jobs: &[Arc<LeasedJob>], env: &RunEnv) -> Result<Vec<Outcome>, String> {
    let assignments = jobs
        .iter()
        .map(|job| Assignment { context: Context { job: job.clone(), env: env.clone() } })
        .collect();
    // The handler may panic before it returns its future, so the call is inside the guard too. So is the timeout: a
    // future that it drops may panic while being dropped.
    let longest = jobs.iter().map(|job| job.timeout).max_by_key(|t| t.unwrap_or(Duration::MAX)).flatten();
    let limited = async {
        let work = async { served.handler.run(assignments).await };
        match longest {
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .map_err(|_| format!("timed out after {}", windlass_core::duration::format(limit))),
            None => Ok(work.await),
        }
    };
    let ran = AssertUnwindSafe(limited).catch_unwind().await;
    let results = ran.map_err(|panic| format!("panicked: {}", panic_text(&*panic)))??;
    if results.len() != jobs.len() {
        return Err(format!("the handler answered for {} of {} jobs", results.len(), jobs.len()));
    }
    Ok(results.into_iter().map(outcome_of).collect())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
