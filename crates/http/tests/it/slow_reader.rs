//! Clients that do not read their response.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};
use windlass_http::Options;

use crate::stream::Listener;
use crate::world::{World, options};

/// More than fits into the socket buffers.
const ANSWERS: usize = 16;

async fn ask_for_much(world: &World, id: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(world.address).await.unwrap();
    let request = format!("GET /v1/jobs/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.repeat(ANSWERS).as_bytes()).await.unwrap();
    stream
}

/// The client is disconnected without having read anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_is_disconnected() {
    let quick = Duration::from_millis(200);
    let world = World::with(Options { write_timeout: quick, ..options() }).await;
    let big = json!({ "kind": "NOOP", "payload": { "text": "x".repeat(1_000_000) } });
    let id = world.enqueue(big).await;
    let mut stream = ask_for_much(&world, &id).await;
    let cut = tokio::time::timeout(Duration::from_secs(20), stream.ready(Interest::ERROR)).await;
    assert!(cut.expect("the client is not disconnected").unwrap().is_error());
    let mut answer = Vec::new();
    assert_eq!(stream.read_to_end(&mut answer).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(answer.len() < ANSWERS * 1_000_000, "{} bytes", answer.len());
    world.end().await;
}

/// Statistics come once a second; in between, no bytes are waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_stream_is_not_disconnected() {
    let world = World::with(Options { write_timeout: Duration::from_millis(50), ..options() }).await;
    let mut listener = Listener::open(&world).await;
    for _ in 0..3 {
        listener.stats().await;
    }
    world.end().await;
}
