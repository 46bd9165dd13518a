//! Health, readiness and metrics for monitoring.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use windlass_pack::health::{Finding, Level, examine};
use windlass_pack::{Answer, Answered, Call, Problem, Route, Scope, ok, shape, text};

use super::{Table, route};
use crate::app::App;
use crate::metrics;
use crate::view::Stamp;

/// A store that takes longer is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let plain = || Answered::Media("text/plain");
    vec![
        route(app, Method::GET, "/v1/health", "get_health", "All health checks, with remedies", health)
            .needs(Scope::Read)
            .json::<HealthView>(200, "All findings, worst first"),
        route(app, Method::GET, "/healthz", "is_alive", "The process is up", alive)
            .needs(Scope::Open)
            .answers(200, "It is", plain()),
        route(app, Method::GET, "/readyz", "is_ready", "The database answers now", ready)
            .needs(Scope::Open)
            .answers(200, "It does", plain()),
        route(app, Method::GET, "/metrics", "get_metrics", "Prometheus text", scrape)
            .needs(Scope::Read)
            .answers(200, "The metrics", plain()),
    ]
}

shape! {
    /// The health of the system.
    pub struct HealthView as "Health" {
        /// ok, degraded or failing: that of the worst finding.
        pub status: &'static str,
        pub findings: Vec<FindingView>,
    }
}

shape! {
    /// The result of one check.
    pub struct FindingView as "Finding" {
        pub check: String,
        /// ok, warning or failing.
        pub level: &'static str,
        pub what: String,
        /// Since when, if known.
        pub since: Option<Stamp>,
        /// What to do about it.
        pub remedy: Option<String>,
        /// A page with more details.
        pub link: Option<String>,
    }
}

async fn health(app: Arc<App>, _: Call) -> Answer {
    let mut findings = examine(&app.parts.checks).await;
    findings.sort_by_key(|finding| Reverse(finding.level));
    let status = match findings.first().map_or(Level::Ok, |worst| worst.level) {
        Level::Ok => "ok",
        Level::Warning => "degraded",
        Level::Failing => "failing",
    };
    let view = |finding: Finding| FindingView {
        check: finding.check,
        level: finding.level.name(),
        what: finding.what,
        since: finding.since.map(Stamp),
        remedy: finding.remedy,
        link: finding.link,
    };
    ok(&HealthView { status, findings: findings.into_iter().map(view).collect() })
}

async fn alive(_: Arc<App>, _: Call) -> Answer {
    Ok(text("text/plain; charset=utf-8", "ok\n"))
}

async fn ready(app: Arc<App>, _: Call) -> Answer {
    if *app.stop.borrow() {
        return Err(not_ready("the server is stopping"));
    }
    match tokio::time::timeout(PATIENCE, app.client.ready()).await {
        Ok(Ok(())) => Ok(text("text/plain; charset=utf-8", "ready\n")),
        Ok(Err(error)) => {
            tracing::warn!(causes = error.chain(), "not ready");
            Err(not_ready("the database cannot be used; see the log"))
        }
        Err(_) => Err(not_ready("the database does not answer")),
    }
}

fn not_ready(why: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "Not ready", why)
        .retry_after(Duration::from_secs(1))
}

async fn scrape(app: Arc<App>, _: Call) -> Answer {
    Ok(text("text/plain; version=0.0.4; charset=utf-8", metrics::render(&app).await))
}
