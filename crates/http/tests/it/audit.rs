//! The audit: records newest first, in pages.

use serde_json::{Value, json};
use windlass_core::budget::{Amount, BudgetSpec};

use crate::on_both;
use crate::world::World;

on_both! {
    async fn every_change_is_listed_with_before_and_after(world: World) {
        assert_eq!(world.get("/v1/audit").await.is(200), json!({ "items": [], "next_cursor": null }));
        world.client.set_budgets(&[BudgetSpec::money("ai", Amount::from_cents(50_000))]).await.unwrap();
        for (method, path, body) in [
            ("PATCH", "/v1/budgets/ai/2999-12", json!({ "limit": 750 })),
            ("PATCH", "/v1/queues/LOW", json!({ "paused": true, "depth_cap": 9 })),
            ("PUT", "/v1/kinds/NOOP", json!({ "rate": "5/s" })),
        ] {
            world.with_body(method, path, body).await.is(200);
        }
        let first = world.get("/v1/audit?limit=2").await.is(200);
        let listed = |act: &Value| json!([act["actor"], act["act"], act["subject"], act["before"], act["after"]]);
        assert_eq!(first["items"].as_array().unwrap().len(), 2);
        assert_eq!(
            listed(&first["items"][0]),
            json!(["http", "kind.change", "kind/NOOP", { "rate": null }, { "rate": "5/s" }])
        );
        assert_eq!(
            listed(&first["items"][1]),
            json!(["http", "queue.change", "queue/LOW", { "paused": false, "depth_cap": null }, { "paused": true, "depth_cap": 9 }])
        );
        let rest = format!("/v1/audit?cursor={}", first["next_cursor"].as_str().unwrap());
        let rest = world.get(&rest).await.is(200);
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
        assert_eq!(
            listed(&rest["items"][0]),
            json!(["http", "budget.change", "budget/ai/2999-12", { "limit": "500.00" }, { "limit": "750.00" }])
        );
        assert!(rest["items"][0]["at"].as_str().unwrap().ends_with('Z'));
    }
}

on_both! {
    async fn every_changing_route_is_audited(world: World) {
        let job = |reply: Value| reply["id"].as_str().unwrap().to_owned();
        let later = json!({ "kind": "NOOP", "delay": "1h" });
        let tagged = json!({ "kind": "NOOP", "delay": "1h", "tags": ["many"] });
        let ids = [
            job(world.with_body("POST", "/v1/jobs", later.clone()).await.is(201)),
            job(world.with_body("POST", "/v1/jobs", later.clone()).await.is(201)),
            job(world.with_body("POST", "/v1/jobs", tagged).await.is(201)),
        ];
        let flow = json!({ "jobs": [{ "name": "a", "kind": "NOOP", "delay": "1h" }] });
        let flow = job(world.with_body("POST", "/v1/workflows", flow).await.is(201));
        let nightly = json!({ "kind": "NOOP", "cron": "@daily" });
        let one = format!("/v1/jobs/{}", ids[0]);
        for (method, path, body) in [
            ("PATCH", one.clone(), Some(json!({ "priority": 1 }))),
            ("POST", format!("{one}/cancel"), None),
            ("POST", format!("{one}/retry"), None),
            ("POST", format!("{one}/cancel"), None),
            ("DELETE", one, None),
            ("POST", "/v1/jobs/bulk".to_owned(), Some(json!({ "action": "cancel", "filter": { "ids": [ids[1], ids[2], "7"] } }))),
            ("POST", "/v1/jobs/bulk".to_owned(), Some(json!({ "action": "retry", "filter": { "tag": "many" } }))),
            ("POST", format!("/v1/workflows/{flow}/cancel"), None),
            ("POST", format!("/v1/workflows/{flow}/retry"), None),
            ("PUT", "/v1/schedules/nightly".to_owned(), Some(nightly)),
            ("POST", "/v1/schedules/nightly/pause".to_owned(), None),
            ("POST", "/v1/schedules/nightly/resume".to_owned(), None),
            ("POST", "/v1/schedules/nightly/run".to_owned(), None),
            ("DELETE", "/v1/schedules/nightly".to_owned(), None),
            ("PUT", "/v1/kinds/NEW".to_owned(), Some(json!({ "queue": "LOW", "rate": "5/s" }))),
        ] {
            let reply = match body {
                Some(body) => world.with_body(method, &path, body).await,
                None => world.send(method, &path, &[], "").await,
            };
            assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.status);
        }
        let mut acts = world.get("/v1/audit").await.is(200)["items"].as_array().unwrap().clone();
        acts.reverse();
        assert!(acts.iter().all(|act| act["actor"] == "http"), "{acts:?}");
        let listed: Vec<&str> = acts.iter().map(|act| act["act"].as_str().unwrap()).collect();
        assert_eq!(
            listed,
            [
                "job.change", "job.cancel", "job.retry", "job.cancel", "job.delete", "job.cancel", "job.cancel", "jobs.retry", "workflow.cancel",
                "workflow.retry", "schedule.put", "schedule.pause", "schedule.resume", "schedule.run",
                "schedule.delete", "kind.register", "kind.change",
            ]
        );
        let of = |act: &str| acts.iter().find(|one| one["act"] == act).unwrap();
        assert_eq!(of("job.change")["before"], json!({ "priority": 5 }));
        assert_eq!(of("job.change")["after"], json!({ "priority": 1 }));
        let before = &of("jobs.retry")["before"]["filter"];
        assert_eq!((&before["tag"], &of("jobs.retry")["after"]), (&json!("many"), &json!({ "done": 1 })));
        // A record about several named jobs is found by each of them.
        for id in &ids[1..] {
            let found = world.get(&format!("/v1/audit?act=job&subject=job/{id}")).await.is(200);
            let act = &found["items"][0];
            assert_eq!((&act["act"], &act["before"]["state"]), (&json!("job.cancel"), &json!("scheduled")), "{found}");
            assert_eq!(act["after"]["state"], "cancelled");
        }
    }

    async fn the_audit_is_filtered_by_actor_action_subject_and_time(world: World) {
        for (method, path, body) in [
            ("PATCH", "/v1/queues/LOW", json!({ "paused": true })),
            ("PATCH", "/v1/queues/HIGH", json!({ "paused": true })),
            ("PUT", "/v1/kinds/NOOP", json!({ "rate": "5/s" })),
            ("PATCH", "/v1/queues/LOW", json!({ "paused": false })),
        ] {
            world.with_body(method, path, body).await.is(200);
        }
        let asked = async |query: &str| {
            let found = world.get(&format!("/v1/audit?{query}")).await.is(200);
            found["items"].as_array().unwrap().clone()
        };
        let all = asked("").await;
        for (query, count) in [
            ("actor=http", 4),
            ("actor=cli", 0),
            ("act=queue.change", 3),
            ("act=queue.", 3),
            ("act=queue", 3),
            ("act=kind.", 1),
            ("subject=queue/LOW", 2),
            ("subject=queue/LOW&act=kind.", 0),
            ("from=2000-01-01T00:00:00Z", 4),
            ("to=2000-01-01T00:00:00Z", 0),
        ] {
            assert_eq!(asked(query).await.len(), count, "{query}");
        }
        let time = |n: usize| all[n]["at"].as_str().unwrap().to_owned();
        assert_eq!(asked(&format!("from={}", time(1))).await, all[..2], "that moment included");
        assert_eq!(asked(&format!("to={}", time(1))).await, all[2..], "that moment excluded");
        let first = world.get("/v1/audit?subject=queue/LOW&limit=1").await.is(200);
        let next = format!("subject=queue/LOW&cursor={}", first["next_cursor"].as_str().unwrap());
        assert_eq!((&first["items"][0], asked(&next).await), (&all[0], all[3..].to_vec()), "in pages");
    }
}

#[tokio::test]
async fn a_wrong_page_of_the_audit_is_refused() {
    let world = World::new().await;
    for query in ["cursor=x", "limit=0", "limit=1001", "since=1"] {
        world.get(&format!("/v1/audit?{query}")).await.refuses(400, "invalid_parameter");
    }
    world.end().await;
}

#[tokio::test]
async fn types_and_cleanup_are_audited() {
    let mut world = World::new().await;
    world.add_entities().await;
    world.with_body("PUT", "/v1/types/product", json!({ "strategy": "batch" })).await.is(200);
    let job = world.with_body("POST", "/v1/jobs", json!({ "kind": "NOOP", "delay": "1h" })).await.is(201);
    let one = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    world.send("POST", &format!("{one}/cancel"), &[], "").await.is(200);
    world.send("POST", "/v1/cleanup/finished?older_than=0s&dry_run=true", &[], "").await.is(200);
    let cleaned = world.send("POST", "/v1/cleanup/finished?older_than=0s", &[], "").await.is(200);
    let acts = world.get("/v1/audit").await.is(200)["items"].as_array().unwrap().clone();
    let listed: Vec<Value> = acts.iter().map(|act| json!([act["act"], act["subject"]])).collect();
    assert_eq!(cleaned["rows"], 1);
    let expected = [
        json!(["cleanup.run", "cleanup/finished"]),
        json!(["job.cancel", format!("job/{}", job["id"].as_str().unwrap())]),
        json!(["type.put", "type/product"]),
    ];
    assert_eq!(listed, expected);
    world.end().await;
}
