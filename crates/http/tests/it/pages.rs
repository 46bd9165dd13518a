//! The pages: security headers, and no dependency on other servers.

use std::sync::Arc;

use windlass_pack::settings::Settings;
use windlass_pack::{Answered, Assembly, Call, Pack, Registry, Route, Scope, ok};

use crate::world::{Database, World, options};

const PAGES: [(&str, &str); 10] = [
    ("/", "text/html; charset=utf-8"),
    ("/docs", "text/html; charset=utf-8"),
    ("/assets/app.js", "text/javascript; charset=utf-8"),
    ("/assets/jobs.js", "text/javascript; charset=utf-8"),
    ("/assets/pages.js", "text/javascript; charset=utf-8"),
    ("/assets/detail.js", "text/javascript; charset=utf-8"),
    ("/assets/docs.js", "text/javascript; charset=utf-8"),
    ("/assets/dom.js", "text/javascript; charset=utf-8"),
    ("/assets/app.css", "text/css; charset=utf-8"),
    ("/assets/icon.svg", "image/svg+xml"),
];

#[tokio::test]
async fn pages_have_security_headers() {
    let world = World::new().await;
    for (path, content_type) in PAGES {
        let reply = world.get(path).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some(content_type)), "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    assert_eq!(world.get("/v1/jobs").await.header("x-content-type-options"), Some("nosniff"));
    world.end().await;
}

/// Catches pages that the policy would break or that would execute content of a job.
#[tokio::test]
async fn pages_have_no_inline_code_and_call_no_other_server() {
    let world = World::new().await;
    for (path, _) in PAGES {
        let body = world.get(path).await.body.replace("http://www.w3.org/2000/svg", "");
        for banned in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http://",
            "https://",
            "//cdn",
            " style=",
            " onclick=",
            "<style",
        ] {
            assert!(!body.contains(banned), "{path} holds {banned}");
        }
        for script in body.split("<script").skip(1) {
            assert!(script.starts_with(" src=\"/assets/"), "{path}: an inline script");
        }
    }
    world.end().await;
}

/// A part with a route that returns a name.
struct Greet {
    path: &'static str,
    scope: Option<Scope>,
}

impl Pack for Greet {
    fn name(&self) -> &'static str {
        "greet"
    }

    fn register(&self, registry: &mut Registry) {
        let handler = |call: Call| async move { ok(&call.path("name").to_owned()) };
        let route = Route::get(self.path, "greet", "Says the name", handler)
            .path("name", "Whom to greet")
            .answers(200, "The name", Answered::Media("application/json"));
        registry.route(match self.scope {
            Some(scope) => route.needs(scope),
            None => route,
        });
    }
}

/// A part's route is served, documented, guarded and counted like the engine's own.
#[tokio::test]
async fn a_part_can_add_a_route() {
    let greet = Arc::new(Greet { path: "/v1/greet/{name}", scope: Some(Scope::Read) });
    let world = World::start(Database::Sqlite, options(), vec![greet]).await;
    assert_eq!(world.get("/v1/greet/%C3%A4").await.is(200), "ä");
    world.send("GET", "/v1/greet/x", &[("Host", "evil.example")], "").await.refuses(403, "host_not_allowed");
    assert_eq!(
        world.get("/openapi.json").await.is(200)["paths"]["/v1/greet/{name}"]["get"]["operationId"],
        "greet"
    );
    world.end().await;
}

/// All clashes and routes without a scope are reported together, before anything is opened.
#[test]
fn clashing_routes_and_routes_without_a_scope_are_refused_at_start() {
    let packs: Vec<Arc<dyn Pack>> = vec![
        Arc::new(Greet { path: "/v1/jobs/{name}", scope: None }),
        Arc::new(Greet { path: "/v1/jobs/{other}", scope: Some(Scope::Read) }),
    ];
    let refused = Assembly::new(&packs, Settings::default(), vec![windlass_http::inventory()]);
    let problems = refused.err().unwrap().problems;
    let reported: Vec<String> = problems.iter().map(|one| format!("{}: {}", one.field, one.rule)).collect();
    assert_eq!(
        reported,
        [
            "route `GET /v1/jobs/{name}`: greet does not say which scope it needs (Route::needs)",
            "pack `greet`: is added twice",
            "route `GET /v1/jobs/{}`: windlass and greet both register it",
            "route `GET /v1/jobs/{}`: greet registers it twice",
        ]
    );
}
