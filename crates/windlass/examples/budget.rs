//! Provider calls within a monthly budget: each call reserves its cost first, and calls over the limit wait.
//!
//! `cargo run -p windlass --example budget`

use serde::{Deserialize, Serialize};
use windlass::{Amount, BudgetSpec, Context, Estimate, Job, JobError, Usage, Windlass};

#[derive(Serialize, Deserialize)]
struct TagArticle {
    article: u64,
}

impl Job for TagArticle {
    const KIND: &'static str = "TAG_ARTICLE";
    const QUEUE: &'static str = "BULK";
}

async fn tag_article(context: Context, job: TagArticle) -> Result<(), JobError> {
    let estimate = Estimate { amount: Amount(10_000), tokens: 2_000, ..Estimate::default() };
    // If the budget refuses, the job is retried in the next hour or month without counting an attempt.
    let reservation = context.reserve("ai", estimate).await?;
    let usage = ask_the_provider(job.article, &reservation.id().to_string()).await;
    reservation.settle(usage).await?;
    Ok(())
}

/// Stands in for a provider call: 0.6 cents for 1200 tokens.
async fn ask_the_provider(_article: u64, _idempotency_key: &str) -> Usage {
    let provider = Some("anthropic".to_owned());
    Usage { amount: Amount(6_000), tokens_in: 1_000, tokens_out: 200, provider, model: None }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::builder()
        .database("sqlite://windlass-data/example.db")
        .budget(BudgetSpec::money("ai", "0.10".parse()?))
        .job(tag_article)
        .build()
        .await?;
    windlass.enqueue_many((0..20).map(|article| TagArticle { article })).await?;
    let drained = windlass.drain().await?;
    let Some(budget) = windlass.client().budget("ai").await? else { return Ok(()) };
    println!(
        "{} calls, {} {} used, state {}; {} jobs wait",
        drained.completed,
        budget.figures,
        budget.spec.currency,
        budget.state(),
        drained.returned
    );
    Ok(())
}
