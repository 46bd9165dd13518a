//! `Idempotency-Key` on entity writes: one write, and the same response again.

use serde_json::{Value, json};

use crate::client::Reply;
use crate::on_both;
use crate::world::World;

async fn send(world: &World, method: &str, path: &str, key: &str, body: &str) -> Reply {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    world.send(method, path, &headers, body).await
}

/// Sends a request twice; both responses must be identical.
async fn twice(world: &World, method: &str, path: &str, key: &str, body: &str, status: u16) -> Value {
    let first = send(world, method, path, key, body).await;
    let again = send(world, method, path, key, body).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body), "{method} {path}");
    for header in ["content-type", "etag", "location"] {
        assert_eq!(again.header(header), first.header(header), "{method} {path}");
    }
    first.is(status)
}

async fn entities(world: &World) -> Vec<Value> {
    let page = world.get("/v1/entities/document?limit=1000").await.is(200);
    page["items"].as_array().unwrap().clone()
}

const ONE: &str = "/v1/entities/document/a";

on_both! {
    async fn every_repeated_write_gets_the_same_response(world: World) {
        world.add_entities().await;
        let made = twice(world, "POST", "/v1/entities/document", "post", r#"{"text":"made"}"#, 202).await;
        assert_eq!(entities(world).await.len(), 1, "one entity, of one id");
        assert_eq!(entities(world).await[0]["id"], made["entity_id"]);
        twice(world, "PUT", ONE, "put", r#"{"text":"one"}"#, 202).await;
        let synced = twice(world, "PUT", &format!("{ONE}?strategy=sync"), "sync", r#"{"text":"two"}"#, 200).await;
        assert_eq!((&synced["version"], &synced["status"]), (&json!(2), &json!("indexed")));
        let patched = twice(world, "PATCH", ONE, "patch", r#"{"price":1}"#, 200).await;
        assert_eq!(patched["version"], 3);
        let gone = twice(world, "DELETE", ONE, "delete", "", 200).await;
        assert_eq!((&gone["version"], &gone["status"]), (&json!(4), &json!("deleted")));
        // Much later, the entity has changed but the response has not.
        world.with_body("PUT", ONE, json!({ "text": "again" })).await.is(202);
        let again = send(world, "PATCH", ONE, "patch", r#"{"price":1}"#).await.is(200);
        assert_eq!(again, patched);
        assert_eq!(world.get(ONE).await.is(200)["version"], 5);
    }

    async fn another_request_with_the_key_is_refused(world: World) {
        world.add_entities().await;
        send(world, "PUT", ONE, "k", r#"{"text":"x"}"#).await.is(202);
        for (method, path, body) in [
            ("PUT", ONE, r#"{"text":"y"}"#),
            ("PATCH", ONE, r#"{"text":"x"}"#),
            ("DELETE", ONE, ""),
            ("PUT", "/v1/entities/document/b", r#"{"text":"x"}"#),
            ("POST", "/v1/entities/document", r#"{"text":"x"}"#),
            ("PUT", "/v1/entities/document/a?strategy=sync", r#"{"text":"x"}"#),
            ("POST", "/v1/jobs", r#"{"kind":"NOOP"}"#),
        ] {
            send(world, method, path, "k", body).await.refuses(422, "idempotency_mismatch");
        }
        assert_eq!(world.get(ONE).await.is(200)["version"], 1);
        assert_eq!((entities(world).await.len(), world.count().await), (1, 1));
        // A refused request does not use up its key.
        send(world, "PATCH", "/v1/entities/document/c", "free", r#"{"text":"x"}"#).await.refuses(404, "not_found");
        send(world, "PUT", "/v1/entities/document/c", "free", r#"{"text":"x"}"#).await.is(202);
    }

    async fn many_at_once_are_one_write(world: World) {
        world.add_entities().await;
        let one = || send(world, "POST", "/v1/entities/document", "k", r#"{"text":"made once"}"#);
        let replies = futures_util::future::join_all((0..16).map(|_| one())).await;
        let first = replies[0].is(202);
        assert!(replies.iter().all(|reply| reply.is(202) == first));
        assert_eq!((entities(world).await.len(), world.count().await), (1, 1));
    }

    async fn the_response_after_waiting_is_the_one_stored(world: World) {
        world.add_entities().await;
        world.work().await;
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k"), ("Prefer", "wait=20")];
        let first = world.send("POST", "/v1/entities/document", &headers, r#"{"text":"x"}"#).await.is(201);
        assert_eq!(first["status"], "indexed");
        let path = format!("/v1/entities/document/{}", first["entity_id"].as_str().unwrap());
        world.send("DELETE", &path, &[], "").await.is(200);
        assert_eq!(world.send("POST", "/v1/entities/document", &headers, r#"{"text":"x"}"#).await.is(201), first);
        let plain = send(world, "POST", "/v1/entities/document", "k", r#"{"text":"x"}"#).await.is(201);
        assert_eq!(plain, first);
        assert!(entities(world).await.is_empty());
    }
}

#[tokio::test]
async fn a_key_is_limited_in_length_and_belongs_to_one_entity() {
    let mut world = World::new().await;
    world.add_entities().await;
    let long = "k".repeat(257);
    let refused = send(&world, "PUT", ONE, &long, r#"{"text":"x"}"#).await;
    refused.refuses(400, "invalid_parameter");
    refused.names(&[("Idempotency-Key", "1–256 bytes")]);
    let headers = [("Content-Type", "application/x-ndjson"), ("Idempotency-Key", "k")];
    let bulk = world.send("POST", "/v1/entities/document/bulk", &headers, "{\"id\":\"a\"}\n").await;
    bulk.refuses(400, "invalid_parameter");
    bulk.names(&[("Idempotency-Key", "a single entity")]);
    assert!(entities(&world).await.is_empty());
    world.end().await;
}
