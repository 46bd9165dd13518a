//! Unusual but valid, and common but invalid requests about entities.

use serde_json::json;

use crate::on_both;
use crate::world::World;

on_both! {
    async fn an_entity_may_have_the_name_of_a_route(world: World) {
        world.add_entities().await;
        let path = "/v1/entities/document/bulk";
        world.with_body("PUT", path, json!({ "text": "of many" })).await.is(202);
        assert_eq!(world.get(path).await.is(200)["fields"]["text"], "of many");
        world.with_body("PATCH", path, json!({ "price": 1 })).await.is(202);
        world.send("DELETE", path, &[], "").await.is(200);
        world.get(path).await.refuses(404, "not_found");
        let lines = [("Content-Type", "application/x-ndjson")];
        assert_eq!(world.send("POST", path, &lines, "{\"id\":\"bulk\"}\n").await.is(200)["accepted"], 1);
    }

    async fn a_write_can_require_that_the_entity_does_not_exist(world: World) {
        world.add_entities().await;
        let path = "/v1/entities/document/a";
        let headers = [("Content-Type", "application/json"), ("If-None-Match", "*")];
        let first = world.send("PUT", path, &headers, r#"{"text":"one"}"#).await;
        first.is(202);
        assert_eq!(first.header("etag"), Some("\"1\""));
        world.send("PUT", path, &headers, r#"{"text":"two"}"#).await.refuses(412, "exists");
        let headers = [("Content-Type", "application/json"), ("If-None-Match", "\"3\"")];
        world.send("PUT", path, &headers, r#"{"text":"two"}"#).await.refuses(400, "invalid_parameter");
        assert_eq!(world.get(path).await.is(200)["version"], 1);
    }

    async fn a_nul_is_refused_everywhere(world: World) {
        world.add_entities().await;
        for path in ["/v1/entities/document/x%00y/history", "/v1/jobs?tag=%00", "/v1/jobs?entity=a:%00"] {
            world.get(path).await.refuses(400, "invalid_parameter");
        }
        let refused = world.with_body("PUT", "/v1/types/odd", json!({ "text": ["a\u{0}"] })).await;
        refused.refuses(422, "invalid_input");
    }

    async fn the_id_comes_from_the_path(world: World) {
        world.add_entities().await;
        let path = "/v1/entities/document/a";
        world.with_body("PUT", path, json!({ "id": "b", "text": "x" })).await.refuses(422, "invalid_input");
        world.with_body("PUT", path, json!({ "id": "a", "text": "x" })).await.is(202);
        assert_eq!(world.get(path).await.is(200)["fields"], json!({ "text": "x" }));
    }

    async fn an_invalid_search_is_refused_with_the_field_names_of_the_request(world: World) {
        world.add_entities().await;
        for (body, field, rule) in [
            (json!({ "query": "x", "limit": -3 }), "limit", "must not be negative, not -3"),
            (json!({ "query": "x", "mode": "foo" }), "mode", "must be hybrid, vector or keyword"),
            (json!({ "query": 5 }), "query", "must be text, not a number"),
            (json!({ "query": "  " }), "query", "must not be empty"),
            (json!({ "query": "x", "filter": { "not": [] } }), "filter.not", "must be a filter"),
            (json!({ "query": "x", "filter": { "any": {} } }), "filter.any", "must be a list"),
        ] {
            let refused = world.with_body("POST", "/v1/search", body).await;
            refused.refuses(422, "invalid_input");
            refused.names(&[(field, rule)]);
            assert!(!refused.body.contains("written"), "{}", refused.body);
        }
    }

    async fn totals_are_exact_if_everything_was_scanned(world: World) {
        world.add_entities().await;
        world.work().await;
        let none = world.with_body("POST", "/v1/search", json!({ "query": "kettle" })).await.is(200);
        assert_eq!((&none["total"], &none["total_relation"]), (&json!(0), &json!("eq")));
        for id in ["a", "b"] {
            let path = format!("/v1/entities/document/{id}?strategy=sync");
            world.with_body("PUT", &path, json!({ "text": "a copper kettle" })).await.is(201);
        }
        for mode in ["hybrid", "vector", "keyword"] {
            let body = json!({ "query": "kettle", "mode": mode });
            let found = world.with_body("POST", "/v1/search", body).await.is(200);
            assert_eq!((&found["total"], &found["total_relation"]), (&json!(2), &json!("eq")), "{mode}");
        }
    }

    async fn similarity_search_needs_a_vector(world: World) {
        world.add_entities().await;
        world.with_body("PUT", "/v1/entities/document/a", json!({ "text": "x" })).await.is(202);
        world.get("/v1/entities/document/a/similar").await.refuses(409, "not_indexed");
    }
}
