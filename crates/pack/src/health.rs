//! Health checks and their findings.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use windlass_core::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    /// Works, but an operator should look at it.
    Warning,
    /// Does not work.
    Failing,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Failing => "failing",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: String,
    pub level: Level,
    pub what: String,
    /// Since when, if known.
    pub since: Option<Time>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// A page or route with more details.
    pub link: Option<String>,
}

impl Finding {
    fn new(check: &str, level: Level, what: impl Into<String>, remedy: Option<String>) -> Finding {
        Finding { check: check.to_owned(), level, what: what.into(), since: None, remedy, link: None }
    }

    pub fn ok(check: &str, what: impl Into<String>) -> Finding {
        Finding::new(check, Level::Ok, what, None)
    }

    pub fn warning(check: &str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(check, Level::Warning, what, Some(remedy.into()))
    }

    pub fn failing(check: &str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(check, Level::Failing, what, Some(remedy.into()))
    }

    pub fn since(mut self, since: Time) -> Finding {
        self.since = Some(since);
        self
    }

    pub fn link(mut self, link: impl Into<String>) -> Finding {
        self.link = Some(link.into());
        self
    }
}

/// An error becomes a finding of its own: the check could not run.
pub type RunCheck = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Finding>, String>> + Send + Sync>;

#[derive(Clone)]
pub struct Check {
    pub name: &'static str,
    pub run: RunCheck,
}

/// Runs all checks. One that cannot run is itself a finding.
pub async fn examine(checks: &[Check]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in checks {
        match (check.run)().await {
            Ok(found) => findings.extend(found),
            Err(why) => {
                let remedy = "try again; the database may be busy";
                findings.push(Finding::failing(check.name, format!("could not be examined: {why}"), remedy));
            }
        }
    }
    findings
}
