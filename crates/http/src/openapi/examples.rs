//! A body that works as it stands for every operation that takes one, and the names that go into its path.
//!
//! Owns nothing but these texts; a test sends each of them to a server. Apart from the routes, so that one look shows whether
//! they tell one story.

use serde_json::{Value, json};

/// For an operation by its name; lines of JSON are text.
pub(super) fn body(operation: &str) -> Option<Value> {
    Some(match operation {
        "enqueue_jobs" => {
            json!({ "kind": "SLEEP", "payload": { "ms": 500 }, "delay": "10s", "tags": ["try"] })
        }
        "change_job" => json!({ "priority": 0 }),
        "act_on_jobs" => json!({ "action": "retry", "filter": { "state": ["dead_letter"], "kind": "FAIL" } }),
        "change_queue" => json!({ "paused": true }),
        "put_kind" => json!({ "rate": "500/s" }),
        "create_entity" => json!({ "title": "Tea towel", "text": "Dries cups and hands", "price": 7 }),
        "put_entity" => json!({ "title": "Copper kettle", "text": "Boils water on any stove", "price": 40 }),
        "patch_entity" => json!({ "price": 30 }),
        "save_entities" => json!(
            "{\"id\": \"mug\", \"title\": \"Clay mug\", \"price\": 12}\n{\"id\": \"tray\", \"title\": \"Oak tray\", \"price\": 25}"
        ),
        "change_budget" => json!({ "limit": "750.00" }),
        "put_schedule" => json!({ "kind": "NOOP", "cron": "30 2 * * *", "zone": "Europe/Berlin" }),
        "start_workflow" => json!({
            "name": "order",
            "jobs": [
                { "name": "reserve", "kind": "NOOP" },
                { "name": "charge", "kind": "NOOP", "payload": { "cents": 1250 } },
                { "name": "ship", "kind": "NOOP", "after": ["reserve", "charge"] },
            ],
        }),
        "put_type" => {
            json!({ "text": ["name", { "name": "description", "weight": 2 }], "on_delete": "sync" })
        }
        "search" => json!({
            "type": "document",
            "query": "something to make tea with",
            "filter": { "any": [{ "price": { "gte": 10, "lt": 50 } }, { "maker.country": { "in": ["Japan", "India"] } }] },
            "facets": ["price"],
            "limit": 5,
        }),
        _ => return None,
    })
}

/// For a hole in an operation's path; an id of ours is nobody's to guess.
pub(super) fn parameter(operation: &str, name: &str) -> Option<&'static str> {
    match (operation, name) {
        ("put_type" | "get_type", "type") => Some("product"),
        (_, "type") => Some("document"),
        ("change_queue", "name") => Some("LOW"),
        ("put_kind", "kind") => Some("NOOP"),
        ("change_budget" | "budget_history", "name") => Some("ai"),
        ("change_budget", "month") => Some("2099-12"),
        (operation, "name") if operation.contains("schedule") => Some("nightly"),
        (operation, "id") if operation.contains("entity") || operation == "get_similar" => Some("kettle"),
        _ => None,
    }
}
