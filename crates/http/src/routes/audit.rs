//! The audit.

use std::sync::Arc;

use axum::http::Method;
use serde_json::json;
use windlass_core::Time;
use windlass_core::store::AuditFilter;
use windlass_pack::paging::{Paging, paged};
use windlass_pack::{Answer, Call, Problem, Route, Scope, ok};

use super::{Table, route};
use crate::app::App;
use crate::view::{ActView, ListView};

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let (text, time) =
        (|| json!({ "type": "string" }), || json!({ "type": "string", "format": "date-time" }));
    let about = "Actions of operators, newest first";
    let list = route(app, Method::GET, "/v1/audit", "list_audit", about, list)
        .needs(Scope::Read)
        .query("actor", "Only actions of this actor", text())
        .query("act", "Only this action, such as `job.cancel`, or all actions with a prefix: `job`", text())
        .query("subject", "Only actions on this subject: `job/123`, `queue/LOW`", text())
        .query("from", "At this time or later", time())
        .query("to", "Before this time", time());
    vec![paged(list, "Most acts on a page").json::<ListView<ActView>>(200, "A page of acts")]
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    let (paging, mut invalid) = Paging::look(&call, |text| text.parse().ok());
    let mut time = |name: &str| {
        let read = call.query(name)?.parse::<Time>();
        read.map_err(|error| invalid.add(name, error.to_string())).ok()
    };
    let (from, to) = (time("from"), time("to"));
    invalid.into_result().map_err(Problem::parameter)?;
    let text = |name: &str| call.query(name).map(str::to_owned);
    let filter = AuditFilter {
        actor: text("actor"),
        act: text("act"),
        subject: text("subject"),
        from,
        to,
        before: paging.cursor,
        limit: paging.wanted(),
    };
    let acts = app.client.audit(&filter).await?;
    ok(&paging.list(acts, |act| act.seq.to_string(), |act| ActView::from(&act))?)
}
