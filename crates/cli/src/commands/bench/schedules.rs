//! `bench schedules`: many schedules that tick once a minute each. Measures how late jobs start, whether any is
//! missing, and the cost for this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use windlass::parts::{DEFAULT_QUEUE, families};
use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::{KindSpec, Store};
use windlass_engine::{Client, Handlers, Worker, WorkerOptions, handler};

use super::queue::BenchError;
use super::{percentile, rounded, rss_mb};

const KIND: &str = "TICKED";
const MINUTE: u64 = 60;
/// Concurrent writes of schedules.
const PUTS: usize = 32;
/// Time for the worker to start.
const SETTLE: Duration = Duration::from_secs(3);
/// A job later than this counts as missing.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
pub(crate) struct SchedulesReport {
    store: &'static str,
    schedules: u64,
    seconds: f64,
    /// Due in the measured time.
    ticks: u64,
    missing: u64,
    twice: u64,
    late_p50_ms: f64,
    late_p99_ms: f64,
    late_max_ms: f64,
    /// As a fraction of one core, for this process.
    cpu_share: f64,
    rss_mb: f64,
}

/// A schedule's number, and the second of the minute in which it ticks.
#[derive(Serialize, Deserialize)]
struct Ticked {
    n: u64,
    second: u64,
}

/// Lateness in milliseconds by schedule and minute.
type Seen = Arc<Mutex<HashMap<(u64, u64), Vec<f64>>>>;

pub(crate) async fn run(
    store: Arc<dyn Store>,
    schedules: u64,
    period: Duration,
    at_once: bool,
    phase: impl Fn(&str),
) -> Result<SchedulesReport, BenchError> {
    let (name, seen) = (store.name(), Seen::default());
    let handlers = handlers(&seen);
    let client = Client::open(store, &families(), &handlers.specs()).await?;
    phase("writing schedules");
    put(&client, schedules, at_once).await?;
    let worker = Worker::start(client, &handlers, WorkerOptions::default()).await?;
    tokio::time::sleep(SETTLE).await;
    phase("ticking");
    let (begun, used) = (now(), cpu());
    tokio::time::sleep(period).await;
    let (ended, used) = (now(), cpu() - used);
    let due: Vec<(u64, u64)> = (0..schedules).flat_map(|n| due(n, at_once, begun, ended)).collect();
    let all = async {
        while !seen.lock().is_ok_and(|seen| due.iter().all(|tick| seen.contains_key(tick))) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // Jobs missing by then are reported.
    let _ = tokio::time::timeout(PATIENCE, all).await;
    worker.shutdown().await?;
    let seen = std::mem::take(&mut *seen.lock().map_err(|error| BenchError::Failed(error.to_string()))?);
    let found: Vec<&Vec<f64>> = due.iter().filter_map(|tick| seen.get(tick)).collect();
    let mut late: Vec<f64> = found.iter().flat_map(|runs| runs.first()).copied().collect();
    late.sort_by(f64::total_cmp);
    let seconds = ended.saturating_sub(begun).as_secs_f64();
    Ok(SchedulesReport {
        store: name,
        schedules,
        seconds: rounded(seconds),
        ticks: due.len() as u64,
        missing: (due.len() - found.len()) as u64,
        twice: found.iter().filter(|runs| runs.len() > 1).count() as u64,
        late_p50_ms: percentile(&late, 0.50),
        late_p99_ms: percentile(&late, 0.99),
        late_max_ms: percentile(&late, 1.0),
        cpu_share: rounded(used.as_secs_f64() / seconds),
        rss_mb: rss_mb(),
    })
}

/// Lateness is from the tick to the handler's first line.
fn handlers(seen: &Seen) -> Handlers {
    let seen = seen.clone();
    let mut handlers = Handlers::default();
    handlers.add(
        KindSpec::new(KIND, DEFAULT_QUEUE),
        handler(move |_, job: Ticked| {
            let since = now().saturating_sub(Duration::from_secs(job.second));
            let minute = since.as_secs() / MINUTE;
            let late = since.saturating_sub(Duration::from_secs(minute * MINUTE));
            if let Ok(mut seen) = seen.lock() {
                seen.entry((job.n, minute)).or_default().push(late.as_secs_f64() * 1e3);
            }
            async { Ok(()) }
        }),
    );
    handlers
}

async fn put(client: &Client, schedules: u64, at_once: bool) -> Result<(), BenchError> {
    let mut writing = tokio::task::JoinSet::new();
    for n in 0..schedules {
        if writing.len() >= PUTS {
            wrote(writing.join_next().await)?;
        }
        let client = client.clone();
        let spec = spec(n, at_once)?;
        writing.spawn(async move { client.store().put_schedule(&spec, None).await });
    }
    while let Some(one) = writing.join_next().await {
        wrote(Some(one))?;
    }
    Ok(())
}

type Wrote<T> = Option<Result<Result<T, windlass_core::StoreError>, tokio::task::JoinError>>;

fn wrote<T>(one: Wrote<T>) -> Result<(), BenchError> {
    match one {
        Some(Err(error)) => Err(BenchError::Failed(error.to_string())),
        Some(Ok(Err(error))) => Err(BenchError::Engine(error.into())),
        _ => Ok(()),
    }
}

fn spec(n: u64, at_once: bool) -> Result<ScheduleSpec, BenchError> {
    let second = second(n, at_once);
    let payload = serde_json::to_vec(&Ticked { n, second });
    Ok(ScheduleSpec {
        name: format!("bench-{n}"),
        kind: KIND.to_owned(),
        payload: payload.map_err(|error| BenchError::Failed(error.to_string()))?,
        rules: vec![RuleSpec { expr: format!("{second} * * * * *"), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    })
}

fn second(n: u64, at_once: bool) -> u64 {
    if at_once { 0 } else { n % MINUTE }
}

/// The minutes in which a schedule ticks after `begun` up to `ended`.
fn due(n: u64, at_once: bool, begun: Duration, ended: Duration) -> impl Iterator<Item = (u64, u64)> {
    let second = Duration::from_secs(second(n, at_once));
    let minutes = begun.as_secs() / MINUTE..=ended.as_secs() / MINUTE;
    let within = move |minute: &u64| {
        let tick = Duration::from_secs(minute * MINUTE) + second;
        tick > begun && tick <= ended
    };
    minutes.filter(within).map(move |minute| (n, minute))
}

/// Since 1970, by the clock of this machine, which both databases use.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// CPU time of this process, to a hundredth of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process name, in parentheses, may contain anything.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_within_a_time() {
        let at = Duration::from_secs;
        let minutes =
            |n, begun, ended| due(n, false, at(begun), at(ended)).map(|(_, m)| m).collect::<Vec<_>>();
        assert_eq!(minutes(7, 0, 60), [0]);
        assert_eq!(minutes(7, 7, 67), [1], "after the beginning, up to the end");
        assert_eq!(minutes(67, 6, 66), [0]);
        assert_eq!(minutes(7, 100, 220), [2, 3]);
        assert_eq!(due(7, true, at(1), at(60)).collect::<Vec<_>>(), [(7, 1)]);
    }

    #[test]
    fn processor_time_grows() {
        let before = cpu();
        let mut n = 0u64;
        while cpu() == before {
            n = n.wrapping_add(1);
        }
        assert!(cpu() > before, "{n}");
    }
}
