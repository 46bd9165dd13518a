//! The view `ai_usage_tracking`.

use sqlx::{AssertSqlSafe, Row};
use windlass_core::LeasedJob;
use windlass_core::budget::{Amount, BudgetSpec, Estimate, Usage};
use windlass_core::store::{Ask, BudgetStore, Charged, Reserved};

use crate::place::Place;

async fn spend(place: &Place, job: &LeasedJob, budget: &str, amount: Amount) {
    let estimate = Estimate { amount, ..Estimate::default() };
    let asked = Ask { budget: budget.to_owned(), job: job.id, token: job.token, estimate };
    let Reserved::Granted(grant) = place.store.reserve(&asked).await.unwrap() else { panic!("refused") };
    let provider = Some("anthropic".to_owned());
    let usage = Usage { amount, tokens_in: 1_000, tokens_out: 200, provider, model: None };
    let charged = place.store.settle_reservation(grant.id, job.token, &usage).await.unwrap();
    assert!(matches!(charged, Charged::Booked(_)));
}

#[tokio::test]
async fn the_usage_view_shows_the_budget_ai() {
    let place = Place::new().await;
    let specs =
        [BudgetSpec::money("ai", Amount::from_cents(50_000)), BudgetSpec::money("else", Amount::MOST)];
    place.store.sync_budgets(&specs).await.unwrap();
    place.put(1).await;
    let job = place.lease(place.worker().await, 1).await.remove(0);
    for _ in 0..3 {
        spend(&place, &job, "ai", Amount(6_000)).await;
    }
    spend(&place, &job, "else", Amount::from_cents(1)).await;
    let mut conn = place.pool.acquire().await.unwrap();
    let path = format!("set search_path = {}; set timezone = 'UTC'", place.schema);
    sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut *conn).await.unwrap();
    let row = sqlx::query(
        "SELECT provider, total_requests, total_tokens_input, total_tokens_output, estimated_cost_cents,
                budget_limit_cents, updated_at <= NOW() AS dated
         FROM ai_usage_tracking
         WHERE month = DATE_TRUNC('month', CURRENT_DATE)
           AND provider = 'anthropic'",
    )
    .fetch_one(&mut *conn)
    .await
    .unwrap();
    let figures: Vec<i64> = (1..6).map(|column| row.get(column)).collect();
    assert_eq!(figures, [3, 3_000, 600, 2, 50_000]);
    assert!(row.get::<bool, _>("dated"));
    drop(conn);
    assert_eq!(
        place.number("select count(*) from windlass.ai_usage_tracking").await,
        1,
        "only the budget `ai` is shown"
    );
    place.end().await;
}
