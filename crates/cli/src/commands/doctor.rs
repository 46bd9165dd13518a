//! `doctor`: checks configuration, folder, database and workers, and says how to fix problems.
//!
//! Creates and changes nothing: a database that does not exist yet is a finding.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use windlass_pack::api::ApiRequest;
use windlass_pack::health::{Finding, Level};

use super::Session;
use crate::compose::{self, Address};
use crate::failure::{During, Failure};
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
    level: &'static str,
    finding: String,
    remedy: Option<String>,
}

pub(crate) async fn run(session: &Session, json: bool) -> Result<(), Failure> {
    let findings = examine(session).await;
    let ok = findings.iter().all(is_ok);
    if json {
        let view = |finding: Finding| FindingView {
            ok: is_ok(&finding),
            level: finding.level.name(),
            name: finding.check,
            finding: finding.what,
            remedy: finding.remedy,
        };
        session.output.json(&Report { ok, findings: findings.into_iter().map(view).collect() })?;
        return if ok { Ok(()) } else { Err(Failure::Silent(1)) };
    }
    for finding in &findings {
        let word = match finding.level {
            Level::Ok => "ok  ",
            Level::Warning => "warn",
            Level::Failing => "FAIL",
        };
        session.output.line(format_args!(
            "{word}  {}: {}",
            visible(&finding.check),
            visible(&finding.what)
        ))?;
        if let Some(remedy) = finding.remedy.as_ref().filter(|_| !is_ok(finding)) {
            session.output.line(format_args!("      → {}", visible(remedy)))?;
        }
    }
    let wrong = findings.iter().filter(|finding| !is_ok(finding)).count() as u64;
    match wrong {
        0 => session.output.line("all is well"),
        n => {
            session.output.line(format_args!("{} found", plural(n, "problem")))?;
            Err(Failure::Silent(1))
        }
    }
}

fn is_ok(finding: &Finding) -> bool {
    finding.level == Level::Ok
}

async fn examine(session: &Session) -> Vec<Finding> {
    let config = &session.config;
    let set = config.shown.iter().filter(|shown| shown.origin != "default").count() as u64;
    let mut findings =
        vec![Finding::ok("configuration", format!("{} set, the rest are defaults", plural(set, "value")))];
    if session.remote.is_none() && !database(session, &mut findings).await {
        return findings;
    }
    match health(session).await {
        Ok(found) => findings.extend(found),
        Err(failure) => {
            let what = failure.text(false);
            let (what, remedy) = what.trim().split_once("\nhint: ").unwrap_or((what.trim(), "see the cause"));
            findings.push(Finding::failing("health", what.trim_start_matches("error: "), remedy));
        }
    }
    findings
}

/// Whether there is a database to check.
async fn database(session: &Session, findings: &mut Vec<Finding>) -> bool {
    let address = &session.config.database.address;
    if let Address::Sqlite(path) = address {
        findings.push(folder(path));
        if !path.exists() {
            let what = format!("{address} does not exist yet; the first use creates it");
            findings.push(Finding::ok("database", what));
            return false;
        }
    }
    let store = match compose::open(&session.config.database, false).await {
        Ok(store) => store,
        Err(error) => {
            let remedy = "see the cause above; check the path, the server and the rights";
            findings.push(Finding::failing("database", error.chain(), remedy));
            return false;
        }
    };
    findings.push(Finding::ok("database", format!("{address} answers")));
    let schema = match (store.check_schema().await, session.assembly()) {
        (Ok(()), Ok(assembly)) => assembly.check(store.as_ref()).await,
        (checked, _) => checked,
    };
    store.close().await;
    if let Err(error) = schema {
        let remedy = "run `windlass migrate up`, or use the binary that fits";
        findings.push(Finding::failing("schema", error.chain(), remedy));
        return false;
    }
    true
}

/// Findings of the routes, here or on the server.
async fn health(session: &Session) -> Result<Vec<Finding>, Failure> {
    let api = session.api().await?;
    let answer = api.call(ApiRequest::get("/v1/health", &[])).await.during("cannot look")?;
    let found = answer["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value, field: &str| value[field].as_str().map(str::to_owned);
    let read = |value: &Value| Finding {
        check: text(value, "check").unwrap_or_default(),
        level: match value["level"].as_str() {
            Some("ok") => Level::Ok,
            Some("warning") => Level::Warning,
            _ => Level::Failing,
        },
        what: text(value, "what").unwrap_or_default(),
        since: None,
        remedy: text(value, "remedy"),
        link: text(value, "link"),
    };
    Ok(found.iter().map(read).collect())
}

/// SQLite writes files beside the database, so the folder must be writable too.
fn folder(path: &Path) -> Finding {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let shown = folder.display();
    match std::fs::metadata(folder) {
        Err(_) => Finding::ok("folder", format!("{shown} does not exist yet; the first use creates it")),
        Ok(found) if !found.is_dir() => Finding::failing(
            "folder",
            format!("{shown} is not a folder"),
            "name another place with --database or server.data",
        ),
        Ok(found) if found.permissions().readonly() => Finding::failing(
            "folder",
            format!("{shown} cannot be written"),
            "give this user write permission on the folder",
        ),
        Ok(_) => Finding::ok("folder", format!("{shown} is there")),
    }
}
