//! Reading jobs, and changing a waiting one.

use serde_json::{Value, json};

use crate::on_both;
use crate::world::World;

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

on_both! {
    async fn pages_follow_each_other(world: World) {
        for n in 0..5 {
            world.enqueue(json!({ "kind": "NOOP", "payload": n })).await;
        }
        let all = ids(&world.get("/v1/jobs").await.is(200));
        assert_eq!(all.len(), 5);
        let mut seen = Vec::new();
        let mut path = "/v1/jobs?limit=2".to_owned();
        loop {
            let page = world.get(&path).await.is(200);
            seen.extend(ids(&page));
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("/v1/jobs?limit=2&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, all, "newest first, each once");
    }

    async fn filters_are_combined(world: World) {
        let noop = world.enqueue(json!({ "kind": "NOOP", "tags": ["x"] })).await;
        let later = world.enqueue(json!({ "kind": "NOOP", "delay": "1h" })).await;
        let low = world.enqueue(json!({ "kind": "BROKEN" })).await;
        for (query, expected) in [
            ("state=pending", vec![&low, &noop]),
            ("state=scheduled", vec![&later]),
            ("state=scheduled,pending", vec![&low, &later, &noop]),
            ("state=scheduled&state=pending&kind=NOOP", vec![&later, &noop]),
            ("queue=low", vec![&low]),
            ("queue=low,DEFAULT", vec![&low, &later, &noop]),
            ("queue=low&queue=LOW&queue=high", vec![&low]),
            ("queue=default,low&state=pending", vec![&low, &noop]),
            ("queue=default,low&limit=2", vec![&low, &later]),
            ("kind=BROKEN", vec![&low]),
            ("tag=x", vec![&noop]),
            ("entity=product:7", vec![]),
            ("tag=x&state=scheduled", vec![]),
        ] {
            let found = ids(&world.get(&format!("/v1/jobs?{query}")).await.is(200));
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        }
    }

    async fn one_job_is_shown_with_all_details(world: World) {
        world.work().await;
        let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
        let job = world.send("POST", "/v1/jobs", &headers, r#"{"kind":"BROKEN"}"#).await.is(201);
        assert_eq!(job["state"], "failed");
        let detail = world.get(&format!("/v1/jobs/{}", job["id"].as_str().unwrap())).await.is(200);
        assert_eq!(detail["last_error"], "<b>never</b> again");
        assert_eq!(detail["attempts"][0]["outcome"], "failed", "{detail}");
        assert_eq!(detail["attempts"][0]["error"], "<b>never</b> again");
        assert_eq!(detail["logs"][0]["line"], "about to fail", "{detail}");
        assert_eq!(detail["cancel_requested"], false);
    }

    async fn a_waiting_job_can_be_rescheduled(world: World) {
        let id = world.enqueue(json!({ "kind": "NOOP", "delay": "1h" })).await;
        let path = format!("/v1/jobs/{id}");
        let body = json!({ "priority": 1, "run_at": "2020-01-01T00:00:00Z" });
        let changed = world.with_body("PATCH", &path, body).await.is(200);
        assert_eq!((&changed["priority"], &changed["state"]), (&json!(1), &json!("pending")));
        world.send("POST", &format!("{path}/cancel"), &[], "").await.is(200);
        world.with_body("PATCH", &path, json!({ "priority": 2 })).await.refuses(409, "not_waiting");
        assert_eq!(world.get(&path).await.is(200)["priority"], 1);
    }
}

#[tokio::test]
async fn a_wrong_parameter_is_named() {
    let world = World::new().await;
    for (query, field, rule) in [
        ("limit=0", "limit", "1 to 1000"),
        ("limit=1001", "limit", "1 to 1000"),
        ("limit=many", "limit", "1 to 1000"),
        ("cursor=abc", "cursor", "next_cursor"),
        ("state=done", "state", "`done` is not a job state; known: scheduled"),
        ("queue=nope", "queue", "there is no queue `nope`; known: HIGH"),
        ("kind=nope", "kind", "there is no kind `nope`"),
        ("entity=product", "entity", "TYPE:ID"),
        ("stat=pending", "stat", "is not a parameter here; known: state, queue"),
        ("limit=1&limit=2", "limit", "is given twice"),
    ] {
        let reply = world.get(&format!("/v1/jobs?{query}")).await;
        reply.refuses(400, "invalid_parameter");
        reply.names(&[(field, rule)]);
    }
    let reply = world.get("/v1/jobs?limit=0&state=x").await;
    reply.refuses(400, "invalid_parameter");
    world.end().await;
}

#[tokio::test]
async fn a_wrong_change_is_refused() {
    let world = World::new().await;
    let id = world.enqueue(json!({ "kind": "NOOP" })).await;
    let path = format!("/v1/jobs/{id}");
    for (body, field, rule) in [
        (json!({}), "body", "must change something"),
        (json!({ "priority": 11 }), "priority", "must be 0"),
        (json!({ "run_at": "never" }), "run_at", "is not a time"),
        (json!({ "kind": "SLEEP" }), "kind", "is not a field here; known: priority, run_at"),
        (json!([]), "body", "must be an object"),
    ] {
        let reply = world.with_body("PATCH", &path, body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[(field, rule)]);
    }
    for id in ["999", "abc", "-"] {
        world.get(&format!("/v1/jobs/{id}")).await.refuses(404, "not_found");
        world
            .with_body("PATCH", &format!("/v1/jobs/{id}"), json!({ "priority": 1 }))
            .await
            .refuses(404, "not_found");
    }
    world.end().await;
}
