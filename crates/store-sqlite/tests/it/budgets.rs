//! The view `ai_usage_tracking`.

use windlass_core::budget::{Amount, BudgetSpec, Estimate, Usage};
use windlass_core::store::{Ask, BudgetStore, Charged, Reserved};
use windlass_core::{LeasedJob, Store};

use crate::setup::{Setup, ask, worker};

async fn spend(setup: &Setup, job: &LeasedJob, budget: &str, amount: Amount) {
    let estimate = Estimate { amount, ..Estimate::default() };
    let asked = Ask { budget: budget.to_owned(), job: job.id, token: job.token, estimate };
    let Reserved::Granted(grant) = setup.store.reserve(&asked).await.unwrap() else { panic!("refused") };
    let provider = Some("anthropic".to_owned());
    let usage = Usage { amount, tokens_in: 1_000, tokens_out: 200, provider, model: None };
    let charged = setup.store.settle_reservation(grant.id, job.token, &usage).await.unwrap();
    assert!(matches!(charged, Charged::Booked(_)));
}

#[tokio::test]
async fn the_usage_view_shows_the_budget_ai() {
    let setup = Setup::new().await;
    let specs =
        [BudgetSpec::money("ai", Amount::from_cents(50_000)), BudgetSpec::money("else", Amount::MOST)];
    setup.store.sync_budgets(&specs).await.unwrap();
    setup.put().await;
    let worker = worker(&setup.store, setup.queue).await;
    let job = setup.store.claim(&ask(worker, setup.queue, setup.kind, 1)).await.unwrap().remove(0);
    for _ in 0..3 {
        spend(&setup, &job, "ai", Amount(6_000)).await;
    }
    spend(&setup, &job, "else", Amount::from_cents(1)).await;
    // Differs from Postgres in the prefix, which separates it from the application's tables, and in the type of
    // dates.
    let connection = rusqlite::Connection::open(setup.path()).unwrap();
    let row: (String, i64, i64, i64, i64, i64, String) = connection
        .query_row(
            "select provider, total_requests, total_tokens_input, total_tokens_output, estimated_cost_cents,
                    budget_limit_cents, updated_at
             from windlass_ai_usage_tracking
             where month = date('now', 'start of month') and provider = 'anthropic'",
            [],
            |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                    row.get(6)?,
                ))
            },
        )
        .unwrap();
    assert_eq!((row.0.as_str(), row.1, row.2, row.3, row.4, row.5), ("anthropic", 3, 3_000, 600, 2, 50_000));
    assert!(row.6.ends_with('Z'), "{}", row.6);
    let count = "select count(*) from windlass_ai_usage_tracking";
    assert_eq!(
        connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(),
        1,
        "only the budget `ai` is shown"
    );
}
