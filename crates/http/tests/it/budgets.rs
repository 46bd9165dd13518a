//! Budgets: shown, changed live and exported as metrics, equal to the database.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::LeasedJob;
use windlass_core::budget::{Amount, BudgetSpec, Estimate, Usage};
use windlass_core::store::{Ask, AuditFilter, Charged, Claim, Reserved, WorkerInfo};

use crate::on_both;
use crate::world::World;

async fn with_budgets(world: &World) {
    let words = BudgetSpec { tokens: Some(1_000), currency: "EUR".to_owned(), ..BudgetSpec::named("words") };
    world.client.set_budgets(&[BudgetSpec::money("ai", Amount::from_cents(50_000)), words]).await.unwrap();
}

/// A leased job of user 42.
async fn leased(world: &World) -> LeasedJob {
    world.enqueue(json!({ "kind": "NOOP", "tags": ["user:42"] })).await;
    let store = world.client.store();
    let kind = world.client.catalog().kind_named("NOOP").unwrap().clone();
    let info =
        WorkerInfo { label: "here".to_owned(), queues: vec![kind.queue], lease: Duration::from_secs(600) };
    let worker = store.register_worker(&info).await.unwrap();
    let claim = Claim {
        worker,
        queue: kind.queue,
        kinds: vec![kind.id],
        limit: 1,
        level: windlass_core::sweep::Level::Ordinary,
    };
    store.claim(&claim).await.unwrap().remove(0)
}

async fn reserve(
    world: &World,
    job: &LeasedJob,
    budget: &str,
    amount: Amount,
) -> windlass_core::ReservationId {
    let estimate = Estimate { amount, tokens: 500, ..Estimate::default() };
    let ask = Ask { budget: budget.to_owned(), job: job.id, token: job.token, estimate };
    match world.client.store().reserve(&ask).await.unwrap() {
        Reserved::Granted(grant) => grant.id,
        other => panic!("{other:?}"),
    }
}

async fn spend(world: &World, job: &LeasedJob, budget: &str, amount: Amount) {
    let id = reserve(world, job, budget, amount).await;
    let provider = Some("anthropic".to_owned());
    let usage = Usage { amount, tokens_in: 300, tokens_out: 100, provider, model: None };
    let charged = world.client.store().settle_reservation(id, job.token, &usage).await.unwrap();
    assert!(matches!(charged, Charged::Booked(_)), "{charged:?}");
}

async fn month(world: &World) -> String {
    world.client.store().budgets().await.unwrap()[0].figures.month.to_string()
}

on_both! {
    async fn a_budget_shows_the_figures_of_the_database(world: World) {
        assert_eq!(world.get("/v1/budgets").await.is(200), json!({ "items": [], "next_cursor": null }));
        with_budgets(world).await;
        let job = leased(world).await;
        spend(world, &job, "ai", Amount(380_006_000)).await;
        reserve(world, &job, "ai", Amount::from_cents(100)).await;
        let answer = world.get("/v1/budgets").await.is(200);
        let (ai, words) = (&answer["items"][0], &answer["items"][1]);
        let figures = |budget: &Value| {
            let keys = ["name", "currency", "state", "limit", "limit_cents", "used", "used_cents", "settled", "reserved"];
            keys.map(|key| budget[key].clone())
        };
        assert_eq!(
            json!(figures(ai)),
            json!(["ai", "USD", "REDUCE", "500.00", 50_000, "381.006", 38_101, "380.006", "1.00"])
        );
        assert!((ai["percent_used"].as_f64().unwrap() - 76.2012).abs() < 1e-9, "{ai}");
        let tokens = ["tokens_limit", "tokens_used", "tokens_settled", "tokens_reserved"].map(|key| ai[key].clone());
        assert_eq!(json!(tokens), json!([null, 900, 400, 500]));
        let sizes = ["batch_size", "manual_batch_size", "limits_are_live", "month"].map(|key| ai[key].clone());
        assert_eq!(json!(sizes), json!([10, 10, false, month(world).await]));
        assert_eq!((&ai["alerts"][0]["percent"], &ai["alerts"][0]["level"]), (&json!(75), &json!("INFO")));
        assert_eq!(ai["alerts"].as_array().unwrap().len(), 1);
        assert_eq!(ai["thresholds"].as_array().unwrap().len(), 4);
        let cost = |key: &str| json!([{
            "key": key, "requests": 1, "tokens_in": 300, "tokens_out": 100, "amount": "380.006", "amount_cents": 38_001
        }]);
        let costs = json!({ "by_kind": cost("NOOP"), "by_user": cost("42"), "by_provider": cost("anthropic") });
        assert_eq!(ai["costs"], costs);
        assert_eq!((&words["limit"], &words["tokens_limit"], &words["state"]), (&Value::Null, &json!(1_000), &json!("NORMAL")));
        let history = world.get("/v1/budgets/ai/history?months=12").await.is(200);
        assert_eq!(history["items"].as_array().unwrap().len(), 1);
        assert_eq!(history["items"][0]["used"], "381.006");
        let document = world.get("/openapi.json").await.is(200);
        let promised = document["components"]["schemas"]["Budget"]["properties"].as_object().unwrap();
        let shown = ai.as_object().unwrap();
        assert!(promised.keys().all(|key| shown.contains_key(key)) && promised.len() == shown.len());
    }

    async fn limits_are_changed_live(world: World) {
        with_budgets(world).await;
        let job = leased(world).await;
        spend(world, &job, "ai", Amount::from_cents(40_000)).await;
        let path = format!("/v1/budgets/ai/{}", month(world).await);
        let after = world.with_body("PATCH", &path, json!({ "limit": 750, "tokens": 4_000 })).await.is(200);
        assert_eq!((&after["limit"], &after["tokens_limit"], &after["state"]), (&json!("750.00"), &json!(4_000), &json!("NORMAL")));
        let after = world.with_body("PATCH", &path, json!({ "limit": "400.006", "reset": false })).await.is(200);
        assert_eq!((&after["limit"], &after["state"]), (&json!("400.006"), &json!("QUEUE")));
        assert_eq!(world.get("/v1/budgets").await.is(200)["items"][0]["limits_are_live"], true);
        let after = world.with_body("PATCH", &path, json!({ "reset": true })).await.is(200);
        assert_eq!((&after["used"], &after["state"]), (&json!("0.00"), &json!("NORMAL")));
        assert_eq!(after["name"], "ai");
        let after = world.with_body("PATCH", &path, json!({ "limit": null })).await.is(200);
        assert_eq!((&after["limit"], &after["tokens_limit"]), (&Value::Null, &json!(4_000)));
        let reply = world.with_body("PATCH", &path, json!({ "tokens": null })).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[("limit", "or tokens has to stay: a budget bounds something")]);
        let back = json!({ "limit": "configured", "tokens": null });
        let after = world.with_body("PATCH", &path, back).await.is(200);
        assert_eq!((&after["limit"], &after["tokens_limit"]), (&json!("500.00"), &Value::Null));
        let acts = world.client.store().audit(&AuditFilter::newest(10)).await.unwrap();
        assert_eq!(acts.len(), 5);
        assert!(acts.iter().all(|act| act.actor == "http" && act.subject.starts_with("budget/ai/")));
    }

    async fn metrics_equal_the_figures_of_the_database(world: World) {
        assert!(!world.get("/metrics").await.body.contains("ai_budget_percent_used"), "no budget, no figure");
        with_budgets(world).await;
        let job = leased(world).await;
        spend(world, &job, "ai", Amount(450_006_000)).await;
        spend(world, &job, "words", Amount::from_cents(5)).await;
        let body = world.get("/metrics").await.body;
        for line in [
            "job_budget_consumed_dollars{application=\"windlass\",job_type=\"NOOP\"} 450.006",
            "ai_budget_percent_used{application=\"windlass\"} 90.0012",
            "windlass_budget_percent_used{application=\"windlass\",budget=\"words\"} 40",
            "windlass_budget_state{application=\"windlass\",budget=\"ai\",state=\"QUEUE\"} 1",
            "windlass_budget_state{application=\"windlass\",budget=\"ai\",state=\"NORMAL\"} 0",
            "windlass_budget_alerts{application=\"windlass\",budget=\"ai\",level=\"WARNING\"} 2",
            "windlass_budget_alerts{application=\"windlass\",budget=\"words\",level=\"WARNING\"} 0",
            "windlass_budget_limit_units{application=\"windlass\",budget=\"ai\"} 500",
            "windlass_budget_used_tokens{application=\"windlass\",budget=\"words\"} 400",
        ] {
            assert!(body.lines().any(|found| found == line), "{line} is missing in\n{body}");
        }
    }
}

#[tokio::test]
async fn a_wrong_change_of_a_budget_is_refused() {
    let world = World::new().await;
    with_budgets(&world).await;
    let path = format!("/v1/budgets/ai/{}", month(&world).await);
    for (body, field, rule) in [
        (json!({}), "body", "must change something: limit, tokens or reset"),
        (json!({ "reset": false }), "body", "must change something"),
        (json!({ "limit": -1 }), "limit", "it is negative"),
        (json!({ "limit": "lots" }), "limit", "is not an amount"),
        (json!({ "limit": 1e300 }), "limit", "is not an amount"),
        (json!({ "limit": 0.0000001 }), "limit", "is not an amount"),
        (json!({ "limit": [1] }), "limit", "must be an amount"),
        (json!({ "tokens": -1 }), "tokens", "must not be negative"),
        (json!({ "tokens": i64::MAX }), "tokens", "must be at most"),
        (json!({ "reset": "yes" }), "reset", "true or false"),
        (json!({ "cap": 1 }), "cap", "is not a field here; known: limit, tokens, reset"),
    ] {
        let reply = world.with_body("PATCH", &path, body).await;
        reply.refuses(422, "invalid_input");
        reply.names(&[(field, rule)]);
    }
    let limit = json!({ "limit": 1 });
    for month in ["now", "2026-13", "11-2026"] {
        let reply = world.with_body("PATCH", &format!("/v1/budgets/ai/{month}"), limit.clone()).await;
        reply.refuses(400, "invalid_parameter");
    }
    world.with_body("PATCH", "/v1/budgets/ai/2001-01", limit.clone()).await.refuses(409, "month_over");
    world.with_body("PATCH", &path.replace("/ai/", "/nope/"), limit).await.refuses(404, "not_found");
    world.get("/v1/budgets/nope/history").await.refuses(404, "not_found");
    world.get("/v1/budgets/a%00b/history").await.refuses(400, "invalid_parameter");
    for months in ["0", "121", "x"] {
        world.get(&format!("/v1/budgets/ai/history?months={months}")).await.refuses(400, "invalid_parameter");
    }
    assert!(
        world.client.store().audit(&AuditFilter::newest(10)).await.unwrap().is_empty(),
        "nothing was changed"
    );
    world.end().await;
}
