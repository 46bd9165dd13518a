//! More connections than places: whoever keeps the server waiting gives way.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_http::Options;

use crate::world::{World, options};

const PLACES: usize = 8;
const SOON: Duration = Duration::from_secs(10);

async fn send(world: &World, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

fn post(path: &str, media: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\n{more}\r\n")
}

/// Half a head, half a body, half a bulk body, nothing at all: none of them shuts others out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_requests_shut_nobody_out() {
    let mut world = World::with(Options { connections: PLACES, ..options() }).await;
    world.add_entities_with(Options { connections: PLACES, ..options() }).await;
    let body = post("/v1/jobs", "application/json", "Content-Length: 100\r\n") + "{";
    let bulk = post("/v1/entities/document/bulk", "application/x-ndjson", "Content-Length: 100\r\n") + "{";
    let mut crowd = Vec::new();
    for half in ["GET /v1/jobs HTTP/1.1\r\nHo", &body, &bulk, ""] {
        for _ in 0..2 * PLACES {
            crowd.push(send(&world, half).await);
        }
        for path in ["/healthz", "/v1/jobs"] {
            let reply = tokio::time::timeout(SOON, world.get(path)).await.expect("others are shut out");
            assert_eq!(reply.status, 200, "{half:?}");
        }
        world.enqueue(json!({ "kind": "NOOP" })).await;
    }
    let mut rest = Vec::new();
    let first = tokio::time::timeout(SOON, crowd[0].read_to_end(&mut rest)).await;
    assert!(first.is_ok(), "the oldest is still connected");
    world.end().await;
}

/// Requests that have arrived are served to their end. Meanwhile there are places for health alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_answers_while_every_place_is_served() {
    let world = World::with(Options { connections: PLACES, ..options() }).await;
    let job = json!({ "kind": "NOOP" }).to_string();
    let more = format!("Prefer: wait=60\r\nContent-Length: {}\r\n", job.len());
    let mut waiting = Vec::new();
    for _ in 0..PLACES {
        waiting.push(send(&world, &(post("/v1/jobs", "application/json", &more) + &job)).await);
    }
    while world.count().await < PLACES as u64 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.get("/healthz").await.body, "ok\n");
    assert_eq!(world.get("/readyz").await.body, "ready\n");
    let refused = world.get("/v1/jobs").await;
    refused.refuses(503, "server_busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    for stream in &mut waiting {
        let mut none = [0; 1];
        let read = stream.try_read(&mut none);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "a served request was shed");
    }
    world.end().await;
}
