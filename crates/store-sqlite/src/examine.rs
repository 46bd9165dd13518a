//! Findings for `doctor`.
//!
//! Owns: what can be wrong with the file, the disk and the settings, and the remedy for each. Never repairs
//! anything.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use windlass_core::Time;
use windlass_core::store::Finding;

use crate::error::Answer;
use crate::gate::beside;
use crate::workflow::inconsistent;
use crate::{migrate, version};

/// Checking a larger file would take minutes.
const CHECKED_BYTES: u64 = 512 << 20;
const HOT_TABLES: [&str; 5] =
    ["windlass_ready", "windlass_claims", "windlass_workers", "windlass_queues", "windlass_kinds"];
const LOG_BYTES: u64 = 256 << 20;
const FREE_BYTES: u64 = 512 << 20;

/// Settings that only the writer's connection can read.
pub(crate) struct Settings {
    pub(crate) synchronous: i64,
    pub(crate) journal: String,
}

pub(crate) fn settings(connection: &Connection) -> Answer<Settings> {
    Ok(Settings {
        synchronous: connection.query_row("pragma synchronous", [], |row| row.get(0))?,
        journal: connection.query_row("pragma journal_mode", [], |row| row.get(0))?,
    })
}

pub(crate) fn examine(
    connection: &Connection,
    path: &Path,
    settings: &Settings,
    now: Time,
) -> Answer<Vec<Finding>> {
    let schema = schema(connection)?;
    let known = schema.ok;
    let mut findings = vec![linked(), durability(settings), schema, integrity(connection, path)?];
    if known {
        findings.extend([lanes(connection, now)?, workflows(connection)?]);
    }
    findings.extend([log(path), disk(path)]);
    Ok(findings)
}

fn finding(name: &str, ok: bool, finding: String, remedy: &str) -> Finding {
    let remedy = (!ok).then(|| remedy.to_owned());
    Finding { name: name.to_owned(), ok, finding, remedy }
}

fn linked() -> Finding {
    let bad = version::unfit(rusqlite::version_number());
    let text =
        format!("SQLite {}{}", rusqlite::version(), bad.map(|why| format!(": {why}")).unwrap_or_default());
    finding(
        "sqlite version",
        bad.is_none(),
        text,
        "use a windlass binary built with SQLite 3.51.3 or 3.53 and later",
    )
}

fn durability(settings: &Settings) -> Finding {
    let level = match settings.synchronous {
        0 => "OFF",
        1 => "NORMAL",
        2 => "FULL",
        _ => "EXTRA",
    };
    let ok = settings.synchronous >= 2 && settings.journal == "wal";
    finding(
        "durability",
        ok,
        format!("synchronous={level}, journal_mode={}", settings.journal),
        "another program changed the file's mode; stop it, restart windlass and check again",
    )
}

fn schema(connection: &Connection) -> Answer<Finding> {
    let (ok, text) = match migrate::check_schema(connection) {
        Ok(()) => (true, format!("version {}", migrate::newest())),
        Err(fault) => (false, fault.named("check the schema").to_string()),
    };
    Ok(finding("schema", ok, text, "run `windlass migrate up` with the newest binary in use"))
}

fn integrity(connection: &Connection, path: &Path) -> Answer<Finding> {
    let bytes = fs::metadata(path).map_or(0, |meta| meta.len());
    let whole = bytes <= CHECKED_BYTES;
    let mut troubles: Vec<String> = Vec::new();
    let tables: &[&str] = if whole { &["5"] } else { &HOT_TABLES };
    for table in tables {
        let mut statement = connection.prepare(&format!("pragma quick_check({table})"))?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        for row in rows {
            troubles.push(row?);
        }
    }
    troubles.retain(|line| line != "ok");
    let text = match (troubles.is_empty(), whole) {
        (true, true) => "quick_check found no errors".to_owned(),
        (true, false) => {
            format!("quick_check of the busiest tables found no errors (the file has {} MiB)", bytes >> 20)
        }
        (false, _) => troubles.into_iter().take(5).collect::<Vec<_>>().join("; "),
    };
    let ok = text.starts_with("quick_check");
    let remedy =
        "stop every process on this file, copy it, and run `sqlite3 copy.db .recover`; then check the disk";
    Ok(finding("integrity", ok, text, remedy))
}

fn workflows(connection: &Connection) -> Answer<Finding> {
    let inconsistent = inconsistent(connection)?.len();
    let text = match inconsistent {
        0 => "every waiting job has an unfinished parent".to_owned(),
        some => format!("{some} do not match the states of their jobs"),
    };
    let remedy = "keep a worker of the newest version running: it corrects them within a minute";
    Ok(finding("workflows", inconsistent == 0, text, remedy))
}

/// Slots without a job, jobs without a slot, and blocked jobs that no check will find. No cause is known.
const INCONSISTENT: &str = "
    with held (lane, n) as (
        select lane, sum(n) from (
            select lane, -1 as n from windlass_lane_slots
            union all select lane, 1 from windlass_ready where queue > 0 and lane is not null
            union all select j.lane, 1 from windlass_leases l join windlass_jobs j on j.id = l.id
                      where j.lane is not null)
        group by lane)
    select (select coalesce(-sum(n), 0) from held where n < 0),
           (select coalesce(sum(n), 0) from held where n > 0),
           (select count(*) from windlass_ready r join windlass_kinds k on k.id = r.kind
            where r.queue < 0
              and not exists (select 1 from windlass_lane_checks c
                              where c.kind = r.kind and c.lane = r.lane and c.at <= max(r.run_at, ?1))
              and (r.run_at > ?1
                   or (select count(*) from windlass_lane_slots s where s.lane = r.lane) < k.key_concurrency))";

fn lanes(connection: &Connection, now: Time) -> Answer<Finding> {
    let (slots, holders, blocked): (i64, i64, i64) =
        connection.query_row(INCONSISTENT, [now.0], |row| row.try_into())?;
    let ok = slots + holders + blocked == 0;
    let text = match ok {
        true => "every slot has its job, every blocked job will be checked".to_owned(),
        false => {
            format!(
                "{slots} slots without a job, {holders} jobs without a slot, {blocked} jobs blocked for ever"
            )
        }
    };
    Ok(finding("lanes", ok, text, LANES_REMEDY))
}

const LANES_REMEDY: &str =
    "raise key_concurrency of the kind by one, which checks every lane; then report the bug";

fn log(path: &Path) -> Finding {
    let bytes = fs::metadata(beside(path, "-wal")).map_or(0, |meta| meta.len());
    let remedy =
        "a reader keeps a transaction open; find and end that program; the log then shrinks by itself";
    finding("write-ahead log", bytes <= LOG_BYTES, format!("{} KiB", bytes >> 10), remedy)
}

fn disk(path: &Path) -> Finding {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match rustix::fs::statvfs(folder) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let text = format!("{} MiB free", free >> 20);
            finding("disk", free >= FREE_BYTES, text, "free space; enqueues are refused when none is left")
        }
        Err(error) => {
            finding("disk", false, error.to_string(), "check that the folder is mounted and readable")
        }
    }
}
