//! All routes over one client, without a socket: served by [`crate::Server`] or called in this process.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use tokio::sync::watch;
use tower_service::Service;
use windlass_engine::Client;
use windlass_pack::api::{Api, ApiAnswer, ApiError, ApiRequest};
use windlass_pack::{Assembly, Inventory, Principal, Problem, Route, route_name};

use crate::app::{App, Parts};
use crate::error::ServerError;
use crate::options::Options;
use crate::read_back::ReadBack;
use crate::router::{self, Counters};
use crate::stats::Stats;
use crate::{metrics, openapi, routes};

/// The owner of the engine's own names, in clash reports.
const OWNER: &str = "windlass";

#[derive(Clone)]
pub struct Interface {
    router: Router,
    stop: watch::Sender<bool>,
}

/// The names in use before any part registers one.
pub fn inventory() -> Inventory {
    let mut inventory = Inventory::of(OWNER);
    let mut own = routes::all(&None);
    openapi::add(&mut own);
    inventory.routes = own.iter().map(|route| route_name(route.method.as_str(), route.path)).collect();
    inventory.metrics = metrics::names();
    inventory
}

impl Interface {
    /// The engine's routes and those of the parts, which are moved out of the assembly.
    pub fn new(options: &Options, client: Client, assembly: &mut Assembly) -> Result<Interface, ServerError> {
        let (stop, stopped) = watch::channel(false);
        let counters = Arc::new(Counters::default());
        let parts = Parts {
            metrics: assembly.metrics(),
            checks: assembly.checks(),
            cleanup: assembly.cleanup(),
            pages: assembly.pages(),
        };
        let app = Arc::new(App {
            read_back: ReadBack::start(&client),
            stats: Arc::new(Stats::new(client.clone(), assembly.figures(), options.listeners)),
            counters: counters.clone(),
            options: options.clone(),
            parts,
            client,
            stop: stopped,
        });
        let mut all = table(&Some(app), assembly);
        openapi::add(&mut all);
        let router = router::build(all, options, &counters)?;
        Ok(Interface { router, stop })
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// Ends waiting calls and streams.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Calls the routes in this process as `principal`.
    pub fn api(&self, principal: Principal) -> LocalApi {
        LocalApi { router: self.router.clone(), principal, before_changes: None }
    }
}

/// All routes except that of the OpenAPI document, which lists the others.
pub(crate) fn table(app: &routes::Table, assembly: &mut Assembly) -> Vec<Route> {
    let mut all = routes::all(app);
    all.extend(assembly.assets().into_iter().map(routes::asset));
    all.extend(assembly.take_routes());
    all
}

/// Prepares the database for a change.
pub type Preparation = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Problem>> + Send + Sync>;

/// A request extension of local calls. It runs before a route that may change something, and never for a read.
#[derive(Clone)]
pub(crate) struct BeforeChanges(pub(crate) Preparation);

/// The routes, called in this process. No socket and no `Host` header: the caller is trusted.
pub struct LocalApi {
    router: Router,
    principal: Principal,
    before_changes: Option<BeforeChanges>,
}

impl LocalApi {
    /// `prepare` runs before each call of a route that needs more than read access.
    pub fn before_changes(mut self, prepare: Preparation) -> LocalApi {
        self.before_changes = Some(BeforeChanges(prepare));
        self
    }
}

#[async_trait]
impl Api for LocalApi {
    async fn send(&self, request: ApiRequest) -> Result<ApiAnswer, ApiError> {
        if let Some(check_path) = request.check_path() {
            return Err(check_path);
        }
        let broken = |why: String| ApiError::Unreachable { server: "this process".to_owned(), why };
        let mut built = Request::builder().method(request.method.clone()).uri(request.target());
        for (name, value) in &request.headers {
            built = built.header(*name, value);
        }
        let body = match request.body {
            Some((media, bytes)) => {
                built = built.header(CONTENT_TYPE, HeaderValue::from_static(media.name()));
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        let mut built = built.body(body).map_err(|error| broken(error.to_string()))?;
        built.extensions_mut().insert(self.principal.clone());
        if let Some(before) = &self.before_changes {
            built.extensions_mut().insert(before.clone());
        }
        let answer = self.router.clone().call(built).await.map_err(|never| match never {})?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| broken(error.to_string()))?;
        let body = body.to_bytes().to_vec();
        Ok(ApiAnswer { status, body })
    }
}
