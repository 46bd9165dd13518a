//! Entities, types and search over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::World;

const LINES: (&str, &str) = ("Content-Type", "application/x-ndjson");
const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn ids(world: &World, question: Value) -> Vec<String> {
    let answer = world.post("/v1/search", question).await.is(200);
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

on_both! {
    async fn entities_are_written_found_changed_and_deleted(world: World) {
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

    async fn an_entity_shows_that_its_box_was_cancelled(world: World) {
        world.add_entities().await;
        let path = "/v1/entities/document/a";
        let job = world.with_body("PUT", path, json!({ "text": "x" })).await.is(202)["job_id"].as_str().unwrap().to_owned();
        world.with_body("POST", &format!("/v1/jobs/{job}/cancel"), json!({})).await.is(200);
        let shown = world.get(path).await.is(200);
        assert_eq!((&shown["status"], &shown["why"]), (&json!("failed"), &json!("its box was cancelled")));
        world.with_body("POST", &format!("/v1/jobs/{job}/retry"), json!({})).await.is(200);
        let shown = world.get(path).await.is(200);
        assert_eq!((&shown["status"], &shown["why"]), (&json!("pending"), &Value::Null));
        world.work().await;
        wait_until("the entity to be indexed", Duration::from_secs(30), || async {
            Seen::when(world.get(path).await.is(200)["status"].clone(), |status| *status == json!("indexed"))
        })
        .await;
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

    async fn types_are_created_at_run_time(world: World) {
        world.add_entities().await;
        for wrong in [json!(-1), json!(1e9), json!("2")] {
            let spec = json!({ "text": ["name", { "name": "about", "weight": wrong }] });
            let reply = world.with_body("PUT", "/v1/types/part", spec).await;
            reply.refuses(422, "invalid_input");
            reply.names(&[("text[1].weight", "must be")]);
        }
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

/// The facets of a search: field, then values and counts in the order of the response.
async fn counted(world: &World, question: Value) -> (Value, Value) {
    let answer = world.post("/v1/search", question).await.is(200);
    let pairs = |values: &Value| -> Vec<Value> {
        values.as_array().unwrap().iter().map(|one| json!([one["value"], one["count"]])).collect()
    };
    let facets = answer["facets"].as_object().unwrap();
    let facets = facets.iter().map(|(field, values)| json!([field, pairs(values)])).collect();
    (facets, answer["facets_more"].clone())
}

on_both! {
    async fn facets_count_everything_that_matches(world: World) {
        world.add_entities().await;
        world.with_body("PUT", "/v1/types/product", json!({ "text": ["text"] })).await.is(200);
        let mut lines = String::new();
        for n in 0..300 {
            let word = if n % 3 == 0 { "lamp" } else { "chair" };
            let entity = json!({
                "id": format!("d{n}"), "text": format!("a {word} for the desk"), "price": n % 2 * 10, "new": n % 5 == 0,
                "tags": [word, "wood", "wood"], "maker": { "town": format!("town {:03}", n % 150) },
            });
            lines.push_str(&format!("{entity}\n"));
        }
        for entity_type in ["document", "product"] {
            let path = format!("/v1/entities/{entity_type}/bulk?strategy=sync");
            assert_eq!(world.send("POST", &path, &[LINES], &lines).await.is(200)["accepted"], 300);
        }
        let lamps = |mode: &str| json!({ "type": "document", "query": "lamps", "mode": mode, "limit": 1, "facets": ["tags", "price", "new", "none"] });
        let expected = json!([
            ["tags", [["lamp", 100], ["wood", 100]]], ["price", [[0, 50], [10, 50]]], ["new", [[false, 80], [true, 20]]], ["none", []],
        ]);
        assert_eq!(counted(world, lamps("keyword")).await, (expected.clone(), json!([])));
        assert_eq!(counted(world, lamps("hybrid")).await.0, expected, "meaning adds hits, not counts");
        let all = counted(world, lamps("vector")).await.0;
        assert_eq!(all[0], json!(["tags", [["wood", 300], ["chair", 200], ["lamp", 100]]]), "no words: what the filter lets through");
        let dear = json!({ "type": "document", "query": "lamp", "filter": { "price": 10 }, "facets": ["price", "maker.town"] });
        let (facets, more) = counted(world, dear).await;
        assert_eq!((&facets[0], facets[1][1].as_array().unwrap().len(), more), (&json!(["price", [[10, 50]]]), 25, json!([])));
        let towns = json!({ "query": "desk", "types": ["document", "product", "document"], "facets": ["maker.town"] });
        let (facets, more) = counted(world, towns).await;
        let towns = facets[0][1].as_array().unwrap();
        assert_eq!((towns.len(), &towns[0], &towns[99]), (100, &json!(["town 000", 4]), &json!(["town 099", 4])), "both types, each once");
        assert_eq!(more, json!(["maker.town"]));
        // Changed and deleted entities are no longer counted.
        world.with_body("PATCH", "/v1/entities/document/d0", json!({ "tags": ["gone"], "new": null })).await.is(200);
        world.send("DELETE", "/v1/entities/document/d3", &[], "").await.is(200);
        let facets = counted(world, lamps("keyword")).await.0;
        assert_eq!(facets[0], json!(["tags", [["lamp", 98], ["wood", 98], ["gone", 1]]]));
        assert_eq!(facets[2], json!(["new", [[false, 79], [true, 19]]]));
        assert_eq!(counted(world, json!({ "query": "lamp" })).await, (json!([]), json!([])), "nothing was asked for");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_are_named_and_nothing_is_written() {
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
    for path in [
        "/v1/entities/document?limit=0",
        "/v1/entities/document?limit=1001",
        "/v1/entities/document/a/similar?limit=x",
    ] {
        let refused = world.get(path).await;
        refused.refuses(400, "invalid_parameter");
        refused.names(&[("limit", "must be 1 to 1000")]);
    }
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
        (json!({ "query": "x", "facets": "colour" }), "facets"),
        (json!({ "query": "x", "facets": [1] }), "facets"),
        (json!({ "query": "x", "facets": (0..11).map(|n| n.to_string()).collect::<Vec<_>>() }), "facets"),
        (json!({ "query": "x", "facets": ["a", ""] }), "facets[1]"),
        (json!({ "query": "x", "facets": ["a", "b", "a"] }), "facets[2]"),
    ] {
        let refused = world.post("/v1/search", question).await;
        refused.refuses(422, "invalid_input");
        assert!(refused.body.contains(&format!("\"field\":\"{field}\"")), "{}", refused.body);
    }
    assert_eq!(world.count().await, 0);
    world.get("/v1/entities/document/a").await.refuses(404, "not_found");
    world.end().await;
}
