//! Bodies are bounded: lines are written as they arrive, and whole bodies share a budget.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_http::Options;
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::{World, options};

const SOON: Duration = Duration::from_secs(20);

/// A request whose body comes in chunks, as long as the test likes.
async fn begin(world: &World, method_and_path: &str, media: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "{method_and_path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {media}\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn part(stream: &mut TcpStream, text: &str) {
    let part = format!("{:x}\r\n{text}\r\n", text.len());
    stream.write_all(part.as_bytes()).await.unwrap();
}

async fn end(mut stream: TcpStream) -> String {
    let _ = stream.write_all(b"0\r\n\r\n").await;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

on_both! {
    async fn lines_are_written_before_the_last_one_arrives(world: World) {
        world.add_entities().await;
        let mut stream = begin(world, "POST /v1/entities/document/bulk", "application/x-ndjson").await;
        let text = "tea ".repeat(100_000);
        for n in 0..4 {
            part(&mut stream, &format!("{{\"id\":\"{n}\",\"te")).await;
            part(&mut stream, &format!("xt\":\"{text}\"}}\r\n\n")).await;
        }
        wait_until("the first lines to be saved", SOON, || async {
            Seen::when(world.get("/v1/entities/document/0").await.status, |status| *status == 200)
        })
        .await;
        let long = format!("{{\"id\":\"long\",\"text\":\"{}\"}}\n", "x".repeat(3 << 20));
        part(&mut stream, &long).await;
        part(&mut stream, "{\"id\":\"last\",\"text\":\"no line end\"}").await;
        let answer = end(stream).await;
        assert!(answer.contains("\"accepted\":5,\"refused\":1") && answer.contains("\"line\":9"), "{answer}");
        world.get("/v1/entities/document/last").await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_ends_early_says_what_was_saved() {
    let mut world = World::new().await;
    world.add_entities().await;
    let mut stream = begin(&world, "POST /v1/entities/document/bulk", "application/x-ndjson").await;
    let text = "tea ".repeat(200_000);
    for n in 0..3 {
        part(&mut stream, &format!("{{\"id\":\"{n}\",\"text\":\"{text}\"}}\n")).await;
    }
    wait_until("the first lines to be saved", SOON, || async {
        Seen::when(world.get("/v1/entities/document/0").await.status, |status| *status == 200)
    })
    .await;
    stream.write_all(b"not a chunk\r\n").await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.contains("2 lines were saved before that"), "{answer}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_bodies_share_a_budget() {
    let world = World::with(Options { body_bytes: 1 << 20, ..options() }).await;
    let mut first = begin(&world, "POST /v1/jobs", "application/json").await;
    part(&mut first, &format!("{{\"kind\":\"NOOP\",\"payload\":\"{}", "x".repeat(900_000))).await;
    let large = json!({ "kind": "NOOP", "payload": "x".repeat(600_000) });
    let refused = wait_until("the budget to be taken", SOON, || async {
        let reply = world.post("/v1/jobs", &large).await;
        if reply.status == 503 { Seen::Yes(reply) } else { Seen::NotYet(format!("{}", reply.status)) }
    })
    .await;
    refused.refuses(503, "bodies_full");
    assert_eq!(refused.header("retry-after"), Some("1"));
    world.enqueue(json!({ "kind": "NOOP" })).await;
    part(&mut first, "\"}").await;
    assert!(end(first).await.starts_with("HTTP/1.1 201"));
    world.post("/v1/jobs", &large).await.is(201);
    world.end().await;
}
