//! Workflows over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::World;

fn diamond() -> Value {
    json!({ "name": "diamond", "jobs": [
        { "name": "d", "kind": "NOOP", "after": ["b", "c"] },
        { "name": "a", "kind": "NOOP", "payload": { "n": 1.50 } },
        { "name": "b", "kind": "NOOP", "after": ["a"] },
        { "name": "c", "kind": "NOOP", "after": ["a"], "on_failure": "continue" },
    ] })
}

fn states(detail: &Value) -> Vec<String> {
    let jobs = detail["jobs"].as_array().unwrap();
    jobs.iter()
        .map(|job| format!("{}:{}", job["name"].as_str().unwrap(), job["state"].as_str().unwrap()))
        .collect()
}

on_both! {
    async fn a_workflow_runs_and_shows_its_state(world: World) {
        let made = world.post("/v1/workflows", diamond()).await.is(201);
        assert_eq!((&made["state"], &made["on_failure"], &made["ended_at"]), (&json!("running"), &json!("stop"), &Value::Null));
        assert_eq!(states(&made), ["a:pending", "b:scheduled", "c:scheduled", "d:scheduled"]);
        let last = &made["jobs"][3];
        assert_eq!((&last["after"], &last["waiting"], &last["on_failure"]), (&json!(["b", "c"]), &json!(true), &json!("stop")));
        assert_eq!(made["jobs"][2]["on_failure"], "continue");
        assert_eq!((&made["counts"]["waiting"], &made["counts"]["total"]), (&json!(3), &json!(4)));
        let path = format!("/v1/workflows/{}", made["id"].as_str().unwrap());
        assert_eq!(world.get(&path).await.is(200), made);
        let job = format!("/v1/jobs/{}", last["id"].as_str().unwrap());
        let shown = world.get(&job).await.is(200);
        assert_eq!((&shown["state"], &shown["run_at"], &shown["workflow"]), (&json!("scheduled"), &Value::Null, &made["id"]));
        assert_eq!(shown["waiting_on"], json!([made["jobs"][1]["id"], made["jobs"][2]["id"]]));
        assert_eq!(shown["graph"], made);
        let why = world.send("POST", &format!("{job}/retry"), &[], "").await.refuses(409, "wrong_state");
        assert!(why["detail"].as_str().unwrap().contains("because of others in its workflow"), "{why}");
        let now = json!({ "run_at": "2026-01-01T00:00:00Z" });
        world.with_body("PATCH", &job, now).await.refuses(409, "not_waiting");
        world.work().await;
        let ended = wait_until("the workflow to end", Duration::from_secs(30), || async {
            Seen::when(world.get(&path).await.is(200), |detail| detail["state"] == "completed")
        })
        .await;
        assert_eq!(ended["counts"]["completed"], 4);
        world.send("POST", &format!("{path}/cancel"), &[], "").await.refuses(409, "wrong_state");
        world.send("POST", &format!("{path}/retry"), &[], "").await.refuses(409, "wrong_state");
    }

    async fn a_whole_workflow_is_cancelled_and_retried(world: World) {
        let made = world.post("/v1/workflows", diamond()).await.is(201);
        let path = format!("/v1/workflows/{}", made["id"].as_str().unwrap());
        let gone = world.send("POST", &format!("{path}/cancel"), &[], "").await.is(200);
        assert_eq!((&gone["state"], &gone["counts"]["cancelled"]), (&json!("cancelled"), &json!(4)));
        let again = world.send("POST", &format!("{path}/retry"), &[], "").await.is(200);
        assert_eq!((states(&again), &again["state"]), (states(&made), &json!("running")));
        let running = world.get("/v1/workflows?state=running").await.is(200);
        assert_eq!(running["items"][0]["id"], made["id"]);
        assert_eq!(world.get("/v1/workflows?state=failed").await.is(200)["items"], json!([]));
        world.get("/v1/workflows?state=odd").await.refuses(400, "invalid_parameter");
        for path in ["/v1/workflows/7", "/v1/workflows/x"] {
            world.get(path).await.refuses(404, "not_found");
            world.send("POST", &format!("{path}/cancel"), &[], "").await.refuses(404, "not_found");
        }
    }

    async fn an_invalid_workflow_is_refused_with_field_and_rule(world: World) {
        let refused = async |body: Value| {
            let problem = world.post("/v1/workflows", body).await.refuses(422, "invalid_input");
            problem["errors"].to_string()
        };
        let circle = json!({ "jobs": [
            { "name": "a", "kind": "NOOP", "after": ["b"] }, { "name": "b", "kind": "NOOP", "after": ["a"] },
        ] });
        assert!(refused(circle).await.contains("has a cycle: a after b after a"));
        let all = refused(json!({ "on_failure": "stop", "jobs": [
            { "name": "a", "kind": "NO", "after": ["zz"] },
            { "name": "a", "kind": "NOOP", "unique_key": "u", "compensate": { "kind": "NOOP" } },
        ] }))
        .await;
        for part in ["jobs[0].after[0]", "jobs[1].name", "jobs[0].kind", "jobs[1].unique_key", "jobs[1].compensate"] {
            assert!(all.contains(part), "{part} is not in {all}");
        }
        assert_eq!(world.get("/v1/workflows").await.is(200)["items"], json!([]));
        assert_eq!(world.get("/v1/jobs").await.is(200)["items"], json!([]));
    }
}
