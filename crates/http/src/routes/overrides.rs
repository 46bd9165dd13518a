//! What operators set live instead of the configuration.

use std::sync::Arc;

use axum::http::Method;
use windlass_core::store::LiveOverride;
use windlass_pack::{Answer, Call, Route, Scope, ok, shape};

use super::{Table, route};
use crate::app::App;
use crate::view::ListView;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Values that an operator set live, where the configuration says something else";
    vec![
        route(app, Method::GET, "/v1/overrides", "list_overrides", about, list)
            .needs(Scope::Read)
            .json::<ListView<OverrideView>>(200, "The values; `configured` in their place takes each back"),
    ]
}

shape! {
    /// A value that holds instead of the configuration's.
    pub struct OverrideView as "Override" {
        /// As the configuration calls it, such as queues.LOW.concurrency.
        pub key: String,
        /// What holds now.
        pub live: String,
        pub configured: String,
    }
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    let view = |LiveOverride { key, live, configured }| OverrideView { key, live, configured };
    ok(&ListView::whole(app.client.live_overrides().await?.into_iter().map(view).collect()))
}
