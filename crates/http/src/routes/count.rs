//! The exact number of matching jobs, for example before a bulk action. Lists only show a page.

use std::sync::Arc;

use axum::http::Method;
use windlass_pack::{Answer, Call, Problem, Route, Scope, ok, shape};

use super::{Table, jobs, route};
use crate::app::App;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "The exact number of matching jobs; slow on a large table";
    let count = route(app, Method::GET, "/v1/jobs/count", "count_jobs", about, count).needs(Scope::Read);
    vec![jobs::conditions(count).json::<CountView>(200, "The number")]
}

shape! {
    /// The number of matching jobs.
    pub struct CountView as "Count" {
        pub count: u64,
    }
}

async fn count(app: Arc<App>, call: Call) -> Answer {
    let (filters, invalid) = jobs::filters(&app, &call, &[]).await?;
    invalid.into_result().map_err(Problem::parameter)?;
    let mut count = 0;
    for filter in &filters {
        count += app.client.count_jobs(filter).await?;
    }
    ok(&CountView { count })
}
