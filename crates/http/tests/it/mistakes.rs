//! Several mistakes in one request are reported in one response.

use serde_json::{Value, json};
use windlass_core::budget::{Amount, BudgetSpec};

use crate::world::World;

/// The refused fields, in the order of the response.
fn fields(problem: &Value) -> Vec<&str> {
    problem["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn all_mistakes_of_a_body_are_named_at_once() {
    let world = World::new().await;
    world.client.set_budgets(&[BudgetSpec::money("ai", Amount::from_cents(50_000))]).await.unwrap();
    for (method, path, body, wrong) in [
        (
            "POST",
            "/v1/jobs",
            json!({ "kind": "NOPE", "priority": "x", "max_attempts": 0, "colour": 1 }),
            vec!["priority", "colour", "kind", "max_attempts"],
        ),
        (
            "POST",
            "/v1/jobs",
            json!([{ "kind": "NOOP", "priority": 99 }, 7, { "kind": "NOPE", "delay": "soon" }]),
            vec!["[1]", "[2].delay", "[0].priority", "[2].kind"],
        ),
        (
            "POST",
            "/v1/jobs/bulk",
            json!({ "action": "undo", "filter": { "state": ["gone"], "queue": "NO", "kind": 7, "ids": ["x"] }, "x": 1 }),
            vec!["action", "x", "filter.kind", "filter.ids", "filter.state", "filter.queue"],
        ),
        ("POST", "/v1/jobs/bulk", json!({ "filter": {} }), vec!["filter", "action"]),
        ("POST", "/v1/jobs/bulk", json!({ "filter": 3 }), vec!["filter", "action"]),
        (
            "PATCH",
            "/v1/queues/LOW",
            json!({ "paused": 1, "permits": 3, "concurrency_min": 9, "concurrency_max": 2, "size": 1 }),
            vec!["paused", "size", "permits", "concurrency_min"],
        ),
        (
            "PATCH",
            "/v1/queues/LOW",
            json!({ "concurrency": -1, "concurrency_min": 9, "concurrency_max": 2 }),
            vec!["concurrency", "concurrency_min"],
        ),
        ("PUT", "/v1/kinds/bad%20name", json!({ "queue": 5 }), vec!["queue", "kind"]),
        (
            "PUT",
            "/v1/kinds/NOOP",
            json!({ "queue": "NO", "rate": "often", "permits": 3, "key_concurrency": 0 }),
            vec!["rate", "key_concurrency", "queue", "permits"],
        ),
        (
            "PUT",
            "/v1/kinds/two%20words",
            json!({ "queue": "LOW", "permits": 3, "x": 1 }),
            vec!["x", "permits", "kind"],
        ),
        (
            "PUT",
            "/v1/schedules/windlass-x",
            json!({ "kind": "NOPE", "cron": "61 * * * *", "misfire": "never", "tz": "UTC", "priority": 99 }),
            vec!["misfire", "tz", "name", "priority", "cron.minute", "kind"],
        ),
        (
            "PUT",
            "/v1/schedules/s",
            json!({ "kind": "NOOP", "rules": [{ "expr": 7 }, { "expr": "61 * * * *" }] }),
            vec!["rules[0].expr", "rules[1].minute"],
        ),
        (
            "POST",
            "/v1/workflows",
            json!({ "on_failure": "panic", "jobs": [7, { "name": "b", "kind": "NOPE", "priority": "x", "after": ["z"] }] }),
            vec!["on_failure", "jobs[0]", "jobs[1].priority", "jobs[1].after[0]", "jobs[1].kind"],
        ),
        (
            "PATCH",
            "/v1/budgets/ai/never",
            json!({ "limit": "much", "tokens": -1 }),
            vec!["month", "limit", "tokens"],
        ),
    ] {
        let problem = world.with_body(method, path, body).await.refuses(422, "invalid_input");
        let mut found = fields(&problem);
        let mut wrong = wrong;
        found.sort_unstable();
        wrong.sort_unstable();
        assert_eq!(found, wrong, "{method} {path}: {problem}");
    }
    assert_eq!(world.count().await, 0);
    assert_eq!(world.get("/v1/audit").await.is(200)["items"], json!([]), "nothing was written");
    world.end().await;
}

#[tokio::test]
async fn all_wrong_parameters_are_named_at_once() {
    let world = World::new().await;
    for (path, wrong) in [
        ("/v1/jobs?limit=0&cursor=x&state=gone&queue=NO,NOT&kind=NOPE&entity=7", 7),
        ("/v1/workflows?limit=0&cursor=x&state=gone", 3),
        ("/v1/schedules?limit=0&cursor=x", 2),
        ("/v1/audit?limit=0&cursor=x&from=noon&to=late", 4),
        ("/v1/jobs?limit=0&colour=red", 2),
        ("/v1/jobs?state=foo&limit=x&cursor=y&entity=z&bogus=1", 5),
        ("/v1/dead-letters?state=foo&bogus=1&bogus=2", 3),
        ("/v1/audit?from=noon&limit=5&limit=6&x", 3),
        ("/v1/jobs?limit=0&tag=a%00b", 2),
        ("/v1/schedules/a%00b", 1),
    ] {
        let problem = world.get(path).await.refuses(400, "invalid_parameter");
        assert_eq!(fields(&problem).len(), wrong, "{path}: {problem}");
    }
    for path in
        ["/v1/cleanup/finished?dry_run=perhaps&older_than=old&bogus=1", "/v1/cleanup/finished?bogus=1"]
    {
        let problem = world.send("POST", path, &[], "").await.refuses(400, "invalid_parameter");
        assert_eq!(fields(&problem).len(), path.matches('=').count(), "{path}: {problem}");
    }
    world.end().await;
}

/// For every route: an unknown parameter is refused and nothing happens.
#[tokio::test]
async fn every_route_refuses_unknown_parameters() {
    let mut world = World::new().await;
    world.add_entities().await;
    let document = world.get("/openapi.json").await.is(200);
    let before = world.get("/v1/audit").await.is(200);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, of) in methods.as_object().unwrap().iter().filter(|_| path.starts_with("/v1/")) {
            let filled = path.replace("{type}", "document").replace("{month}", "2026-11");
            let filled = filled.split('/').map(|part| if part.starts_with('{') { "a" } else { part });
            let path = format!("{}?bogus=1", filled.collect::<Vec<_>>().join("/"));
            let content = of["requestBody"]["content"].as_object().and_then(|content| content.keys().next());
            let body = of["requestBody"]["content"]["application/json"]["example"].to_string();
            let body = if content.is_some() { body.as_str() } else { "" };
            let headers = [
                ("Content-Type", content.map_or("text/plain", String::as_str)),
                ("Content-Length", &body.len().to_string()),
            ];
            let method = method.to_uppercase();
            let reply = world.send(&method, &path, &headers, body).await;
            let problem = reply.json();
            let named = problem["errors"].as_array().into_iter().flatten();
            assert!(named.clone().any(|error| error["field"] == "bogus"), "{method} {path}: {problem}");
        }
    }
    assert_eq!(world.get("/v1/audit").await.is(200), before);
    assert_eq!(world.count().await, 0, "no job was made");
    world.end().await;
}

#[tokio::test]
async fn mistakes_in_headers_and_body_are_reported_together() {
    let world = World::new().await;
    let body = json!({ "kind": "NOPE", "priority": "x" }).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", &body.len().to_string()),
        ("Prefer", "wait=9999"),
    ];
    let problem = world.send("POST", "/v1/jobs", &headers, &body).await.refuses(422, "invalid_input");
    assert_eq!(fields(&problem), ["Prefer", "priority", "kind"]);
    world.end().await;
}

#[tokio::test]
async fn all_mistakes_about_entities_are_named_at_once() {
    let mut world = World::new().await;
    world.add_entities().await;
    for (method, path, body, wrong) in [
        (
            "PUT",
            "/v1/entities/document/a?strategy=later&priority=x&delay=soon",
            json!({ "id": "b", "title": "A" }),
            vec!["strategy", "priority", "delay", "id"],
        ),
        (
            "PUT",
            "/v1/entities/document/a?strategy=foo&priority=99&delay=zz&max_attempts=0&bogus=1",
            json!({ "title": "A" }),
            vec!["strategy", "priority", "delay", "max_attempts", "bogus"],
        ),
        (
            "PUT",
            "/v1/types/prod",
            json!({ "text": [{ "name": "", "weight": -2 }, { "weight": 1.5, "x": 1 }, "ok", "ok"] }),
            vec![
                "text[0].name",
                "text[0].weight",
                "text[1].name",
                "text[1].weight",
                "text[1].x",
                "text[3].name",
            ],
        ),
        (
            "POST",
            "/v1/entities/document?priority=x&max_attempts=0",
            json!([]),
            vec!["priority", "body", "max_attempts"],
        ),
        (
            "PUT",
            "/v1/types/product",
            json!({ "text": [7, { "name": "a", "weight": 99 }, 8], "strategy": "later", "x": 1 }),
            vec!["text[0]", "text[2]", "strategy", "x", "text[1].weight"],
        ),
        (
            "POST",
            "/v1/search",
            json!({ "query": "q", "limit": 9999, "mode": "best", "facets": 7, "filter": { "a": { "over": 1 } } }),
            vec!["mode", "facets", "filter.a.over", "limit"],
        ),
    ] {
        let problem = world.with_body(method, path, body).await.refuses(422, "invalid_input");
        let (mut found, mut wrong) = (fields(&problem), wrong);
        found.sort_unstable();
        wrong.sort_unstable();
        assert_eq!(found, wrong, "{method} {path}: {problem}");
    }
    world.end().await;
}
