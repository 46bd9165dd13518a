//! Health, and shutdown.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::World;

#[tokio::test]
async fn alive_and_ready() {
    let world = World::new().await;
    assert_eq!(world.get("/healthz").await.body, "ok\n");
    assert_eq!(world.get("/readyz").await.body, "ready\n");
    world.end().await;
}

/// A request in progress is answered, idle connections and streams are closed, new ones are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_open_requests_end() {
    let mut world = World::new().await;
    let connect = || tokio::net::TcpStream::connect(world.address);
    let mut idle = connect().await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut buffer = [0; 1024];
    assert!(idle.read(&mut buffer).await.unwrap() > 0);
    let mut stream = connect().await.unwrap();
    stream.write_all(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    // No worker is running, so this waits until the server stops.
    let mut waiting = connect().await.unwrap();
    let body = json!({ "kind": "NOOP" }).to_string();
    let head =
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPrefer: wait=60\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    waiting.write_all(request.as_bytes()).await.unwrap();
    while world.count().await == 0 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    let server = world.ask_to_stop();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    server.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(tokio::net::TcpStream::connect(world.address).await.is_err());
    world.end().await;
}
