//! Who and what there is: the kinds of job and the workers alive now.

use std::sync::Arc;

use axum::http::Method;

use super::route;
use crate::app::App;
use crate::call::Call;
use crate::route::{Answer, Route, ok};
use crate::view::{KindView, ListView, WorkerView};

pub(super) fn routes(app: &Arc<App>) -> Vec<Route> {
    vec![
        route(app, Method::GET, "/v1/kinds", "list_kinds", "The kinds of job this database knows", kinds)
            .json::<ListView<KindView>>(200, "The kinds, by name"),
        route(app, Method::GET, "/v1/workers", "list_workers", "The worker processes alive now", workers)
            .json::<ListView<WorkerView>>(200, "The workers"),
    ]
}

async fn kinds(app: Arc<App>, _: Call) -> Answer {
    let kinds = app.client.store().kinds().await?;
    let mut views: Vec<KindView> = kinds.into_iter().map(|(_, _, kind)| KindView::from(kind)).collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    ok(&ListView::whole(views))
}

async fn workers(app: Arc<App>, _: Call) -> Answer {
    let workers = app.client.store().workers().await?;
    let catalog = app.client.catalog();
    ok(&ListView::whole(workers.iter().map(|worker| WorkerView::new(worker, &catalog)).collect()))
}
