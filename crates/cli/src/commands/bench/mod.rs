//! `bench`: figures of this machine, measured in a scratch database and printed as one object.

mod index;
mod pickup;
mod queue;
mod search;
mod soak;
mod texts;

use std::io::IsTerminal;

use queue::BenchError;
use serde::Serialize;

use crate::args::{BenchIndex, BenchPickup, BenchQueue, BenchSearch, BenchSoak};
use crate::compose::Scratch;
use crate::failure::{During, Failure};

use super::Session;

pub(crate) async fn queue(session: &Session, args: &BenchQueue) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let told = std::io::stderr().is_terminal();
    let phase = |name: &str| {
        if told {
            eprintln!("{name} …");
        }
    };
    let limit = async { scratch.limit(args.jobs).await.map_err(|error| BenchError::Engine(error.into())) };
    let size = queue::Size { jobs: args.jobs, workers: args.workers, retain: args.retain };
    let measured = queue::run(scratch.store(), size, limit, phase).await;
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
    let measured = index::run(scratch.store(), args.docs, session.output).await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

pub(crate) async fn search(session: &Session, args: &BenchSearch) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let measured = search::run(scratch.store(), args.docs, args.queries, session.output).await;
    let ended = scratch.end().await;
    let report = measured.map_err(|error| Failure::new("the benchmark failed", error))?;
    ended.during("the scratch database was not removed")?;
    print(session, &report, args.json.json)
}

pub(crate) async fn soak(session: &Session, args: &BenchSoak) -> Result<(), Failure> {
    let database = &session.config.database;
    let scratch = Scratch::open(database).await.during(format!("cannot use {}", database.address))?;
    let held = match args.hold_snapshot {
        true => scratch.hold_snapshot().await.during("cannot hold a snapshot")?,
        false => None,
    };
    let told = std::io::stderr().is_terminal();
    let second = |second: u64, depth: u64| {
        if told && second.is_multiple_of(10) {
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

fn print(session: &Session, report: &impl Serialize, json: bool) -> Result<(), Failure> {
    let value =
        serde_json::to_value(report).map_err(|error| Failure::new("cannot print the figures", error))?;
    if json {
        return session.output.json(&value);
    }
    let Some(figures) = value.as_object() else { return Ok(()) };
    for (name, figure) in figures {
        session.output.line(format_args!("{name:<22} {figure}"))?;
    }
    Ok(())
}

/// Of values sorted in ascending order.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    rounded(sorted[place - 1])
}

/// Three places: what is finer is noise.
pub(super) fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

/// Resident memory of this process now.
fn rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    (kib / 1024.0 * 10.0).round() / 10.0
}
