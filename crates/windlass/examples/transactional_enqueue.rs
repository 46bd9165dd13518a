//! An order and its confirmation mail in one transaction: both exist, or neither does.
//!
//! `cargo run -p windlass --example transactional_enqueue [DATABASE_URL]`

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Job, JobError, Waited, Windlass};

#[derive(Serialize, Deserialize)]
struct ConfirmOrder {
    order: i64,
}

impl Job for ConfirmOrder {
    const KIND: &'static str = "CONFIRM_ORDER";
    const QUEUE: &'static str = "HIGH";
}

async fn confirm(context: Context, job: ConfirmOrder) -> Result<(), JobError> {
    context.log(format!("mail for order {} sent", job.order));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = std::env::args().nth(1).unwrap_or_else(|| "sqlite://windlass-data/example.db".to_owned());
    let windlass = Windlass::builder().database(database).job(confirm).migrate().build().await?;
    let workers = windlass.start().await?;

    let mut tx = windlass.begin().await?;
    let table = "create table if not exists orders (id bigint primary key)";
    let insert = "insert into orders (id) select coalesce(max(id), 0) + 1 from orders returning id";
    let order: i64 = if let Some(postgres) = tx.postgres() {
        sqlx::query(table).execute(&mut *postgres).await?;
        sqlx::query_scalar(insert).fetch_one(postgres).await?
    } else if let Some(sqlite) = tx.sqlite() {
        sqlx::query(table).execute(&mut *sqlite).await?;
        sqlx::query_scalar(insert).fetch_one(sqlite).await?
    } else {
        return Err("a transaction is on one of the two databases".into());
    };
    let job = windlass.enqueue_in(&mut tx, ConfirmOrder { order }).await?;
    tx.commit().await?;

    if let Waited::Finished(done) = windlass.wait(job.id, Duration::from_secs(10)).await? {
        println!("order {order}: job {} is {}", done.id, done.state);
    }
    workers.shutdown().await?;
    Ok(())
}
