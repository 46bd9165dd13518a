//! What operators did, newest first, in pages.

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
        let said = |act: &Value| json!([act["actor"], act["act"], act["subject"], act["before"], act["after"]]);
        assert_eq!(first["items"].as_array().unwrap().len(), 2);
        assert_eq!(
            said(&first["items"][0]),
            json!(["http", "kind.change", "kind/NOOP", { "rate": null }, { "rate": "5/s" }])
        );
        assert_eq!(
            said(&first["items"][1]),
            json!(["http", "queue.change", "queue/LOW", { "paused": false, "depth_cap": null }, { "paused": true, "depth_cap": 9 }])
        );
        let rest = format!("/v1/audit?cursor={}", first["next_cursor"].as_str().unwrap());
        let rest = world.get(&rest).await.is(200);
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
        assert_eq!(
            said(&rest["items"][0]),
            json!(["http", "budget.change", "budget/ai/2999-12", { "limit": "500.00" }, { "limit": "750.00" }])
        );
        assert!(rest["items"][0]["at"].as_str().unwrap().ends_with('Z'));
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
