//! Current statistics, once or as a stream.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use windlass_pack::{Answer, Answered, Call, Problem, Route, Scope, ok, text};

use super::{Table, route};
use crate::app::App;
use crate::view::StatsView;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    vec![
        route(app, Method::GET, "/v1/stats", "get_stats", "Current statistics of all queues", get)
            .needs(Scope::Read)
            .json::<StatsView>(200, "The figures"),
        route(
            app,
            Method::GET,
            "/v1/stream",
            "stream_stats",
            "Statistics as server-sent events, one `stats` event per second",
            stream,
        )
        .needs(Scope::Read)
        .answers(200, "Events until either side closes", Answered::Media("text/event-stream")),
    ]
}

async fn get(app: Arc<App>, _: Call) -> Answer {
    ok(&app.stats.sample().await?)
}

async fn stream(app: Arc<App>, call: Call) -> Answer {
    let Some(events) = app.stats.listen(call.peer(), app.stop.clone()) else {
        let detail = format!("at most {} listen at once; poll /v1/stats instead", app.options.listeners);
        let title = "Too many listeners";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_listeners", title, detail);
        return Err(problem.retry_after(Duration::from_secs(5)));
    };
    Ok(text("text/event-stream", Body::from_stream(events)))
}
