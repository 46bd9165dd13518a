//! Many jobs per handler call, as for an embedding model or a bulk API.
//!
//! `cargo run -p windlass --example batches`

use serde::{Deserialize, Serialize};
use windlass::{Completion, Context, HandlerResult, Job, Windlass};

#[derive(Serialize, Deserialize)]
struct Embed {
    text: String,
}

impl Job for Embed {
    const KIND: &'static str = "EMBED";
    const QUEUE: &'static str = "BULK";
}

async fn embed(jobs: Vec<(Context, Embed)>) -> Vec<HandlerResult> {
    println!("one call for {} texts", jobs.len());
    jobs.iter().map(|(_, job)| Completion::with(&job.text.len())).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = "sqlite://windlass-data/example.db";
    let windlass = Windlass::builder().database(database).batch_job(32, embed).build().await?;
    windlass.enqueue_many((0..100).map(|n| Embed { text: format!("text number {n}") })).await?;
    let workers = windlass.start().await?;
    while !windlass.enqueued::<Embed>().await?.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    workers.shutdown().await?;
    Ok(())
}
