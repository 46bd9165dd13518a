//! `doctor`: looks at configuration, folder, database and workers, and says how to mend what is wrong.
//!
//! Creates nothing and changes nothing: a database that is not there yet is a finding, not a reason to make one.

use std::path::Path;

use serde::Serialize;
use windlass_core::Store;
use windlass_core::store::{Finding, Overruled};

use super::Session;
use super::backup::kept;
use crate::compose::{self, Address};
use crate::config::Copies;
use crate::failure::Failure;
use crate::output::{plural, visible};

#[derive(Serialize)]
struct Report {
    ok: bool,
    findings: Vec<FindingView>,
}

#[derive(Serialize)]
struct FindingView {
    name: String,
    ok: bool,
    finding: String,
    remedy: Option<String>,
}

pub(crate) async fn run(session: &Session, json: bool) -> Result<(), Failure> {
    let findings = examine(session).await;
    let ok = findings.iter().all(|finding| finding.ok);
    if json {
        let view = |f: Finding| FindingView { name: f.name, ok: f.ok, finding: f.finding, remedy: f.remedy };
        session.output.json(&Report { ok, findings: findings.into_iter().map(view).collect() })?;
        return if ok { Ok(()) } else { Err(Failure::Silent(1)) };
    }
    for finding in &findings {
        let word = if finding.ok { "ok  " } else { "warn" };
        session.output.line(format_args!(
            "{word}  {}: {}",
            visible(&finding.name),
            visible(&finding.finding)
        ))?;
        if let Some(remedy) = finding.remedy.as_ref().filter(|_| !finding.ok) {
            session.output.line(format_args!("      → {}", visible(remedy)))?;
        }
    }
    let wrong = findings.iter().filter(|finding| !finding.ok).count() as u64;
    match wrong {
        0 => session.output.line("all is well"),
        n => {
            session.output.line(format_args!("{} to mend", plural(n, "thing")))?;
            Err(Failure::Silent(1))
        }
    }
}

async fn examine(session: &Session) -> Vec<Finding> {
    let config = &session.config;
    let said = config.shown.iter().filter(|shown| shown.origin != "default").count() as u64;
    let mut findings =
        vec![good("configuration", format!("{} set, the rest are defaults", plural(said, "value")))];
    if let Address::Sqlite(path) = &config.database.address {
        findings.push(folder(path));
        if !path.exists() {
            let finding = format!("{} is not there yet; the first use makes it", config.database.address);
            findings.push(good("database", finding));
            return findings;
        }
    }
    let store = match compose::open(&config.database, false).await {
        Ok(store) => store,
        Err(error) => {
            findings.push(bad(
                "database",
                error.chain(),
                "see the cause above; check the path, the server and the rights",
            ));
            return findings;
        }
    };
    findings.push(good("database", format!("{} answers", config.database.address)));
    schema(store.as_ref(), config.copies.as_ref(), &mut findings).await;
    store.close().await;
    match kept::examine_left(&config.database, config.copies.as_ref()).await {
        Ok(line) => findings.extend(line),
        Err(error) => findings.push(bad("backup leftovers", error.chain(), "try again")),
    }
    findings
}

async fn schema(store: &dyn Store, copies: Option<&Copies>, findings: &mut Vec<Finding>) {
    if let Err(error) = store.check_schema().await {
        findings.push(bad("schema", error.chain(), "run `windlass migrate up`, or use the binary that fits"));
        return;
    }
    match store.examine().await {
        Ok(more) => findings.extend(more),
        Err(error) => findings.push(bad("examination", error.chain(), "try again; the database may be busy")),
    }
    match store.overruled().await {
        Ok(live) => findings.push(good("live values", told(&live))),
        Err(error) => findings.push(bad("live values", error.chain(), "try again; the database may be busy")),
    }
    match kept::examine(store, copies).await {
        Ok(line) => findings.extend(line),
        Err(error) => findings.push(bad("backup", error.chain(), "try again; the database may be busy")),
    }
    match (store.workers().await, store.queues().await) {
        (Ok(workers), Ok(queues)) => {
            findings.push(hands(workers.len(), queues.iter().map(|q| q.depth).sum()))
        }
        (Err(error), _) | (_, Err(error)) => {
            findings.push(bad("workers", error.chain(), "try again; the database may be busy"));
        }
    }
}

/// Nothing is wrong with them, but who reads the configuration alone is mistaken.
fn told(live: &[Overruled]) -> String {
    if live.is_empty() {
        return "none; the configuration holds".to_owned();
    }
    let each = live.iter().map(|of| format!("{} {} (configured: {})", of.key, of.live, of.configured));
    let each: Vec<String> = each.collect();
    let holds = if live.len() == 1 { "holds" } else { "hold" };
    format!(
        "{} {holds} instead of the configuration: {}",
        plural(live.len() as u64, "value"),
        each.join(", ")
    )
}

fn hands(workers: usize, waiting: u64) -> Finding {
    let finding = format!("{}, {} waiting", plural(workers as u64, "worker"), plural(waiting, "job"));
    if workers == 0 && waiting > 0 {
        return bad("workers", finding, "start one with `windlass serve`");
    }
    good("workers", finding)
}

/// SQLite keeps its log beside the file, so the folder matters as much as the file.
fn folder(path: &Path) -> Finding {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let shown = folder.display();
    match std::fs::metadata(folder) {
        Err(_) => good("folder", format!("{shown} is not there yet; the first use makes it")),
        Ok(found) if !found.is_dir() => bad(
            "folder",
            format!("{shown} is not a folder"),
            "name another place with --database or server.data",
        ),
        Ok(found) if found.permissions().readonly() => bad(
            "folder",
            format!("{shown} cannot be written"),
            "give this user write permission on the folder",
        ),
        Ok(_) => good("folder", format!("{shown} is there")),
    }
}

fn good(name: &str, finding: String) -> Finding {
    Finding { name: name.to_owned(), ok: true, finding, remedy: None }
}

fn bad(name: &str, finding: String, remedy: &str) -> Finding {
    Finding { name: name.to_owned(), ok: false, finding, remedy: Some(remedy.to_owned()) }
}
