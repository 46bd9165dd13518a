//! Runs one phase of the comparison against apalis and prints its figures as one JSON object.
//! Usage: `bench-apalis postgres|sqlite setup|enqueue|drain|pickup [COUNT]`, database in `DATABASE_URL`.

mod measure;
mod postgres;
mod sqlite;

use apalis::prelude::{BoxDynError, Data};
use measure::{Failure, Payload, Probe};

const QUEUE: &str = "noop";
const FETCH: usize = 500;
const BATCH: usize = 1000;

async fn noop(_: Payload, probe: Data<Probe>) -> Result<(), BoxDynError> {
    probe.hit();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let url = std::env::var("DATABASE_URL")?;
    let store = args.first().map(String::as_str).unwrap_or_default();
    let phase = args.get(1).map(String::as_str).unwrap_or_default();
    let count: u64 = args.get(2).map_or(Ok(0), |text| text.parse())?;

    let result = match (store, phase) {
        ("postgres", "setup") => postgres::setup(&url).await,
        ("postgres", "enqueue") => postgres::enqueue(&url, count).await,
        ("postgres", "drain") => postgres::drain(&url, count).await,
        ("postgres", "pickup") => postgres::pickup(&url, count as usize).await,
        ("sqlite", "setup") => sqlite::setup(&url).await,
        ("sqlite", "enqueue") => sqlite::enqueue(&url, count).await,
        ("sqlite", "drain") => sqlite::drain(&url, count).await,
        ("sqlite", "pickup") => sqlite::pickup(&url, count as usize).await,
        _ => Err(format!("unknown phase: {store} {phase}").into()),
    }?;
    println!("{result}");
    Ok(())
}
