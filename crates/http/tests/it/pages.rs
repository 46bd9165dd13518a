//! The pages: what a browser is told about them, and that they need nothing from elsewhere.

use axum::http::Method;
use windlass_http::{Answered, Parts, Route, ServerError};

use crate::world::{Database, World, options};

const PAGES: [(&str, &str); 10] = [
    ("/", "text/html; charset=utf-8"),
    ("/docs", "text/html; charset=utf-8"),
    ("/assets/app.js", "text/javascript; charset=utf-8"),
    ("/assets/jobs.js", "text/javascript; charset=utf-8"),
    ("/assets/search.js", "text/javascript; charset=utf-8"),
    ("/assets/detail.js", "text/javascript; charset=utf-8"),
    ("/assets/docs.js", "text/javascript; charset=utf-8"),
    ("/assets/dom.js", "text/javascript; charset=utf-8"),
    ("/assets/app.css", "text/css; charset=utf-8"),
    ("/assets/icon.svg", "image/svg+xml"),
];

#[tokio::test]
async fn pages_are_sealed() {
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

/// A page the policy would break, or that would run what a job says, is found here and not by its reader.
#[tokio::test]
async fn pages_hold_no_inline_code_and_ask_nobody_else() {
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

/// Another part brings a route: served, documented, guarded and counted like our own.
#[tokio::test]
async fn a_part_brings_its_own_route() {
    let route = |path| {
        let handler =
            |call: windlass_http::Call| async move { windlass_http::ok(&call.path("name").to_owned()) };
        Route::new(Method::GET, path, "greet", "Says the name", handler)
            .path("name", "Whom to greet")
            .answers(200, "The name", Answered::Media("application/json"))
    };
    let parts = Parts { routes: vec![route("/v1/greet/{name}")], ..Parts::default() };
    let world = World::start(Database::Sqlite, options(), parts).await;
    assert_eq!(world.get("/v1/greet/%C3%A4").await.is(200), "ä");
    world.send("GET", "/v1/greet/x", &[("Host", "evil.example")], "").await.refuses(403, "host_not_allowed");
    assert_eq!(
        world.get("/openapi.json").await.is(200)["paths"]["/v1/greet/{name}"]["get"]["operationId"],
        "greet"
    );
    let twice = Parts { routes: vec![route("/v1/jobs")], ..Parts::default() };
    let server = windlass_http::Server::bind(options(), world.client.clone(), twice).await;
    assert!(matches!(server.err().unwrap(), ServerError::RouteTwice { .. }));
    world.end().await;
}
