//! Queues, kinds, workers, stats.

use serde_json::{Value, json};

use crate::on_both;
use crate::world::World;

on_both! {
    async fn queues_show_what_the_tables_hold(world: World) {
        for _ in 0..3 {
            world.enqueue(json!({ "kind": "NOOP" })).await;
        }
        world.enqueue(json!({ "kind": "NOOP", "delay": "1h" })).await;
        for path in ["/v1/queues", "/v1/stats"] {
            let answer = world.get(path).await.is(200);
            let queues = answer["items"].as_array().or(answer["queues"].as_array()).unwrap();
            let names: Vec<&str> = queues.iter().map(|queue| queue["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["HIGH", "DEFAULT", "SCREENSHOT", "LOW", "BULK"]);
            let queue = &queues[1];
            assert_eq!(
                (&queue["depth"], &queue["scheduled"], &queue["running"], &queue["paused"], &queue["sla_seconds"]),
                (&json!(3), &json!(1), &json!(0), &json!(false), &json!(300.0)),
            );
            assert_eq!((&queue["depth_is_capped"], &queue["desired_workers"]), (&json!(false), &json!(1)));
            assert!(queue["oldest_age_seconds"].as_f64().unwrap() >= 0.0);
            assert_eq!(queues[4]["sla_seconds"], Value::Null);
        }
        let stats = world.get("/v1/stats").await.is(200);
        assert_eq!((&stats["workers"], &stats["pending_entities"]), (&json!(0), &Value::Null));
    }

    async fn a_queue_is_paused_and_resized(world: World) {
        let queue = world.with_body("PATCH", "/v1/queues/default", json!({ "paused": true, "concurrency": 3 })).await.is(200);
        assert_eq!((&queue["name"], &queue["paused"], &queue["concurrency"]), (&json!("DEFAULT"), &json!(true), &json!(3)));
        let queue = world.with_body("PATCH", "/v1/queues/DEFAULT", json!({ "paused": false })).await.is(200);
        assert_eq!((&queue["paused"], &queue["concurrency"]), (&json!(false), &json!(3)));
        let queue = world.with_body("PATCH", "/v1/queues/default", json!({ "global_concurrency": 4 })).await.is(200);
        assert_eq!((&queue["global_concurrency"], &queue["concurrency"]), (&json!(4), &json!(3)));
        let queue = world.with_body("PATCH", "/v1/queues/default", json!({ "global_concurrency": null })).await.is(200);
        assert_eq!(queue["global_concurrency"], Value::Null);
        for (value, shown) in [(json!("PT90S"), json!(90.0)), (json!("none"), Value::Null), (Value::Null, json!(600.0))] {
            let queue = world.with_body("PATCH", "/v1/queues/default", json!({ "boost_after": value })).await.is(200);
            assert_eq!((&queue["boost_after_seconds"], &queue["concurrency"]), (&shown, &json!(3)));
        }
    }

    async fn bounds_are_enforced_removed_and_reset_to_the_configuration(world: World) {
        let change = async |body: Value| world.with_body("PATCH", "/v1/queues/default", body).await;
        let before = change(json!({ "paused": false })).await.is(200);
        change(json!({ "concurrency_min": 1, "concurrency_max": 20 })).await.is(200);
        let reply = change(json!({ "concurrency": 25 })).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[("concurrency", "25 is outside the queue's bounds 1 to 20")]);
        let free = change(json!({ "concurrency": 25, "concurrency_max": null, "depth_cap": 4 })).await.is(200);
        assert_eq!(
            (&free["concurrency"], &free["concurrency_min"], &free["concurrency_max"], &free["depth_cap"]),
            (&json!(25), &Value::Null, &Value::Null, &json!(4))
        );
        let names = ["concurrency", "concurrency_min", "concurrency_max", "depth_cap", "global_concurrency", "boost_after"];
        let all: serde_json::Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), json!("configured"))).collect();
        assert_eq!(change(Value::Object(all)).await.is(200), before);
        let kind = async |rate: &str| world.with_body("PUT", "/v1/kinds/NOOP", json!({ "rate": rate })).await.is(200)["rate"].clone();
        let configured = world.get("/v1/kinds").await.is(200)["items"][2]["rate"].clone();
        assert_eq!(kind("5/s").await, json!("5/s"));
        assert_eq!(kind("configured").await, configured);
    }

    async fn kinds_and_workers_are_listed(world: World) {
        assert_eq!(world.get("/v1/workers").await.is(200), json!({ "items": [], "next_cursor": null }));
        world.work().await;
        let workers = world.get("/v1/workers").await.is(200);
        assert_eq!((&workers["items"][0]["label"], &workers["items"][0]["queues"]), (&json!("test"), &json!(["DEFAULT", "LOW"])));
        let kinds = world.get("/v1/kinds").await.is(200);
        let names: Vec<&str> = kinds["items"].as_array().unwrap().iter().map(|kind| kind["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["BROKEN", "FAIL", "NOOP", "SLEEP"]);
        assert_eq!((&kinds["items"][0]["queue"], &kinds["items"][0]["max_attempts"]), (&json!("LOW"), &json!(5)));
    }
}

#[tokio::test]
async fn a_wrong_change_of_a_queue_is_refused() {
    let world = World::new().await;
    for (body, field, rule) in [
        (json!({}), "body", "must change something"),
        (json!({ "concurrency": 0 }), "concurrency", "1 to 10000"),
        (json!({ "concurrency": 10_001 }), "concurrency", "1 to 10000"),
        (json!({ "paused": "yes" }), "paused", "true or false"),
        (json!({ "global_concurrency": 0 }), "global_concurrency", "1 to 1000000, null"),
        (json!({ "global_concurrency": "4" }), "global_concurrency", "1 to 1000000, null"),
        (json!({ "concurrency": "3" }), "concurrency", "1 to 10000, or \"configured\""),
        (json!({ "concurrency_min": 30, "concurrency_max": 2 }), "concurrency_min", "from 30 to 2"),
        (
            json!({ "concurrency": 9, "concurrency_max": 5, "concurrency_min": 1 }),
            "concurrency",
            "9 is outside",
        ),
        (
            json!({ "boost_after": 90 }),
            "boost_after",
            "must be a duration above 0 such as 90s, or none, or null",
        ),
        (json!({ "boost_after": "0s" }), "boost_after", "must be a duration above 0"),
        (
            json!({ "priority": 1 }),
            "priority",
            "is not a field here; known: paused, concurrency, concurrency_min, concurrency_max, global_concurrency",
        ),
    ] {
        let reply = world.with_body("PATCH", "/v1/queues/HIGH", body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[(field, rule)]);
    }
    world.with_body("PATCH", "/v1/queues/NOPE", json!({ "paused": true })).await.refuses(404, "not_found");
    world.end().await;
}
