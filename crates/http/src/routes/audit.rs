//! What operators did.

use std::sync::Arc;

use axum::http::Method;

use super::{Table, route};
use crate::app::App;
use crate::call::Call;
use crate::paging::{Paging, paged};
use crate::route::{Answer, Route, ok};
use crate::view::{ActView, ListView};

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "What operators changed about budgets, queues and kinds, newest first";
    let list = route(app, Method::GET, "/v1/audit", "list_audit", about, list);
    vec![paged(list, "Most acts on a page").json::<ListView<ActView>>(200, "A page of acts")]
}

async fn list(app: Arc<App>, call: Call) -> Answer {
    let paging = Paging::read(&call, |text| text.parse().ok())?;
    let acts = app.client.store().audit(paging.cursor, paging.wanted()).await?;
    ok(&paging.list(acts, |act| act.seq.to_string(), |act| ActView::from(&act)))
}
