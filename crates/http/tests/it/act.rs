//! Retry, cancel, delete, bulk, dead letters.

use serde_json::json;
use windlass_core::JobState;

use crate::on_both;
use crate::world::World;

on_both! {
    async fn one_job_by_its_id(world: World) {
        let id = world.enqueue(json!({ "kind": "NOOP", "delay": "1h" })).await;
        let act = |verb: &'static str| {
            let (world, path) = (&world, format!("/v1/jobs/{id}/{verb}"));
            async move { world.send("POST", &path, &[], "").await }
        };
        assert_eq!(act("retry").await.is(200)["state"], "pending", "a scheduled job runs now");
        act("retry").await.refuses(409, "wrong_state");
        world.send("DELETE", &format!("/v1/jobs/{id}"), &[], "").await.refuses(409, "wrong_state");
        assert_eq!(act("cancel").await.is(200)["state"], "cancelled");
        act("cancel").await.refuses(409, "wrong_state");
        assert_eq!(act("retry").await.is(200)["state"], "pending", "a cancelled job is replayed");
        act("cancel").await.is(200);
        world.send("DELETE", &format!("/v1/jobs/{id}"), &[], "").await.is(204);
        world.send("DELETE", &format!("/v1/jobs/{id}"), &[], "").await.refuses(404, "not_found");
        act("retry").await.refuses(404, "not_found");
    }

    async fn a_running_job_is_asked_to_stop(world: World) {
        world.work().await;
        let id = world.enqueue(json!({ "kind": "SLEEP", "payload": { "ms": 60000 } })).await;
        while world.count_in(JobState::Running).await == 0 {
            tokio::task::yield_now().await;
        }
        let asked = world.send("POST", &format!("/v1/jobs/{id}/cancel"), &[], "").await;
        assert!([200, 202].contains(&asked.status), "{}", asked.body);
        while world.count_in(JobState::Cancelled).await == 0 {
            tokio::task::yield_now().await;
        }
    }

    async fn many_by_filter(world: World) {
        for n in 0..12 {
            let tag = if n % 3 == 0 { "third" } else { "rest" };
            world.enqueue(json!({ "kind": "NOOP", "tags": [tag] })).await;
        }
        let answer = world.post("/v1/jobs/bulk", json!({ "action": "cancel", "filter": { "tag": "third" } })).await.is(200);
        assert_eq!(answer, json!({ "done": 4, "requested": 0, "superseded": 0, "skipped": 0, "missing": 0 }));
        assert_eq!((world.count_in(JobState::Cancelled).await, world.count_in(JobState::Pending).await), (4, 8));
        let one = world.enqueue(json!({ "kind": "NOOP" })).await;
        let answer = world.post("/v1/jobs/bulk", json!({ "action": "delete", "filter": { "ids": [one, "1"] } })).await.is(200);
        assert_eq!((&answer["skipped"], &answer["missing"]), (&json!(1), &json!(1)), "{answer}");
        let answer = world.post("/v1/jobs/bulk", json!({ "action": "delete", "filter": { "state": ["cancelled"] } })).await.is(200);
        assert_eq!((&answer["done"], world.count().await), (&json!(4), 9));
    }

    async fn dead_letters_are_listed_and_replayed(world: World) {
        world.work().await;
        let dead = world.dead_letter().await;
        let fine = world.enqueue(json!({ "kind": "NOOP" })).await;
        let list = world.get("/v1/dead-letters").await.is(200);
        assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["id"]), (1, &json!(dead)));
        assert_eq!(world.get("/v1/dead-letters?state=failed").await.is(200)["items"], json!([]));
        world.get("/v1/dead-letters?state=pending").await.refuses(400, "invalid_parameter");
        world.get(&format!("/v1/dead-letters/{fine}")).await.refuses(404, "not_found");
        world.send("POST", &format!("/v1/dead-letters/{fine}/replay"), &[], "").await.refuses(404, "not_found");
        world.send("DELETE", &format!("/v1/dead-letters/{fine}"), &[], "").await.refuses(404, "not_found");
        assert_eq!(world.get(&format!("/v1/dead-letters/{dead}")).await.is(200)["last_error"], "failure 1 of 9");
        let replayed = world.send("POST", &format!("/v1/dead-letters/{dead}/replay"), &[], "").await.is(200);
        assert_eq!(replayed["id"], json!(dead));
        while world.count_in(JobState::DeadLetter).await == 0 {
            tokio::task::yield_now().await;
        }
        world.send("DELETE", &format!("/v1/dead-letters/{dead}"), &[], "").await.is(204);
        assert_eq!(world.get("/v1/dead-letters").await.is(200)["items"], json!([]));
    }
}

#[tokio::test]
async fn a_bulk_action_needs_an_action_and_a_condition() {
    let world = World::new().await;
    world.enqueue(json!({ "kind": "NOOP" })).await;
    for (body, expected) in [
        (json!({}), vec![("action", "is required"), ("filter", "is required")]),
        (json!({ "action": "cancel" }), vec![("filter", "is required")]),
        (json!({ "action": "cancel", "filter": {} }), vec![("filter", "at least one condition")]),
        (json!({ "action": "cancel", "filter": "all" }), vec![("filter", "must be an object")]),
        (
            json!({ "action": "explode", "filter": { "tag": "x" } }),
            vec![("action", "retry, cancel or delete")],
        ),
        (
            json!({ "action": "cancel", "filter": { "tags": "x" } }),
            vec![("filter.tags", "is not a field here")],
        ),
        (
            json!({ "action": "cancel", "filter": { "queue": "nope" } }),
            vec![("filter.queue", "no queue `nope`")],
        ),
        (
            json!({ "action": "delete", "filter": { "state": "pending" } }),
            vec![("filter.state", "cannot be meant here")],
        ),
        (json!({ "action": "delete", "filter": { "ids": ["x"] } }), vec![("filter.ids", "must be ids")]),
        (
            json!({ "action": "cancel", "filter": { "tag": "x" }, "dry_run": true }),
            vec![("dry_run", "is not a field here")],
        ),
    ] {
        let reply = world.post("/v1/jobs/bulk", &body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&expected);
    }
    assert_eq!(world.count_in(JobState::Pending).await, 1);
    world.end().await;
}
