//! Live values that override the configuration.

use std::sync::Arc;

use axum::http::Method;
use windlass_core::store::LiveOverride;
use windlass_pack::{Answer, Call, Route, Scope, ok, shape};

use super::{Table, route};
use crate::app::App;
use crate::view::ListView;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Live values that override the configuration";
    vec![
        route(app, Method::GET, "/v1/overrides", "list_overrides", about, list)
            .needs(Scope::Read)
            .json::<ListView<OverrideView>>(200, "The overrides; set a value to `configured` to remove one"),
    ]
}

shape! {
    /// A live value that overrides the configured one.
    pub struct OverrideView as "Override" {
        /// The configuration key, such as queues.LOW.concurrency.
        pub key: String,
        /// The value in force.
        pub live: String,
        pub configured: String,
    }
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    let view = |LiveOverride { key, live, configured }| OverrideView { key, live, configured };
    ok(&ListView::whole(app.client.live_overrides().await?.into_iter().map(view).collect()))
}
