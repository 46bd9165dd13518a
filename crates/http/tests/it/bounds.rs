//! Responses are bounded: pages in bytes, and unread responses of all connections together.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use windlass_http::Options;
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::{World, options};

const SOON: Duration = Duration::from_secs(20);
/// The rows of a page, its brackets and its cursor.
const LARGEST_PAGE: usize = (4 << 20) + 1024;

async fn enqueue(world: &World, count: usize, bytes: usize) {
    let job = json!({ "kind": "NOOP", "payload": { "text": "ü".repeat(bytes / 2) } });
    world.post("/v1/jobs", json!(vec![job; count])).await.is(201);
}

/// The ids of all pages.
async fn pages(world: &World, path: &str) -> (Vec<Value>, usize) {
    let (mut items, mut count, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let reply = world.get(&format!("{path}?limit=1000{cursor}")).await;
        assert!(reply.body.len() <= LARGEST_PAGE, "{} bytes", reply.body.len());
        let page = reply.is(200);
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        count += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, count),
        }
    }
}

on_both! {
    async fn a_list_shows_excerpts_and_one_job_is_shown_whole(world: World) {
        for _ in 0..2 {
            enqueue(world, 14, 1_000_000).await;
        }
        let reply = world.get("/v1/jobs?limit=100").await;
        assert!(reply.body.len() < 200_000, "{} bytes", reply.body.len());
        let item = reply.is(200)["items"][0].clone();
        assert_eq!((&item["payload_truncated"], &item["payload_bytes"]), (&json!(true), &json!(1_000_011)));
        let shown = item["payload"].as_str().unwrap();
        assert!(shown.starts_with("{\"text\":\"üü") && shown.len() <= 4_096, "{shown}");
        assert!(shown.ends_with('ü'), "a character is never cut in two");
        let whole = world.get(&format!("/v1/jobs/{}", item["id"].as_str().unwrap())).await.is(200);
        assert_eq!(whole["payload"]["text"].as_str().unwrap().len(), 1_000_000);
        assert_eq!(whole["payload_truncated"], json!(false));
    }

    async fn a_page_of_many_bytes_ends_early_with_a_cursor(world: World) {
        enqueue(world, 1_900, 8_000).await;
        let (items, count) = pages(world, "/v1/jobs").await;
        let ids: std::collections::BTreeSet<&str> = items.iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!((items.len(), ids.len()), (1_900, 1_900), "each job is shown once");
        assert!(count > 2, "{count} pages");
    }

    async fn a_page_of_large_entities_ends_early(world: World) {
        world.add_entities().await;
        let text = "tea ".repeat(225_000);
        for n in 0..12 {
            let path = format!("/v1/entities/document/{n:02}");
            world.with_body("PUT", &path, json!({ "text": text })).await.is(202);
        }
        let (items, count) = pages(world, "/v1/entities/document").await;
        assert_eq!((items.len(), count), (12, 3));
        let found = world.post("/v1/search", json!({ "query": "tea", "mode": "keyword", "limit": 100 })).await.is(200);
        assert_eq!((found["hits"].as_array().unwrap().len(), &found["total"]), (4, &json!(12)));
        let rest = json!({ "query": "tea", "mode": "keyword", "limit": 100, "offset": 10 });
        assert_eq!(world.post("/v1/search", rest).await.is(200)["hits"].as_array().unwrap().len(), 2);
    }
}

/// A client that never reads its large response.
async fn unread(world: &World, id: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(world.address).await.unwrap();
    let request = format!("GET /v1/jobs/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_share_a_budget() {
    let world = World::with(Options { answer_bytes: 3 << 20, ..options() }).await;
    let big = json!({ "kind": "NOOP", "payload": { "text": "x".repeat(1_040_000) } });
    let id = world.enqueue(big).await;
    let path = format!("/v1/jobs/{id}");
    let mut idle = Vec::new();
    // Three responses that wait take the whole budget; the kernel holds only a part of each.
    let refused = loop {
        idle.push(unread(&world, &id).await);
        let reply = world.get(&path).await;
        if reply.status != 200 {
            break reply;
        }
        assert!(idle.len() < 100, "unread responses have no bound");
    };
    refused.refuses(503, "answers_full");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(world.get("/healthz").await.body, "ok\n");
    world.enqueue(json!({ "kind": "NOOP" })).await;
    drop(idle);
    wait_until("the budget to be free again", SOON, || async {
        Seen::when(world.get(&path).await.status, |status| *status == 200)
    })
    .await;
    world.end().await;
}
