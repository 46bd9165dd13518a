//! Errors that are the same for every route.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_core::KindSpec;
use windlass_http::Options;

use crate::client;
use crate::world::{World, options};

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let world = World::new().await;
    for path in
        ["/v1/nope", "/v1/jobs/", "/nope", "/v1", "/assets/../Cargo.toml", "/assets/x.js", "/v1/search"]
    {
        let problem = world.get(path).await.refuses(404, "not_found");
        assert!(problem["detail"].as_str().unwrap().contains("/docs"), "{problem}");
    }
    let reply = world.send("PUT", "/v1/jobs", &[], "").await;
    reply.refuses(405, "method_not_allowed");
    let allow = reply.header("allow").unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    for (path, expected) in [
        ("/v1/jobs/bulk", "POST"),
        ("/v1/jobs/count", "GET, HEAD"),
        ("/v1/budgets/ai/history", "GET, HEAD"),
        ("/v1/jobs/7", "GET, PATCH, DELETE, HEAD"),
    ] {
        let reply = world.send("OPTIONS", path, &[], "").await;
        reply.refuses(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some(expected), "{path}");
    }
    for empty in ["state=", "queue=", "state=pending,", "queue=,LOW", "tag="] {
        for path in ["/v1/jobs", "/v1/jobs/count", "/v1/dead-letters"] {
            world.get(&format!("{path}?{empty}")).await.refuses(400, "invalid_parameter");
        }
    }
    world.send("DELETE", "/metrics", &[], "").await.refuses(405, "method_not_allowed");
    world.end().await;
}

#[tokio::test]
async fn malformed_json_is_refused_with_its_position() {
    let world = World::new().await;
    for (body, place) in [
        ("{\"kind\": \"NOOP\",\n \"payload\": }", "line 2, column 13"),
        ("{\"kind\":", "line 1, column 8"),
        ("", "line 1, column 0"),
        ("[{\"kind\":\"NOOP\"},]", "line 1, column 18"),
        ("{\"kind\":\"NOOP\"} trailing", "line 1, column 17"),
    ] {
        let headers = [("Content-Type", "application/json"), ("Content-Length", &body.len().to_string())];
        let problem = world.send("POST", "/v1/jobs", &headers, body).await.refuses(400, "malformed_json");
        assert!(problem["detail"].as_str().unwrap().starts_with(place), "{body}: {problem}");
    }
    assert_eq!(world.count().await, 0);
    world.end().await;
}

/// Most clients send the whole request before they read the response.
#[tokio::test]
async fn a_body_that_is_far_too_large_is_read_to_its_end_and_refused() {
    let world = World::with(Options { body_limit: 1_000, ..options() }).await;
    let body = "x".repeat(8 << 20);
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let declared = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for request in [declared, chunked] {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.expect("the server hung up in the middle");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_body_must_be_json_and_within_the_size_limit() {
    let world = World::with(Options { body_limit: 1_000, ..options() }).await;
    let body = json!({ "kind": "NOOP" }).to_string();
    for content_type in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"] {
        let reply = world.send("POST", "/v1/jobs", &[("Content-Type", content_type)], &body).await;
        reply.refuses(415, "unsupported_media_type");
    }
    let large = json!({ "kind": "NOOP", "payload": "x".repeat(1_000) }).to_string();
    let problem = world.post("/v1/jobs", &large).await.refuses(413, "body_too_large");
    assert!(problem["detail"].as_str().unwrap().contains("1000 bytes"), "{problem}");
    // The same without a Content-Length.
    let chunked = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    let answer = client::raw(world.address, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    world.with_body("PATCH", "/v1/queues/HIGH", "x".repeat(70_000)).await.refuses(413, "body_too_large");
    assert_eq!(world.count().await, 0);
    world
        .send("POST", "/v1/jobs", &[("Content-Type", "Application/JSON; charset=utf-8")], &body)
        .await
        .is(201);
    world.end().await;
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let quick = Duration::from_millis(200);
    let world = World::with(Options { head_timeout: quick, body_timeout: quick, ..options() }).await;
    let body = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    for (text, expected) in [("GET /v1/jobs HTTP/1.1\r\nHo", ""), (body, "HTTP/1.1 408")] {
        let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "the connection stays open");
        assert!(
            String::from_utf8_lossy(&answer).starts_with(expected),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    world.end().await;
}

/// Thousands of kinds are not listed once per mistake.
#[tokio::test]
async fn a_message_names_only_some_of_many_kinds() {
    let world = World::new().await;
    let kinds: Vec<KindSpec> = (0..3_000).map(|n| KindSpec::new(&format!("KIND_{n:04}"), "LOW")).collect();
    world.client.store().sync_registry(&[], &kinds, None).await.unwrap();
    world.client.refresh().await.unwrap();
    let reply = world.post("/v1/jobs", json!(vec![json!({ "kind": "NONE" }); 1_000])).await;
    let problem = reply.refuses(422, "invalid_input");
    assert!(reply.body.len() < 50_000, "{} bytes", reply.body.len());
    let rule = problem["errors"][0]["rule"].as_str().unwrap();
    assert!(rule.contains("known kinds: BROKEN, FAIL") && rule.ends_with(" more"), "{rule}");
    let listed = world.get("/v1/jobs?kind=NONE").await;
    assert!(listed.refuses(400, "invalid_parameter")["detail"].as_str().unwrap().len() < 400);
    world.end().await;
}

#[tokio::test]
async fn a_store_error_shows_the_caller_only_an_id() {
    let world = World::new().await;
    world.client.store().close().await;
    for (method, path) in [("GET", "/v1/jobs"), ("GET", "/v1/queues"), ("POST", "/v1/jobs/1/cancel")] {
        let reply = world.send(method, path, &[], "").await;
        assert!(reply.status >= 500, "{}", reply.body);
        let text = reply.body.to_lowercase();
        assert!(!text.contains("sqlite") && !text.contains("closed") && !text.contains(".rs"), "{text}");
    }
    world.get("/healthz").await;
    world.get("/readyz").await.refuses(503, "not_ready");
    let metrics = world.get("/metrics").await;
    assert!(metrics.body.contains("windlass_store_up{application=\"windlass\"} 0"), "{}", metrics.body);
}
