//! Serves the table of routes.
//!
//! Owns what happens around every handler: the guard, reading the request, catching panics, response headers, and
//! counting responses per route.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request};
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use futures_util::FutureExt;
use windlass_core::input::shown;
use windlass_pack::{Answer, Bodies, Call, Principal, Problem, Route, Seat};

use crate::budget::Answers;
use crate::error::ServerError;
use crate::guard::{self, Guard};
use crate::interface::BeforeChanges;
use crate::options::Options;

/// The actor for a caller without a key.
const OPEN: &str = "http";

/// Responses per route and status class, for the metrics.
#[derive(Default)]
pub(crate) struct Counters {
    routes: std::sync::OnceLock<Vec<Counted>>,
}

pub(crate) struct Counted {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// 1xx to 5xx.
    classes: [AtomicU64; 5],
}

impl Counted {
    fn count(&self, status: StatusCode) {
        if let Some(class) = self.classes.get(usize::from(status.as_u16() / 100).wrapping_sub(1)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Classes that occurred at least once.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let counts = self.classes.iter().map(|count| count.load(Ordering::Relaxed));
        names.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }
}

impl Counters {
    pub(crate) fn routes(&self) -> &[Counted] {
        self.routes.get().map_or(&[], Vec::as_slice)
    }
}

pub(crate) fn build(
    routes: Vec<Route>,
    options: &Options,
    counters: &Arc<Counters>,
) -> Result<Router, ServerError> {
    let mut seen = HashSet::new();
    for route in &routes {
        if !seen.insert((route.method.clone(), route.path)) {
            return Err(ServerError::RouteTwice { method: route.method.to_string(), path: route.path });
        }
    }
    let counted = |route: &Route| Counted {
        method: route.method.clone(),
        path: route.path,
        classes: Default::default(),
    };
    let _ = counters.routes.set(routes.iter().map(counted).collect());
    let around = Arc::new(Around {
        guard: Guard::new(options),
        bodies: Bodies::new(options.body_timeout, options.body_bytes),
        answers: Answers::new(options.answer_bytes),
    });
    let mut router = Router::new();
    let served: Vec<(Method, &'static str)> = routes.iter().map(|r| (r.method.clone(), r.path)).collect();
    for (number, route) in routes.into_iter().enumerate() {
        let Ok(method) = MethodFilter::try_from(route.method.clone()) else { continue };
        let (path, route) = (route.path, Arc::new(route));
        let shadowed = shadows(&served, &route).map(|(path, name, value)| (path, Some((name, value))));
        for (path, filled) in std::iter::once((path, None)).chain(shadowed) {
            let (route, around, counters) = (route.clone(), around.clone(), counters.clone());
            let handler = move |request: Request| {
                let (route, around, counters) = (route.clone(), around.clone(), counters.clone());
                async move {
                    let response = serve(&route, filled, request, &around).await;
                    if let Some(counted) = counters.routes().get(number) {
                        counted.count(response.status());
                    }
                    response
                }
            };
            router = router.route(path, on(method, handler));
        }
    }
    let (no_route_around, no_method_around) = (around.clone(), around);
    let served = Arc::new(served);
    let router = router.fallback(move |request| async move { no_route(&no_route_around.guard, &request) });
    Ok(router.method_not_allowed_fallback(move |request| async move {
        no_method(&no_method_around.guard, &served, &request)
    }))
}

/// Answered even while everything else is refused.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

fn busy() -> Problem {
    let detail = "every connection is being served; try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "server_busy", "The server is busy", detail)
        .retry_after(Duration::from_secs(1))
}

/// Marks a connection as being served until it is dropped, also when the call is cancelled.
struct Served {
    seat: Arc<Seat>,
    stays: AtomicBool,
}

impl Served {
    fn new(seat: Arc<Seat>) -> Served {
        seat.is_served();
        Served { seat, stays: AtomicBool::new(false) }
    }

    /// A stream is served for as long as it lasts.
    fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.stays.load(Ordering::Relaxed) {
            self.seat.waits();
        }
    }
}

/// What all routes share.
struct Around {
    guard: Guard,
    bodies: Bodies,
    answers: Answers,
}

/// A path parameter and its value.
type Filled = Option<(&'static str, &'static str)>;

/// Paths with a fixed last segment where this route has a parameter, if they do not serve its method. For example, an
/// entity may be called `bulk`. Returned with the parameter and the segment.
fn shadows<'a>(
    served: &'a [(Method, &'static str)],
    route: &'a Route,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> + 'a {
    let split = |path: &'static str| path.rsplit_once('/').unwrap_or(("", path));
    let hole = |last: &'static str| last.strip_prefix('{').and_then(|last| last.strip_suffix('}'));
    let (before, last) = split(route.path);
    let mut paths: Vec<&'static str> = served.iter().map(|(_, path)| *path).collect();
    paths.dedup();
    hole(last).into_iter().flat_map(move |name| {
        let words: Vec<_> = paths
            .iter()
            .map(|path| (*path, split(path)))
            .filter(|(path, (prefix, word))| {
                *prefix == before
                    && hole(word).is_none()
                    && !served.iter().any(|(method, known)| known == path && *method == route.method)
            })
            .map(|(path, (_, word))| (path, name, word))
            .collect();
        words
    })
}

async fn serve(route: &Route, filled: Filled, request: Request<Body>, around: &Around) -> Response {
    let response = match answer(route, filled, request, around).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    let mut response = around.answers.admit(response, route.is_read()).await;
    guard::seal(&mut response);
    response
}

async fn answer(route: &Route, filled: Filled, request: Request<Body>, around: &Around) -> Answer {
    let principal = principal(&around.guard, &request)?;
    authorise(route, &principal)?;
    let seat = request.extensions().get::<Arc<Seat>>().cloned();
    if seat.as_ref().is_some_and(|seat| seat.only_health()) && !HEALTH.contains(&route.path) {
        return Err(busy());
    }
    if !route.is_read()
        && let Some(BeforeChanges(prepare)) = request.extensions().get::<BeforeChanges>().cloned()
    {
        prepare().await?;
    }
    let mut call = Call::read(route, request, principal, &around.bodies).await?;
    if let Some((name, value)) = filled {
        call.fill(name, value);
    }
    let wrong = call.wrong();
    // The request has arrived: its connection does not wait for the client until the response is ready.
    let served = seat.map(Served::new);
    let handled = AssertUnwindSafe((route.handler)(call)).catch_unwind().await;
    let handled = handled.unwrap_or_else(|_| Err(Problem::internal("a handler panicked", route.name)));
    if let (Some(served), Ok(response)) = (&served, &handled)
        && response.body().size_hint().exact().is_none()
    {
        served.stay();
    }
    match handled {
        handled if wrong.problems.is_empty() => handled,
        Err(problem) => Err(problem.beside(wrong)),
        Ok(_) => Err(Problem::parameter(wrong)),
    }
}

/// The caller. A local call carries its principal in an extension, which no client can set; all others pass the guard.
fn principal(guard: &Guard, request: &Request<Body>) -> Result<Principal, Problem> {
    if let Some(principal) = request.extensions().get::<Principal>() {
        return Ok(principal.clone());
    }
    guard.check(request.uri(), request.headers())?;
    guard::check_codings(request.headers())?;
    Ok(Principal::unrestricted(OPEN))
}

/// A route without a scope is refused.
fn authorise(route: &Route, principal: &Principal) -> Result<(), Problem> {
    match route.scope {
        Some(scope) if principal.may(scope) => Ok(()),
        Some(scope) => {
            let detail = format!("{} lacks the scope `{}`", shown(principal.actor().name()), scope.name());
            Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "This caller may not do that", detail))
        }
        None => Err(Problem::internal("a route names no scope", route.name)),
    }
}

fn no_route(guard: &Guard, request: &Request) -> Response {
    let path = shown(request.uri().path());
    refuse(guard, request, Problem::not_found(format!("nothing is served at {path}; /docs lists what is")))
}

fn no_method(guard: &Guard, served: &[(Method, &'static str)], request: &Request) -> Response {
    let detail = format!("{} is not served here; /docs lists what is", request.method());
    let title = "This method is not served here";
    let mut response = refuse(
        guard,
        request,
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", title, detail),
    );
    // Only what the document lists at this path, without methods of a sibling that a fixed segment shadows.
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let methods = served.iter().filter(|(_, known)| path == Some(known)).map(|(method, _)| method.as_str());
    let mut methods: Vec<&str> = methods.collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    if let Ok(allowed) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

fn refuse(guard: &Guard, request: &Request, problem: Problem) -> Response {
    let problem = principal(guard, request).err().unwrap_or(problem);
    let mut response = problem.into_response();
    guard::seal(&mut response);
    response
}
