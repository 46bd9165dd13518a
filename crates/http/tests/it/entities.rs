//! Entities, types and search over HTTP.

use serde_json::{Value, json};

use crate::on_both;
use crate::world::World;

const LINES: (&str, &str) = ("Content-Type", "application/x-ndjson");
const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn ids(world: &World, question: Value) -> Vec<String> {
    let answer = world.post("/v1/search", question).await.is(200);
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

on_both! {
    async fn written_found_changed_and_gone(world: World) {
        world.add_entities().await;
        world.work().await;
        let kettle = json!({ "title": "Copper kettle", "text": "Boils water on any stove", "price": 40 });
        let written = world.with_body("PUT", "/v1/entities/document/kettle", &kettle).await.is(202);
        assert_eq!((&written["entity_id"], &written["version"], &written["strategy"]), (&json!("kettle"), &json!(1), &json!("async")));
        assert!(written["job_id"].is_string());
        let headers = [JSON, ("Prefer", "wait=20")];
        let waited = world.send("PUT", "/v1/entities/document/pan", &headers, r#"{"text": "An iron pan"}"#).await.is(201);
        assert_eq!(waited["status"], "indexed");
        assert_eq!(ids(world, json!({ "type": "document", "query": "kettles", "mode": "keyword" })).await, ["kettle"]);
        let patched = world.with_body("PATCH", "/v1/entities/document/kettle?strategy=sync", json!({ "price": 30 })).await.is(200);
        assert_eq!((&patched["version"], &patched["status"]), (&json!(2), &json!("indexed")));
        let cheap = json!({ "query": "kettle", "filter": { "price": { "lt": 35 } } });
        let answer = world.post("/v1/search", cheap).await.is(200);
        assert_eq!((&answer["hits"][0]["fields"]["price"], &answer["hits"][0]["stale"]), (&json!(30), &json!(false)));
        let shown = world.get("/v1/entities/document/kettle").await;
        assert_eq!((shown.header("etag"), &shown.is(200)["status"]), (Some("\"2\""), &json!("indexed")));
        world.send("DELETE", "/v1/entities/document/kettle", &[("If-Match", "1")], "").await.refuses(412, "version_mismatch");
        world.send("DELETE", "/v1/entities/document/kettle", &[("If-Match", "\"2\"")], "").await.is(200);
        assert!(!ids(world, json!({ "query": "copper kettle" })).await.contains(&"kettle".to_owned()));
        world.get("/v1/entities/document/kettle").await.refuses(404, "not_found");
        let stats = world.get("/v1/stats").await.is(200);
        assert_eq!((&stats["pending_entities"], &stats["indexed_entities"]), (&json!(0), &json!(1)));
    }

    async fn bulk_counts_and_names_the_refused_lines(world: World) {
        world.add_entities().await;
        let lines = "{\"id\": \"a\", \"text\": \"red\"}\n\nnot json\n{\"id\": [], \"text\": \"x\"}\n{\"text\": \"made\"}\n";
        let answer = world.send("POST", "/v1/entities/document/bulk?strategy=batch", &[LINES], lines).await.is(200);
        assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(2), &json!(2)), "{answer}");
        assert_eq!((&answer["refusals"][0]["line"], &answer["refusals"][1]["errors"][0]["field"]), (&json!(3), &json!("id")));
        let page = world.get("/v1/entities/document?limit=1").await.is(200);
        assert_eq!(page["items"].as_array().unwrap().len(), 1);
        let next = page["next_cursor"].as_str().unwrap();
        let rest = world.get(&format!("/v1/entities/document?cursor={next}")).await.is(200);
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
        let history = world.get("/v1/entities/document/a/history").await.is(200);
        assert_eq!(history["items"][0]["kind"], "INDEX_BATCH");
    }

    async fn types_are_made_at_run_time(world: World) {
        world.add_entities().await;
        let spec = json!({ "text": ["name", { "name": "about", "weight": 2 }], "on_delete": "sync" });
        let made = world.with_body("PUT", "/v1/types/product", &spec).await.is(200);
        assert_eq!((&made["text"][1]["weight"], &made["resolved"]["delete"], &made["resolved"]["create"]), (&json!(2), &json!("sync"), &json!("async")));
        let any = "/v1/entities/product/caf%C3%A9%2F1";
        world.with_body("PUT", any, json!({ "name": "Blue lamp", "about": "for the desk" })).await.is(202);
        assert_eq!(world.get(any).await.is(200)["id"], "café/1");
        assert_eq!(ids(world, json!({ "types": ["product", "document"], "query": "lamps" })).await, ["café/1"]);
        world.with_body("PUT", "/v1/types/product", json!({ "text": ["name"] })).await.refuses(409, "text_fields_in_use");
        let names: Vec<String> = world.get("/v1/types").await.is(200)["items"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["document", "product"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_named_and_nothing_is_written() {
    let mut world = World::new().await;
    world.add_entities().await;
    world.with_body("PUT", "/v1/entities/thing/a", json!({})).await.refuses(404, "unknown_type");
    world.with_body("PUT", "/v1/entities/document/a", "[1]").await.names(&[("body", "an object")]);
    world.with_body("POST", "/v1/entities/document", json!({ "id": "mine" })).await.names(&[("id", "PUT")]);
    let wrong = "/v1/entities/document/a?strategy=soon&priority=x&delay=-1s";
    let refused = world.with_body("PUT", wrong, json!({})).await;
    refused.refuses(400, "invalid_parameter");
    assert_eq!(refused.json()["errors"].as_array().unwrap().len(), 3);
    world
        .with_body("PUT", "/v1/entities/document/a?priority=11", json!({}))
        .await
        .names(&[("priority", "0 (most urgent)")]);
    let long = "x".repeat(600);
    world
        .with_body("PUT", &format!("/v1/entities/document/{long}"), json!({}))
        .await
        .names(&[("id", "512 bytes")]);
    world
        .send("POST", "/v1/entities/document/bulk", &[JSON], "{}")
        .await
        .refuses(415, "unsupported_media_type");
    world
        .with_body("PUT", "/v1/types/Big", json!({ "text": 3, "strategy": "auto", "colour": 1 }))
        .await
        .refuses(422, "invalid_input");
    let big = json!({ "text": "x".repeat(1 << 20) });
    world.with_body("PUT", "/v1/entities/document/a", &big).await.names(&[("fields", "1 MiB")]);
    for (question, field) in [
        (json!({}), "query"),
        (json!({ "query": "x", "limit": 0 }), "limit"),
        (json!({ "query": "x", "offset": 10_001 }), "offset"),
        (json!({ "query": "x", "mode": "fast" }), "mode"),
        (json!({ "query": "x", "filter": { "a": { "near": 1 } } }), "filter.a.near"),
        (json!({ "vector": [1, 2] }), "vector"),
        (json!({ "query": "x", "fuzzy": true }), "fuzzy"),
    ] {
        let refused = world.post("/v1/search", question).await;
        refused.refuses(422, "invalid_input");
        assert!(refused.body.contains(&format!("\"field\":\"{field}\"")), "{}", refused.body);
    }
    assert_eq!(world.count().await, 0);
    world.get("/v1/entities/document/a").await.refuses(404, "not_found");
    world.end().await;
}
