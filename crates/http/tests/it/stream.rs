//! `GET /v1/stream`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use windlass_http::Options;

use crate::world::{World, options};

pub(crate) struct Listener(BufReader<TcpStream>);

impl Listener {
    pub(crate) async fn open(world: &World) -> Listener {
        Listener::from(world, "127.0.0.1").await
    }

    /// From a client with this address.
    async fn from(world: &World, address: &str) -> Listener {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(world.address).await.unwrap();
        stream.write_all(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        Listener(BufReader::new(stream))
    }

    async fn line(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = tokio::time::timeout(Duration::from_secs(10), self.0.read_line(&mut line)).await;
            assert!(read.expect("nothing came").unwrap() > 0, "the stream ended");
            if line.starts_with(start) {
                return line.trim().to_owned();
            }
        }
    }

    pub(crate) async fn stats(&mut self) -> Value {
        assert_eq!(self.line("event:").await, "event: stats");
        serde_json::from_str(self.line("data:").await.strip_prefix("data: ").unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_come_every_second_and_equal_the_tables() {
    let world = World::new().await;
    let mut listener = Listener::open(&world).await;
    assert_eq!(listener.line("content-type").await, "content-type: text/event-stream");
    assert_eq!(listener.stats().await["queues"][1]["depth"], 0);
    world.enqueue(json!({ "kind": "NOOP" })).await;
    let mut seen = listener.stats().await;
    if seen["queues"][1]["depth"] == 0 {
        seen = listener.stats().await;
    }
    assert_eq!(seen["queues"][1]["depth"], 1, "{seen}");
    // The sampler starts again for a new listener after all others left.
    drop(listener);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(Listener::open(&world).await.stats().await["queues"][1]["depth"], 1);
    world.end().await;
}

/// Streams that nobody reads: the next one of the same client always gets in, and other clients keep their places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_cannot_take_every_place() {
    let world = World::with(Options { listeners: 4, ..options() }).await;
    let mut other = Listener::from(&world, "127.0.0.2").await;
    other.stats().await;
    let mut unread = Vec::new();
    for _ in 0..12 {
        unread.push(Listener::open(&world).await);
    }
    Listener::open(&world).await.stats().await;
    other.stats().await;
    // The empty chunk that ends a response.
    unread.remove(0).line("0\r\n").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_listeners_is_limited() {
    let world = World::with(Options { listeners: 1, ..options() }).await;
    let mut first = Listener::from(&world, "127.0.0.2").await;
    first.stats().await;
    let refused = world.get("/v1/stream").await;
    refused.refuses(503, "too_many_listeners");
    assert!(refused.header("retry-after").is_some());
    drop(first);
    let begun = std::time::Instant::now();
    loop {
        let mut next = Listener::open(&world).await;
        if next.line("HTTP/1.1").await.contains("200") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the seat was not given back");
    }
    world.end().await;
}
