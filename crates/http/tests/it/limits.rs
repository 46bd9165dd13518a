//! Limits over HTTP: shown as stored, changed live, followed by a running worker.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::store::{Action, JobFilter};
use windlass_core::{JobState, KindSpec, Resource};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::World;

/// The catalog may be this old.
const SOON: Duration = Duration::from_secs(10);

async fn running(world: &World, wanted: u64) {
    wait_until(&format!("{wanted} running jobs"), SOON, || async {
        Seen::when(world.count_in(JobState::Running).await, |running| *running == wanted)
    })
    .await;
}

async fn sleepers(world: &World, count: usize) {
    for _ in 0..count {
        world.enqueue(json!({ "kind": "SLEEP", "payload": { "ms": 600_000 } })).await;
    }
}

async fn cancel_all(world: &World) {
    world.client.store().act(&JobFilter::default(), Action::Cancel, 100, None).await.unwrap();
}

async fn metric(world: &World, series: &str) -> f64 {
    let text = world.get("/metrics").await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing in\n{text}")).parse().unwrap()
}

on_both! {
    async fn permits_are_shown_and_changed_live(world: World) {
        let resource = Some(Resource::new("screenshot", 2));
        let sleep = KindSpec { resource, ..KindSpec::new("SLEEP", "DEFAULT") };
        world.client.store().sync_registry(&[], &[sleep], None).await.unwrap();
        world.client.refresh().await.unwrap();
        world.work().await;
        sleepers(world, 5).await;
        running(world, 2).await;
        let uses = |permits: u64, in_use: u64| json!({ "resource": "screenshot", "permits": permits, "in_use": in_use, "free": permits - in_use });
        let worker = world.get("/v1/workers").await.is(200)["items"][0].clone();
        assert_eq!(worker["resources"], json!([uses(2, 2)]));
        assert_eq!(worker["concurrency"][0], json!({ "queue": "DEFAULT", "concurrency": 10 }));
        let total = &world.get("/v1/stats").await.is(200)["resources"][0];
        assert_eq!((&total["workers"], &total["permits"], &total["in_use"], &total["free"]), (&json!(1), &json!(2), &json!(2), &json!(0)));
        for (name, value) in [("windlass_resource_permits", 2.0), ("windlass_resource_permits_in_use", 2.0)] {
            let series = format!("{name}{{application=\"windlass\",resource=\"screenshot\"}}");
            assert_eq!(metric(world, &series).await, value, "{name}");
        }
        assert_eq!(metric(world, "screenshot_concurrency_utilization{application=\"windlass\"}").await, 2.0);

        let kind = world.with_body("PUT", "/v1/kinds/SLEEP", json!({ "permits": 4 })).await.is(200);
        assert_eq!((&kind["resource"], &kind["permits"], &kind["rate"]), (&json!("screenshot"), &json!(4), &Value::Null));
        running(world, 4).await;
        assert_eq!(world.get("/v1/workers").await.is(200)["items"][0]["resources"], json!([uses(4, 4)]));
        cancel_all(world).await;
        running(world, 0).await;
        assert_eq!(metric(world, "screenshot_concurrency_utilization{application=\"windlass\"}").await, 0.0);
    }

    async fn a_rate_and_a_concurrency_are_changed_live(world: World) {
        world.with_body("PUT", "/v1/kinds/SLEEP", json!({ "rate": "1/h" })).await.is(200);
        world.work().await;
        sleepers(world, 6).await;
        world.enqueue(json!({ "kind": "NOOP" })).await;
        wait_until("a kind without a limit to be done", SOON, || async {
            Seen::when(world.count_in(JobState::Completed).await, |done| *done == 1)
        })
        .await;
        running(world, 1).await;
        let queue = world.with_body("PATCH", "/v1/queues/DEFAULT", json!({ "concurrency": 3 })).await.is(200);
        assert_eq!(queue["concurrency"], json!(3));
        let kind = world.with_body("PUT", "/v1/kinds/SLEEP", json!({ "rate": "none" })).await.is(200);
        assert_eq!(kind["rate"], Value::Null);
        running(world, 3).await;
        world.with_body("PATCH", "/v1/queues/DEFAULT", json!({ "concurrency": 5 })).await.is(200);
        running(world, 5).await;
        cancel_all(world).await;
    }

    async fn bounds_of_a_queue_are_changed_live(world: World) {
        world.work().await;
        let change = json!({ "concurrency_min": 2, "concurrency_max": 2 });
        let queue = world.with_body("PATCH", "/v1/queues/DEFAULT", change).await.is(200);
        assert_eq!((&queue["concurrency_min"], &queue["concurrency_max"]), (&json!(2), &json!(2)));
        wait_until("the worker to keep to the bounds", SOON, || async {
            let worker = world.get("/v1/workers").await.is(200)["items"][0]["concurrency"][0].clone();
            Seen::when(worker, |row| row["concurrency"] == 2)
        })
        .await;
        sleepers(world, 4).await;
        running(world, 2).await;
        cancel_all(world).await;
    }

    async fn key_concurrency_is_changed_live(world: World) {
        world.work().await;
        let put = async |body| world.with_body("PUT", "/v1/kinds/SLEEP", body).await.is(200)["key_concurrency"].clone();
        assert_eq!(put(json!({ "key_concurrency": 2 })).await, json!(2));
        for _ in 0..4 {
            let payload = json!({ "ms": 600_000 });
            world.enqueue(json!({ "kind": "SLEEP", "payload": payload, "concurrency_key": "k" })).await;
        }
        running(world, 2).await;
        put(json!({ "key_concurrency": 3 })).await;
        running(world, 3).await;
        assert_eq!(put(json!({ "key_concurrency": "configured" })).await, json!(1), "as configured");
        cancel_all(world).await;
    }

    /// Statistics of the last minutes are cached for a few seconds.
    async fn desired_workers_follow_backlog_run_time_and_sla(world: World) {
        let desired = async || world.get("/v1/queues").await.is(200)["items"][1]["desired_workers"].clone();
        assert_eq!(desired().await, json!(0), "nothing to do");
        let queue = world.client.catalog().queue_named("DEFAULT").unwrap().id;
        let kind = world.client.catalog().kind_named("NOOP").unwrap().id;
        let now = world.client.store().now().await.unwrap();
        // Sixty runs of ten seconds in the last minute or two, and 300 due jobs. That is 2 per second plus up to 1 per
        // second of new jobs, where one process handles 1.
        let mut minute = windlass_core::store::Rollup::new(now.minus(Duration::from_secs(60)), queue, kind);
        for _ in 0..60 {
            minute.count(windlass_core::store::Counted::Completed, Duration::from_secs(11), Duration::from_secs(10));
        }
        world.client.store().record(&[minute]).await.unwrap();
        for _ in 0..3 {
            let jobs: Vec<Value> = (0..100).map(|_| json!({ "kind": "NOOP" })).collect();
            world.post("/v1/jobs", json!(jobs)).await.is(201);
        }
        wait_until("the figures to be read again", SOON, || async {
            Seen::when(desired().await, |desired| *desired == 3)
        })
        .await;
        let series = "windlass_queue_desired_workers{application=\"windlass\",queue=\"DEFAULT\"}";
        assert_eq!(json!(metric(world, series).await as u64), desired().await);
        world.with_body("PATCH", "/v1/queues/DEFAULT", json!({ "paused": true })).await.is(200);
        assert_eq!(desired().await, json!(0), "a paused queue needs no worker");
    }
}

#[tokio::test]
async fn a_wrong_change_of_a_kind_is_refused() {
    let world = World::new().await;
    for (body, field, rule) in [
        (json!({}), "body", "must say something: queue, rate, permits or key_concurrency"),
        (json!({ "rate": "fast" }), "rate", "500/s, 30/m"),
        (json!({ "rate": 5 }), "rate", "must be text"),
        (json!({ "permits": 0 }), "permits", "1 to 10000"),
        (json!({ "permits": 3 }), "permits", "this kind has no resource"),
        (json!({ "key_concurrency": 0 }), "key_concurrency", "1 to 10000"),
        (json!({ "queue": "HIGH" }), "queue", "must be DEFAULT: a kind stays in its queue for good"),
        (json!({ "queue": "NOWHERE" }), "queue", "known: HIGH, DEFAULT"),
        (json!({ "speed": 1 }), "speed", "is not a field here; known: queue, rate, permits, key_concurrency"),
    ] {
        let reply = world.with_body("PUT", "/v1/kinds/NOOP", body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[(field, rule)]);
    }
    world.with_body("PUT", "/v1/kinds/NOPE", json!({ "rate": "1/s" })).await.refuses(404, "not_found");
    let new = world.with_body("PUT", "/v1/kinds/NEW", json!({ "queue": "low", "rate": "1/s" })).await.is(201);
    assert_eq!((&new["queue"], &new["rate"]), (&json!("LOW"), &json!("1/s")));
    world.with_body("PUT", "/v1/kinds/NEW", json!({ "queue": "LOW" })).await.is(200);
    for (queue, body, field, rule) in [
        ("HIGH", json!({ "permits": 3 }), "permits", "this queue has no resource"),
        ("HIGH", json!({ "concurrency_max": 5 }), "concurrency_max", "from 20 to 5"),
        ("SCREENSHOT", json!({ "permits": 20_000 }), "permits", "1 to 10000"),
        ("LOW", json!({ "depth_cap": 0 }), "depth_cap", "1 to 1000000000, null"),
        ("LOW", json!({ "depth_cap": "all" }), "depth_cap", "1 to 1000000000, null"),
    ] {
        let reply = world.with_body("PATCH", &format!("/v1/queues/{queue}"), body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[(field, rule)]);
    }
    let shot = world.with_body("PATCH", "/v1/queues/screenshot", json!({ "permits": 5 })).await.is(200);
    assert_eq!((&shot["resource"], &shot["permits"]), (&json!("screenshot"), &json!(5)));
    let low = world.with_body("PATCH", "/v1/queues/low", json!({ "depth_cap": 7 })).await.is(200);
    assert_eq!(low["depth_cap"], json!(7));
    let low = world.with_body("PATCH", "/v1/queues/low", json!({ "depth_cap": null })).await.is(200);
    assert_eq!(low["depth_cap"], Value::Null);
    world.end().await;
}
