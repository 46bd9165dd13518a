//! Schedules over HTTP.

use serde_json::{Value, json};

use crate::on_both;
use crate::world::World;

on_both! {
    async fn a_schedule_is_created_changed_and_deleted(world: World) {
        let body = json!({ "kind": "NOOP", "cron": "30 2 * * *", "zone": "Europe/Berlin", "payload": { "n": 1.50 } });
        let made = world.with_body("PUT", "/v1/schedules/nightly", &body).await.is(201);
        assert_eq!((&made["name"], &made["kind"], &made["misfire"]), (&json!("nightly"), &json!("NOOP"), &json!("once")));
        assert_eq!(made["rules"], json!([{ "expr": "30 2 * * *", "zone": null, "calendar": null, "during": [] }]));
        assert_eq!((&made["last_tick"], &made["missed"], &made["paused"]), (&Value::Null, &json!(0), &json!(false)));
        assert_eq!((&made["catch_up"], &made["error"]), (&json!(100), &Value::Null));
        let ticks = made["next_ticks"].as_array().unwrap();
        assert_eq!((ticks.len(), &ticks[0]), (5, &made["next_tick"]));
        assert!(ticks.iter().all(|tick| tick.as_str().unwrap().contains(":30:00Z")), "{made}");
        assert_eq!(world.get("/v1/schedules/nightly").await.is(200), made);
        assert_eq!(world.with_body("PUT", "/v1/schedules/nightly", &body).await.is(200), made, "the same again");
        let changed = json!({ "kind": "NOOP", "every": "90s", "misfire": "all", "catch_up": 3, "priority": 1,
            "max_attempts": 2, "timeout": "5m", "unique_key": "u", "concurrency_key": "c", "tags": ["t"] });
        let changed = world.with_body("PUT", "/v1/schedules/nightly", changed).await.is(200);
        assert_eq!((&changed["rules"][0]["expr"], &changed["timeout"]), (&json!("every 90s"), &json!("5m")));
        assert_eq!((&changed["created_at"], &changed["tags"]), (&made["created_at"], &json!(["t"])));
        world.send("DELETE", "/v1/schedules/nightly", &[], "").await.is(204);
        world.send("DELETE", "/v1/schedules/nightly", &[], "").await.refuses(404, "not_found");
        world.get("/v1/schedules/nightly").await.refuses(404, "not_found");
    }

    async fn a_schedule_contains_its_own_calendars(world: World) {
        let body = json!({
            "kind": "NOOP",
            "rules": [
                { "expr": "*/5 * * * *", "calendar": "tokyo" },
                { "expr": "0 * * * *", "calendar": "tokyo", "during": ["after_hours", "day_off"], "zone": "UTC" },
            ],
            "calendars": { "tokyo": {
                "zone": "Asia/Tokyo",
                "sessions": { "mon-fri": ["09:00-11:30", "12:30-15:30"] },
                "closed": ["01-01"],
                "half_days": { "2026-12-30": ["09:00-11:30"] },
            } },
        });
        let made = world.with_body("PUT", "/v1/schedules/tokyo", &body).await.is(201);
        assert_eq!(made["calendars"], body["calendars"]);
        assert_eq!(made["rules"][1]["during"], json!(["after_hours", "day_off"]));
        assert_eq!(world.get("/v1/schedules/tokyo").await.is(200), made);
    }

    async fn a_built_in_schedule_cannot_be_replaced(world: World) {
        let own = windlass_core::schedule::ScheduleSpec {
            name: "windlass-backup".to_owned(),
            kind: "NOOP".to_owned(),
            payload: b"{}".to_vec(),
            rules: vec![windlass_core::schedule::RuleSpec { expr: "@yearly".to_owned(), ..Default::default() }],
            ..Default::default()
        };
        world.client.put_own_schedule(&own).await.unwrap();
        let before = world.get("/v1/schedules/windlass-backup").await.is(200);
        let body = json!({ "kind": "NOOP", "cron": "@daily" });
        for name in ["windlass-backup", "windlass-new"] {
            let path = format!("/v1/schedules/{name}");
            let refused = world.with_body("PUT", &path, &body).await.refuses(422, "invalid_input");
            assert_eq!(refused["errors"][0]["field"], "name", "{refused}");
        }
        assert_eq!(world.get("/v1/schedules/windlass-backup").await.is(200), before);
        world.send("POST", "/v1/schedules/windlass-backup/run", &[], "").await.is(201);
        world.send("POST", "/v1/schedules/windlass-backup/pause", &[], "").await.is(200);
        world.send("POST", "/v1/schedules/windlass-backup/resume", &[], "").await.is(200);
        world.send("DELETE", "/v1/schedules/windlass-backup", &[], "").await.is(204);
    }

    async fn schedules_are_listed_in_pages(world: World) {
        for name in ["c", "a", "b"] {
            let body = json!({ "kind": "NOOP", "cron": "@daily" });
            world.with_body("PUT", &format!("/v1/schedules/{name}"), body).await.is(201);
        }
        let names = |page: &Value| -> Vec<String> {
            page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
        };
        let all = world.get("/v1/schedules").await.is(200);
        assert_eq!((names(&all), &all["next_cursor"]), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], &Value::Null));
        let first = world.get("/v1/schedules?limit=2").await.is(200);
        assert_eq!((names(&first), &first["next_cursor"]), (vec!["a".to_owned(), "b".to_owned()], &json!("after:b")));
        assert_eq!(names(&world.get("/v1/schedules?limit=2&cursor=after:b").await.is(200)), ["c"]);
        for unknown in ["zzz", "after:", ""] {
            world.get(&format!("/v1/schedules?cursor={unknown}")).await.refuses(400, "invalid_parameter");
        }
        world.get("/v1/schedules?limit=0").await.refuses(400, "invalid_parameter");
    }

    async fn run_pause_and_resume(world: World) {
        world.work().await;
        let body = json!({ "kind": "NOOP", "cron": "@yearly", "payload": { "a": 1 } });
        let made = world.with_body("PUT", "/v1/schedules/s", body).await.is(201);
        let job = world.send("POST", "/v1/schedules/s/run", &[("Prefer", "wait=20")], "").await.is(201);
        assert_eq!((&job["state"], &job["payload"]), (&json!("completed"), &json!({ "a": 1 })));
        assert_eq!((&job["tags"], &job["duplicate"]), (&json!(["schedule:s", "trigger:manual"]), &json!(false)));
        assert_eq!(world.get("/v1/schedules/s").await.is(200), made, "its ticks are where they were");
        let paused = world.send("POST", "/v1/schedules/s/pause", &[], "").await.is(200);
        assert_eq!((&paused["paused"], &paused["next_tick"], &paused["next_ticks"]), (&json!(true), &Value::Null, &json!([])));
        let resumed = world.send("POST", "/v1/schedules/s/resume", &[], "").await.is(200);
        assert_eq!((&resumed["paused"], &resumed["next_tick"]), (&json!(false), &made["next_tick"]));
        for verb in ["run", "pause", "resume"] {
            world.send("POST", &format!("/v1/schedules/nobody/{verb}"), &[], "").await.refuses(404, "not_found");
        }
    }

    async fn the_worker_of_the_server_ticks(world: World) {
        world.work().await;
        world.with_body("PUT", "/v1/schedules/quick", json!({ "kind": "NOOP", "every": "100ms" })).await.is(201);
        let begun = std::time::Instant::now();
        let jobs = loop {
            let jobs = world.get("/v1/jobs?tag=schedule:quick&state=completed").await.is(200);
            if jobs["items"].as_array().unwrap().len() >= 3 {
                break jobs;
            }
            assert!(begun.elapsed().as_secs() < 20, "{jobs}");
        };
        let tags = jobs["items"][0]["tags"].as_array().unwrap();
        assert!(tags.iter().any(|tag| tag.as_str().unwrap().starts_with("tick:20")), "{tags:?}");
        let shown = world.get("/v1/schedules/quick").await.is(200);
        assert!(shown["last_tick"].is_string() && shown["missed"] == 0, "{shown}");
    }
}

#[tokio::test]
async fn an_invalid_schedule_is_refused_with_field_and_rule() {
    let world = World::new().await;
    let kinds = "known kinds: BROKEN, FAIL, NOOP, SLEEP";
    for (name, body, expected) in [
        ("s", json!({ "kind": "NOOP", "cron": "61 * * * *" }), vec![("cron.minute", "61 is not 0–59")]),
        (
            "s",
            json!({ "kind": "NOOP", "cron": "0 0 30 2 *" }),
            vec![("cron.day of month", "30 never comes in month 2")],
        ),
        ("s", json!({ "kind": "NOOP", "every": "1ms" }), vec![("every", "is not between 100ms")]),
        ("s", json!({ "kind": "NOOP" }), vec![("cron", "is required; or every, or rules")]),
        ("s", json!({ "kind": "NOPE", "cron": "@daily" }), vec![("kind", kinds)]),
        (
            "s",
            json!({ "kind": "NOOP", "rules": [{ "expr": "@daily", "calendar": "LSE" }], "zone": "Mars" }),
            vec![("rules[0].calendar", "known: NYSE"), ("zone", "is not a time zone")],
        ),
        (
            "s",
            json!({ "kind": "NOOP", "every": "zz", "cron": "99 * * * *", "calendar": "NOPE",
                    "rules": [{ "expr": "often" }] }),
            vec![
                ("every", "is not a duration"),
                ("cron.minute", "99 is not 0–59"),
                ("calendar", "known: NYSE"),
                ("rules[0].expr", "fields"),
                ("rules", "cannot be given together"),
            ],
        ),
        ("not%20a%20name", json!({ "kind": "NOOP", "cron": "@daily" }), vec![("name", "must be 1–55")]),
        (
            "s",
            json!({ "kind": "NOOP", "cron": "@daily", "expr": "x" }),
            vec![("expr", "is not a field here")],
        ),
    ] {
        let reply = world.with_body("PUT", &format!("/v1/schedules/{name}"), body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&expected);
    }
    world.with_body("PUT", "/v1/schedules/s", "[]").await.refuses(422, "invalid_input");
    world.with_body("PUT", "/v1/schedules/s", "{").await.refuses(400, "malformed_json");
    assert_eq!(world.get("/v1/schedules").await.is(200)["items"], json!([]));
    world.end().await;
}
