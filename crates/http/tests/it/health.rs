//! `GET /v1/health`: findings of all parts, worst first.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_pack::health::Finding;
use windlass_pack::{Pack, Registry};

use crate::on_both;
use crate::world::{Database, POISON, World, options};

fn found<'a>(health: &'a Value, check: &str) -> Option<&'a Value> {
    health["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == check)
}

on_both! {
    async fn an_entity_that_cannot_be_embedded_is_a_finding_until_it_is_fixed(world: World) {
        world.add_entities().await;
        world.work().await;
        assert_eq!(found(&world.get("/v1/health").await.is(200), "index").unwrap()["level"], "ok");
        let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
        let path = "/v1/entities/document/bad?max_attempts=1";
        world.send("PUT", path, &headers, &json!({ "text": POISON }).to_string()).await;
        let health = world.get("/v1/health").await.is(200);
        let finding = found(&health, "index").unwrap();
        assert_eq!(finding["level"], "warning");
        assert!(finding["what"].as_str().unwrap().starts_with("1 entities could not be embedded"), "{finding}");
        assert!(finding["remedy"].as_str().unwrap().contains("dead-letters"), "{finding}");
        assert_ne!(health["status"], "ok");
        let filter = json!({ "action": "delete", "filter": { "queue": "INDEX_ASYNC", "state": ["dead_letter"] } });
        world.post("/v1/jobs/bulk", filter).await.is(200);
        assert_eq!(found(&world.get("/v1/health").await.is(200), "index").unwrap()["level"], "ok");
    }
}

/// One check reports a failure, another cannot run.
struct Unwell;

impl Pack for Unwell {
    fn name(&self) -> &'static str {
        "unwell"
    }

    fn register(&self, registry: &mut Registry) {
        registry
            .check("tide", || async { Ok(vec![Finding::failing("tide", "it is out", "wait six hours")]) });
        registry.check("moon", || async { Err("clouds".to_owned()) });
    }
}

#[tokio::test]
async fn the_worst_finding_comes_first_and_a_check_that_cannot_run_says_so() {
    let world = World::start(Database::Sqlite, options(), vec![Arc::new(Unwell)]).await;
    let health = world.get("/v1/health").await.is(200);
    assert_eq!(health["status"], "failing");
    assert_eq!(health["findings"][0]["check"], "tide");
    assert_eq!(health["findings"][0]["remedy"], "wait six hours");
    let moon = found(&health, "moon").unwrap();
    assert_eq!((&moon["level"], &moon["what"]), (&json!("failing"), &json!("could not be examined: clouds")));
    world.end().await;
}
