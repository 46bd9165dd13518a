//! `POST /v1/jobs`.

use serde_json::{Value, json};
use windlass_core::store::{Live, QueueUpdate};

use crate::on_both;
use crate::world::World;

const FIELDS: [&str; 28] = [
    "id",
    "kind",
    "queue",
    "state",
    "priority",
    "payload",
    "payload_truncated",
    "payload_bytes",
    "attempt",
    "max_attempts",
    "run_at",
    "created_at",
    "started_at",
    "finished_at",
    "progress",
    "result",
    "result_truncated",
    "result_bytes",
    "last_error",
    "unique_key",
    "unique_until",
    "concurrency_key",
    "tags",
    "entity",
    "workflow",
    "suspicion",
    "waits_for",
    "duplicate",
];

on_both! {
    async fn enqueueing_returns_the_whole_job(world: World) {
        let body = r#"{"kind":"NOOP","payload":{"n":12345678901234567890123},"priority":3,"delay":"1h","unique_key":"u",
                       "concurrency_key":"c","max_attempts":7,"timeout":"PT5M","tags":["a","b"]}"#;
        let reply = world.post("/v1/jobs", body).await;
        let job = reply.is(201);
        let fields: Vec<&String> = job.as_object().unwrap().keys().collect();
        assert_eq!(fields, FIELDS);
        assert!(reply.body.contains(r#""payload":{"n":12345678901234567890123}"#), "{}", reply.body);
        assert_eq!(
            (&job["kind"], &job["queue"], &job["state"], &job["priority"], &job["max_attempts"], &job["tags"]),
            (&json!("NOOP"), &json!("DEFAULT"), &json!("scheduled"), &json!(3), &json!(7), &json!(["a", "b"])),
        );
        assert_eq!((&job["unique_key"], &job["concurrency_key"], &job["duplicate"]), (&json!("u"), &json!("c"), &json!(false)));
        assert!(job["id"].is_string() && job["created_at"].as_str().unwrap().ends_with('Z'), "{job}");
        let id = job["id"].as_str().unwrap();
        assert_eq!(world.get(&format!("/v1/jobs/{id}")).await.is(200)["id"], job["id"]);
    }

    async fn an_array_is_all_or_nothing(world: World) {
        let jobs: Vec<Value> = (0..700).map(|n| json!({ "kind": "NOOP", "payload": n })).collect();
        let answer = world.post("/v1/jobs", Value::from(jobs)).await.is(201);
        let payloads: Vec<u64> = answer["items"].as_array().unwrap().iter().map(|job| job["payload"].as_u64().unwrap()).collect();
        assert_eq!(payloads, (0..700).collect::<Vec<u64>>(), "in the order of the request");
        assert_eq!(answer["next_cursor"], Value::Null);
        let wrong = json!([{ "kind": "NOOP" }, { "kind": "NOPE" }, { "kind": "NOOP", "priority": 11 }]);
        let reply = world.post("/v1/jobs", wrong).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[("[1].kind", "`NOPE` is not registered"), ("[2].priority", "must be 0")]);
        let reply = world.post("/v1/jobs", json!([{ "kind": "NOOP", "prio": 1 }, 7])).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[("[0].prio", "is not a field here"), ("[1]", "must be an object")]);
        assert_eq!(world.count().await, 700);
    }

    async fn an_idempotency_key_returns_its_first_job(world: World) {
        let send = |body: &'static str, key: &'static str| {
            let world = &world;
            async move { world.send("POST", "/v1/jobs", &[("Content-Type", "application/json"), ("Idempotency-Key", key)], body).await }
        };
        let first = send(r#"{"kind":"NOOP","payload":1}"#, "k1").await.is(201);
        let again = send(r#"{"kind":"NOOP","payload":1}"#, "k1").await.is(200);
        assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
        send(r#"{"kind":"NOOP","payload":2}"#, "k1").await.refuses(422, "idempotency_mismatch");
        send(r#"{"kind":"NOOP","payload":1,"priority":1}"#, "k1").await.refuses(422, "idempotency_mismatch");
        let field = world.post("/v1/jobs", r#"{"kind":"NOOP","payload":1,"idempotency_key":"k1"}"#).await.is(200);
        assert_eq!(field["id"], first["id"], "the header and the field are one key");
        send(r#"{"kind":"NOOP","idempotency_key":"other"}"#, "k1").await.names(&[("idempotency_key", "header")]);
        send(r#"[{"kind":"NOOP"}]"#, "k1").await.refuses(400, "invalid_parameter");
        send("[]", "k1").await.refuses(422, "invalid_input");
        assert_eq!(world.count().await, 1);
    }

    async fn one_waiting_job_per_unique_key(world: World) {
        let first = world.enqueue(json!({ "kind": "NOOP", "unique_key": "u" })).await;
        let kept = world.post("/v1/jobs", json!({ "kind": "NOOP", "unique_key": "u" })).await.is(200);
        assert_eq!((&kept["id"], &kept["duplicate"]), (&json!(first), &json!(true)));
        let rejected = json!({ "kind": "NOOP", "unique_key": "u", "on_conflict": "reject" });
        world.post("/v1/jobs", rejected).await.refuses(409, "unique_rejected");
        let duplicate = json!({ "kind": "NOOP", "unique_key": "v", "on_conflict": "reject" });
        let reply = world.post("/v1/jobs", json!([{ "kind": "NOOP" }, duplicate, duplicate])).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[("[2].unique_key", "is that of [1] too")]);
        let replaced = world.enqueue(json!({ "kind": "NOOP", "unique_key": "u", "on_conflict": "replace" })).await;
        assert_ne!(replaced, first);
        assert_eq!(world.get(&format!("/v1/jobs/{first}")).await.is(200)["state"], "superseded");
    }

    async fn a_full_queue_says_when_to_retry(world: World) {
        let low = world.client.catalog().queue_named("LOW").unwrap().id;
        let update = QueueUpdate { depth_cap: Some(Live::Set(Some(2))), ..QueueUpdate::default() };
        world.client.store().update_queue(low, &update).await.unwrap();
        world.client.refresh().await.unwrap();
        world.post("/v1/jobs", json!([{ "kind": "BROKEN" }, { "kind": "BROKEN" }])).await.is(201);
        let reply = world.post("/v1/jobs", json!({ "kind": "BROKEN" })).await;
        reply.refuses(429, "queue_full");
        assert_eq!(reply.header("retry-after"), Some("1"));
        assert_eq!(world.count().await, 2);
    }

    async fn a_result_can_be_awaited(world: World) {
        let headers = |wait: &'static str| [("Content-Type", "application/json"), ("Prefer", wait)];
        let send = |wait: &'static str, body: &'static str| {
            let world = &world;
            async move { world.send("POST", "/v1/jobs", &headers(wait), body).await }
        };
        // No worker is running yet.
        let waiting = send("wait=1", r#"{"kind":"NOOP"}"#).await.is(202);
        assert_eq!(waiting["state"], "pending");
        let mut world = World::new().await;
        world.work().await;
        let headers = headers("respond-async, wait=20");
        let done = world.send("POST", "/v1/jobs", &headers, r#"{"kind":"SLEEP","payload":{"ms":30}}"#).await.is(201);
        assert_eq!(done["state"], "completed", "{done}");
        assert!(done["finished_at"].is_string());
        world.end().await;
    }
}

#[tokio::test]
async fn the_wait_time_is_limited() {
    let world = World::new().await;
    for wait in ["wait=61", "wait=-1", "wait=soon"] {
        let headers = [("Content-Type", "application/json"), ("Prefer", wait)];
        let reply = world.send("POST", "/v1/jobs", &headers, r#"{"kind":"NOOP"}"#).await;
        reply.refuses(400, "invalid_parameter");
        reply.names(&[("Prefer", "0 to 60")]);
    }
    assert_eq!(world.count().await, 0);
    world.end().await;
}

#[tokio::test]
async fn all_violated_rules_are_reported_and_nothing_is_written() {
    let world = World::new().await;
    let long = "k".repeat(257);
    for (body, expected) in [
        (json!({}), vec![("kind", "is required")]),
        (json!({ "kind": 7 }), vec![("kind", "must be text")]),
        (json!({ "kind": "NOPE" }), vec![("kind", "known kinds: BROKEN, FAIL, NOOP, SLEEP")]),
        (
            json!({ "kind": "NOOP", "prio": 1, "when": 2 }),
            vec![("prio", "known: kind, payload"), ("when", "is not a field")],
        ),
        (json!({ "kind": "NOOP", "priority": -1 }), vec![("priority", "must be 0 (most urgent) to 10")]),
        (
            json!({ "kind": "NOOP", "priority": "high" }),
            vec![("priority", "must be a whole number, not text")],
        ),
        (json!({ "kind": "NOOP", "max_attempts": 0 }), vec![("max_attempts", "must be 1 to 1000")]),
        (json!({ "kind": "NOOP", "run_at": "soon" }), vec![("run_at", "is not a time")]),
        (json!({ "kind": "NOOP", "delay": 5 }), vec![("delay", "must be text")]),
        (json!({ "kind": "NOOP", "delay": "5" }), vec![("delay", "the unit is missing")]),
        (
            json!({ "kind": "NOOP", "delay": "1m", "run_at": "2030-01-01T00:00:00Z" }),
            vec![("delay", "together with run_at")],
        ),
        (json!({ "kind": "NOOP", "timeout": "0s" }), vec![("timeout", "longer than zero")]),
        (json!({ "kind": "NOOP", "on_conflict": "keep" }), vec![("on_conflict", "only with unique_key")]),
        (
            json!({ "kind": "NOOP", "unique_key": "u", "on_conflict": "x" }),
            vec![("on_conflict", "replace, keep or reject")],
        ),
        (json!({ "kind": "NOOP", "unique_key": long }), vec![("unique_key", "1–256 bytes")]),
        (json!({ "kind": "NOOP", "tags": "x" }), vec![("tags", "a list of texts")]),
        (json!({ "kind": "NOOP", "tags": ["a b"] }), vec![("tags", "must be 1–64")]),
        (json!({ "kind": "NOOP", "payload": "x".repeat(1 << 20) }), vec![("payload", "1 MiB")]),
        (
            json!({ "kind": "NOOP", "priority": 99, "max_attempts": 0 }),
            vec![("priority", "must"), ("max_attempts", "must")],
        ),
        (json!("NOOP"), vec![("body", "must be an object or an array")]),
        (json!([]), vec![("body", "1 to 10000 jobs")]),
    ] {
        let reply = world.post("/v1/jobs", &body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&expected);
    }
    assert_eq!(world.count().await, 0);
    world.end().await;
}

#[tokio::test]
async fn the_size_of_an_array_is_limited() {
    let world = World::new().await;
    let many = |count: usize| format!("[{}]", vec![r#"{"kind":"NOOP"}"#; count].join(","));
    let reply = world.post("/v1/jobs", many(10_001)).await;
    reply.refuses(422, "invalid_input");
    reply.names(&[("body", "not 10001")]);
    assert_eq!(world.count().await, 0);
    let answer = world.post("/v1/jobs", many(10_000)).await.is(201);
    assert_eq!(answer["items"].as_array().unwrap().len(), 10_000);
    assert_eq!(world.count().await, 10_000);
    world.end().await;
}
