//! `bench`: measurements of this machine in a scratch database, printed as one object.

mod index;
mod pickup;
mod queue;
mod schedules;
mod search;
mod soak;
mod steady;
mod texts;

use queue::BenchError;
use serde::Serialize;
use serde_json::Value;

use crate::args::{BenchIndex, BenchPickup, BenchQueue, BenchSchedules, BenchSearch, BenchSoak};
use crate::compose::Scratch;
use crate::failure::{During, Failure};
use crate::output::table::Table;

use super::Session;

pub(crate) async fn queue(session: &Session, args: &BenchQueue) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let phase = |name: &str| eprintln!("{name} …");
    let engine = |error: windlass_core::StoreError| BenchError::Engine(error.into());
    let rest = async || match scratch.rest().await.map_err(engine) {
        Ok(false) => {
            eprintln!("this role may not CHECKPOINT: what the load left to write weighs on what follows");
            Ok(())
        }
        rested => rested.map(drop),
    };
    let limit = async { scratch.limit(args.jobs).await.map_err(engine) };
    let keys = args.keys.map(|keys| queue::Keys { keys, limit: args.key_limit });
    let size = queue::Size { jobs: args.jobs, workers: args.workers, retain: args.retain, keys };
    let measured = queue::run(scratch.store(), size, rest, limit, phase).await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

pub(crate) async fn pickup(session: &Session, args: &BenchPickup) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let measured = pickup::run(scratch.store()).await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

pub(crate) async fn index(session: &Session, args: &BenchIndex) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let measured = index::run(scratch.store(), args.docs, args.rate, session.output).await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

/// Loads in a separate process, so that the measurement starts fresh, including its memory.
pub(crate) async fn search(session: &Session, args: &BenchSearch) -> Result<(), Failure> {
    let database = &session.config.database;
    if args.load_only {
        let store = crate::compose::open(database, false).await.during("cannot open the scratch database")?;
        let loaded = search::load(store, args.docs, session.output).await;
        return loaded.map_err(|error| Failure::new("the load failed", error));
    }
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let measured = async {
        load_apart(&scratch.url(), args.docs).await?;
        search::run(scratch.store(), args.docs, args.queries, args.during_load, session.output).await
    };
    let measured = measured.await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

async fn load_apart(url: &str, docs: u64) -> Result<(), BenchError> {
    let failed = |error: std::io::Error| BenchError::Failed(format!("the load cannot be started: {error}"));
    let mut load = std::process::Command::new(std::env::current_exe().map_err(failed)?);
    load.args(["bench", "search", "--load-only", "--docs", &docs.to_string()]);
    load.env("DATABASE_URL", url).stdout(std::process::Stdio::null());
    let ended = tokio::task::spawn_blocking(move || load.status()).await;
    let status = ended.map_err(|error| BenchError::Failed(error.to_string()))?.map_err(failed)?;
    if status.success() { Ok(()) } else { Err(BenchError::Failed(format!("the load ended with {status}"))) }
}

pub(crate) async fn soak(session: &Session, args: &BenchSoak) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let held = match args.hold_snapshot {
        true => scratch.hold_snapshot().await.during("cannot hold a snapshot")?,
        false => None,
    };
    let second = |second: u64, depth: u64| {
        if second.is_multiple_of(10) {
            eprintln!("{second:>5} s   depth {depth}");
        }
    };
    let measured = soak::run(scratch.store(), args.rate, args.period, args.workers, second).await;
    drop(held);
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the soak failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

pub(crate) async fn schedules(session: &Session, args: &BenchSchedules) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let phase = |name: &str| eprintln!("{name} …");
    let measured = schedules::run(scratch.store(), args.schedules, args.period, args.at_once, phase).await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

fn print(session: &Session, report: &impl Serialize, json: bool) -> Result<(), Failure> {
    let value =
        serde_json::to_value(report).map_err(|error| Failure::new("cannot print the figures", error))?;
    if json {
        return session.output.json(&value);
    }
    let mut table = Table::new(&["figure", ">value"]);
    for row in rows("", &value) {
        table.row(row);
    }
    table.print(&session.output)
}

/// One row per name and value; nested objects prefix theirs.
fn rows(within: &str, report: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, figure) in report.as_object().into_iter().flatten() {
        let name = format!("{within}{name}");
        match figure {
            Value::Object(_) => rows.extend(self::rows(&format!("{name}."), figure)),
            Value::String(text) => rows.push(vec![name, text.clone()]),
            // JSON writes whole numbers with `.0`.
            figure => rows.push(vec![name, figure.to_string().trim_end_matches(".0").to_owned()]),
        }
    }
    rows
}

/// `sorted` is in ascending order.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    rounded(sorted[place - 1])
}

/// Three significant digits; more would be noise.
pub(super) fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

/// Resident memory of this process.
fn rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    (kib / 1024.0 * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_no_fraction_and_nested_names_are_prefixed() {
        let report = serde_json::json!({ "store": "sqlite", "jobs": 20, "per_s": 100.0, "p50_ms": 1.5, "during": { "p50_ms": 3.0 } });
        let rows: Vec<String> = rows("", &report).into_iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["store sqlite", "jobs 20", "per_s 100", "p50_ms 1.5", "during.p50_ms 3"]);
    }
}
