//! For whoever watches the process: is it up, can it work, what does it count.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};

use super::{Table, route};
use crate::app::App;
use crate::call::Call;
use crate::metrics;
use crate::problem::Problem;
use crate::route::{Answer, Answered, Route, text};

/// A store that takes longer is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let plain = || Answered::Media("text/plain");
    vec![
        route(app, Method::GET, "/healthz", "is_alive", "The process is up", alive).answers(
            200,
            "It is",
            plain(),
        ),
        route(app, Method::GET, "/readyz", "is_ready", "The database answers now", ready).answers(
            200,
            "It does",
            plain(),
        ),
        route(app, Method::GET, "/metrics", "get_metrics", "Prometheus text", scrape).answers(
            200,
            "The metrics",
            plain(),
        ),
    ]
}

async fn alive(_: Arc<App>, _: Call) -> Answer {
    Ok(text("text/plain; charset=utf-8", "ok\n"))
}

async fn ready(app: Arc<App>, _: Call) -> Answer {
    if *app.stop.borrow() {
        return Err(not_ready("the server is stopping"));
    }
    match tokio::time::timeout(PATIENCE, app.client.store().check_schema()).await {
        Ok(Ok(())) => Ok(text("text/plain; charset=utf-8", "ready\n")),
        Ok(Err(error)) => {
            tracing::warn!(causes = error.chain(), "not ready");
            Err(not_ready("the database cannot be used; the log tells more"))
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
