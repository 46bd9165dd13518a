//! Fan-out and fan-in: three jobs count words in parallel, and a last job adds up their results.
//!
//! `cargo run -p windlass --example workflow`

use serde::{Deserialize, Serialize};
use windlass::{Completion, Context, HandlerResult, Job, Windlass, Workflow};

#[derive(Serialize, Deserialize)]
struct CountWords {
    text: String,
}

impl Job for CountWords {
    const KIND: &'static str = "COUNT_WORDS";
}

#[derive(Serialize, Deserialize)]
struct AddUp {}

impl Job for AddUp {
    const KIND: &'static str = "ADD_UP";
}

async fn count_words(_: Context, job: CountWords) -> HandlerResult {
    Completion::with(&job.text.split_whitespace().count())
}

async fn add_up(context: Context, _: AddUp) -> HandlerResult {
    let parts = context.parent_results().await?;
    let sum: u64 = parts.values().filter_map(|count| count.as_u64()).sum();
    println!("{} parts, {sum} words", parts.len());
    Completion::with(&sum)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let windlass = Windlass::builder()
        .database("sqlite://windlass-data/example.db")
        .job(count_words)
        .job(add_up)
        .build()
        .await?;
    let part = |text: &str| CountWords { text: text.to_owned() };
    let workflow = Workflow::new("words")
        .add("one", part("what was accepted"))
        .add("two", part("is never lost"))
        .add("three", part("and never early"))
        .add("sum", AddUp {}.after(["one", "two", "three"]));
    let started = windlass.enqueue_workflow(workflow).await?;
    windlass.drain().await?;
    if let Some(detail) = windlass.workflow(started.id).await? {
        println!("the workflow is {}", detail.workflow.state);
    }
    Ok(())
}
