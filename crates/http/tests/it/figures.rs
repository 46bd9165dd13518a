//! Routes behind commands other than lists: counts, checks, overrides, backups, and the live view.

use serde_json::json;
use windlass_core::Time;
use windlass_core::store::BackupNote;

use crate::on_both;
use crate::world::World;

on_both! {
    async fn jobs_are_counted_exactly(world: World) {
        for n in 0..60 {
            let kind = if n % 3 == 0 { "SLEEP" } else { "NOOP" };
            world.enqueue(json!({ "kind": kind, "delay": "1h", "tags": ["t"] })).await;
        }
        assert_eq!(world.get("/v1/jobs/count").await.is(200), json!({ "count": 60 }));
        for (query, count) in [("kind=SLEEP", 20), ("state=scheduled&tag=t", 60), ("state=running,failed", 0), ("queue=DEFAULT,LOW", 60), ("queue=LOW", 0)] {
            let answer = world.get(&format!("/v1/jobs/count?{query}")).await.is(200);
            assert_eq!(answer, json!({ "count": count }), "{query}");
        }
        world.get("/v1/jobs/count?kind=NOPE").await.refuses(400, "invalid_parameter");
        world.get("/v1/jobs/count?limit=5").await.refuses(400, "invalid_parameter");
    }

    async fn jobs_are_validated_without_being_written(world: World) {
        let good = world.post("/v1/jobs/check", json!([{ "kind": "NOOP" }, { "kind": "SLEEP" }])).await.is(200);
        assert_eq!(good, json!({ "jobs": 2, "problems": 0, "errors": [] }));
        let bad = json!([{ "kind": "NOOP" }, { "kind": "NOPE" }, { "kind": "NOOP", "priority": 11, "max_attempts": 0 }, 7, { "prio": 1 }]);
        let found = world.post("/v1/jobs/check", bad).await.is(200);
        let fields: Vec<&str> = found["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert_eq!(fields, ["[1].kind", "[2].priority", "[2].max_attempts", "[3]", "[4].kind", "[4].prio"], "{found}");
        assert_eq!((&found["jobs"], &found["problems"]), (&json!(5), &json!(6)));
        let many = world.post("/v1/jobs/check", json!(vec![json!({ "kind": "NOPE" }); 150])).await.is(200);
        assert_eq!((&many["problems"], many["errors"].as_array().unwrap().len()), (&json!(150), 100));
        world.post("/v1/jobs/check", json!([])).await.refuses(422, "invalid_input");
        assert_eq!(world.get("/v1/jobs/count").await.is(200), json!({ "count": 0 }), "nothing was written");
    }

    async fn live_overrides_are_listed(world: World) {
        assert_eq!(world.get("/v1/overrides").await.is(200)["items"], json!([]));
        world.with_body("PATCH", "/v1/queues/LOW", json!({ "concurrency": 3 })).await.is(200);
        let listed = world.get("/v1/overrides").await.is(200);
        assert_eq!(listed["items"], json!([{ "key": "queues.LOW.concurrency", "live": "3", "configured": "5" }]));
        world.with_body("PATCH", "/v1/queues/LOW", json!({ "concurrency": "configured" })).await.is(200);
        assert_eq!(world.get("/v1/overrides").await.is(200)["items"], json!([]));
    }

    async fn backups_are_listed_with_whether_the_file_exists(world: World) {
        assert_eq!(world.get("/v1/backups").await.is(200), json!({ "items": [], "next_cursor": null }));
        let here = std::env::current_exe().unwrap().display().to_string();
        for (digest, file, verified_at) in [("aa", "/nowhere/a.backup", None), ("bb", here.as_str(), Some(Time(2_000_000)))] {
            let taken_at = Time(if digest == "aa" { 1_000_000 } else { 1_500_000 });
            let note = BackupNote { digest: digest.to_owned(), file: file.to_owned(), taken_at, rows: 7, bytes: 9, verified_at };
            world.client.store().note_backup(&note).await.unwrap();
        }
        let listed = world.get("/v1/backups").await.is(200);
        let expected = json!([
            { "file": here, "taken_at": "1970-01-01T00:00:01.5Z", "rows": 7, "bytes": 9, "sha256": "bb", "verified_at": "1970-01-01T00:00:02Z", "there": true },
            { "file": "/nowhere/a.backup", "taken_at": "1970-01-01T00:00:01Z", "rows": 7, "bytes": 9, "sha256": "aa", "verified_at": null, "there": false },
        ]);
        assert_eq!(listed["items"], expected, "newest first");
    }

    async fn the_live_view_is_one_answer(world: World) {
        world.work().await;
        let dead = world.dead_letter().await;
        world.with_body("PATCH", "/v1/queues/BULK", json!({ "paused": true })).await.is(200);
        world.enqueue(json!({ "kind": "NOOP", "delay": "1h" })).await;
        let top = world.get("/v1/top").await.is(200);
        let named = |name: &str| top["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap();
        assert_eq!((&named("DEFAULT")["scheduled"], &named("BULK")["paused"]), (&json!(1), &json!(true)), "{top}");
        assert_eq!(top["workers"].as_array().unwrap().len(), 1, "{top}");
        let failure = &top["failures"][0];
        assert_eq!((&failure["id"], &failure["state"]), (&json!(dead), &json!("dead_letter")), "{top}");
    }
}
