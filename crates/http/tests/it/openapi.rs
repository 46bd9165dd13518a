//! The OpenAPI document matches the routes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_core::budget::{Amount, BudgetSpec};

use crate::world::World;

const ROUTES: &str = "
    POST /v1/jobs · GET /v1/jobs · GET /v1/jobs/{id} · PATCH /v1/jobs/{id} · DELETE /v1/jobs/{id} ·
    POST /v1/jobs/{id}/retry · POST /v1/jobs/{id}/cancel · POST /v1/jobs/bulk ·
    GET /v1/queues · PATCH /v1/queues/{name} · GET /v1/kinds · PUT /v1/kinds/{kind} · GET /v1/workers ·
    GET /v1/schedules · GET /v1/schedules/{name} · PUT /v1/schedules/{name} · DELETE /v1/schedules/{name} ·
    POST /v1/schedules/{name}/run · POST /v1/schedules/{name}/pause · POST /v1/schedules/{name}/resume ·
    GET /v1/workflows · POST /v1/workflows · GET /v1/workflows/{id} · POST /v1/workflows/{id}/cancel ·
    POST /v1/workflows/{id}/retry ·
    GET /v1/dead-letters · GET /v1/dead-letters/{id} · DELETE /v1/dead-letters/{id} · POST /v1/dead-letters/{id}/replay ·
    GET /v1/budgets · GET /v1/budgets/{name}/history · PATCH /v1/budgets/{name}/{month} · GET /v1/audit ·
    GET /v1/cleanup · POST /v1/cleanup/{task} · GET /v1/health · GET /v1/pages ·
    GET /v1/jobs/count · POST /v1/jobs/check · GET /v1/overrides · GET /v1/backups · GET /v1/top ·
    GET /v1/stats · GET /v1/stream · GET /healthz · GET /readyz · GET /metrics · GET /openapi.json · GET /docs · GET / ·
    GET /assets/app.js · GET /assets/jobs.js · GET /assets/pages.js · GET /assets/detail.js · GET /assets/dom.js ·
    GET /assets/docs.js · GET /assets/app.css · GET /assets/icon.svg";

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = |(path, methods): (&String, &'_ Value)| -> Vec<(String, String)> {
        methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    let named: Vec<(String, String)> = paths.iter().flat_map(each).collect();
    named
        .into_iter()
        .map(|(method, path)| {
            let operation = &document["paths"][&path][method.to_lowercase()];
            (method, path, operation)
        })
        .collect()
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                found.insert(reference.clone());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_lists_exactly_what_is_served() {
    let world = World::new().await;
    let document = world.get("/openapi.json").await.is(200);
    assert_eq!(document["openapi"], "3.1.0");
    let listed: BTreeSet<String> =
        operations(&document).iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let expected: BTreeSet<String> = ROUTES.split('·').map(|route| route.trim().to_owned()).collect();
    assert_eq!(listed, expected);
    for (method, path, operation) in operations(&document) {
        // Every documented route is served: neither "no route" nor "no method".
        if !path.ends_with("/stream") {
            let place = path.replace("{id}", "1").replace("{name}", "HIGH").replace("{month}", "2026-11");
            let reply = world.send(&method, &place, &[], "").await;
            assert_ne!(reply.status, 405, "{method} {path}");
            assert!(!reply.body.contains("nothing is served at"), "{method} {path}");
        }
        // Path parameters and documented parameters are the same.
        let holes: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let empty = Vec::new();
        let parameters = operation["parameters"].as_array().unwrap_or(&empty);
        let declared: BTreeSet<&str> =
            parameters.iter().filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(holes, declared, "{method} {path}");
        assert!(operation["responses"].as_object().unwrap().len() > 1, "{method} {path} answers nothing");
    }
    let names: Vec<Value> =
        operations(&document).iter().map(|(_, _, operation)| operation["operationId"].clone()).collect();
    assert_eq!(
        names.iter().map(Value::to_string).collect::<BTreeSet<_>>().len(),
        names.len(),
        "names are unique"
    );
    world.end().await;
}

#[tokio::test]
async fn the_document_is_the_same_without_a_server() {
    let mut world = World::new().await;
    world.add_entities().await;
    let served = world.get("/openapi.json").await;
    served.is(200);
    assert!(served.body.contains("/v1/search"));
    assert_eq!(crate::world::document(), served.body);
    world.end().await;
}

#[tokio::test]
async fn every_reference_resolves_and_every_object_is_used() {
    let world = World::new().await;
    let document = world.get("/openapi.json").await.is(200);
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let known: BTreeSet<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(found, known);
    assert!(schemas.values().all(Value::is_object), "{schemas:?}");
    world.end().await;
}

/// Each problem has its status: `default` would allow anything. `null` is allowed exactly where it is read as missing.
#[tokio::test]
async fn problems_are_named_and_null_is_allowed_where_it_is_read() {
    let document: Value = serde_json::from_str(&crate::world::document()).unwrap();
    for (method, path, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap();
        assert!(!responses.contains_key("default"), "{method} {path}");
        for status in ["400", "403", "500", "503"] {
            assert!(responses.contains_key(status), "{method} {path} {status}");
        }
        assert_eq!(responses.contains_key("413"), !operation["requestBody"].is_null(), "{method} {path}");
    }
    let world = World::new().await;
    let job = &document["components"]["schemas"]["NewJob"];
    for (name, schema) in job["properties"].as_object().unwrap().iter().filter(|(name, _)| *name != "payload")
    {
        let says = schema["type"].as_array().is_some_and(|types| types.contains(&json!("null")));
        let status = world.post("/v1/jobs", json!({ "kind": "NOOP", name: null })).await.status;
        assert_eq!(status == 201, says, "{name} {schema}");
    }
    world.end().await;
}

/// A response has exactly the documented fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_match_the_document() {
    let mut world = World::new().await;
    world.work().await;
    let dead = world.dead_letter().await;
    let job = world.post("/v1/jobs", json!({ "kind": "NOOP" })).await.is(201);
    let document = world.get("/openapi.json").await.is(200);
    let fields = |name: &str| -> BTreeSet<String> {
        document["components"]["schemas"][name]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let keys = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&job), fields("EnqueuedJob"));
    let detail = world.get(&format!("/v1/jobs/{dead}")).await.is(200);
    assert_eq!(keys(&detail), fields("JobDetail"));
    assert_eq!(keys(&detail["attempts"][0]), fields("Attempt"));
    assert_eq!(keys(&world.get("/v1/jobs").await.is(200)["items"][0]), fields("Job"));
    assert_eq!(keys(&world.get("/v1/queues").await.is(200)["items"][0]), fields("Queue"));
    assert_eq!(keys(&world.get("/v1/kinds").await.is(200)["items"][0]), fields("Kind"));
    assert_eq!(keys(&world.get("/v1/workers").await.is(200)["items"][0]), fields("Worker"));
    assert_eq!(keys(&world.get("/v1/stats").await.is(200)), fields("Stats"));
    let problem = world.post("/v1/jobs", json!({})).await.refuses(422, "invalid_input");
    assert_eq!(keys(&problem), fields("Problem"));
    world.end().await;
}

/// Every example can be sent as written.
#[tokio::test]
async fn every_example_is_accepted() {
    let mut world = World::new().await;
    world.add_entities().await;
    let budget = BudgetSpec::money("ai", Amount::from_cents(50_000));
    world.client.set_budgets(&[budget]).await.unwrap();
    let job = world.enqueue(json!({ "kind": "NOOP", "delay": "1h" })).await;
    let document: Value = serde_json::from_str(&crate::world::document()).unwrap();
    let mut sent = 0;
    for (method, path, operation) in operations(&document) {
        let Some(content) = operation["requestBody"]["content"].as_object() else { continue };
        let mut path = path;
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let hole = format!("{{{}}}", parameter["name"].as_str().unwrap());
            path = path.replace(&hole, parameter["example"].as_str().unwrap_or(&job));
        }
        for (media, content) in content {
            let example = &content["example"];
            let body = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            let reply = world.send(&method, &path, &[("Content-Type", media)], &body).await;
            assert!((200..300).contains(&reply.status), "{method} {path} {body}\n{}", reply.body);
            assert!(!reply.body.contains("\"refused\":1"), "{}", reply.body);
            sent += 1;
        }
    }
    assert!(sent >= 10, "{sent}");
    world.end().await;
}
