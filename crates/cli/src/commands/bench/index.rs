//! `bench index`: how fast entities are accepted, how fast they become searchable, and how long one write takes until
//! then.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::mpsc::{Receiver, channel};
use windlass::parts::families;
use windlass_core::Store;
use windlass_core::entity::{Change, Strategy};
use windlass_engine::{Client, EngineError, Handlers, Worker, WorkerHandle, WorkerOptions};
use windlass_index::embed::StaticTable;
use windlass_index::{Entities, EntityError, Indexing, Mode, SaveRequest, SearchRequest, service};

use super::queue::BenchError;
use super::steady::{self, Steady};
use super::texts::Texts;
use super::{percentile, rss_mb};
use crate::output::Output;
use crate::output::progress::Progress;

const CHUNK: u64 = 1_000;
const SINGLES: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Serialize)]
pub(crate) struct IndexReport {
    docs: u64,
    accepted_per_s: f64,
    searchable_per_s: f64,
    write_to_searchable_p50_ms: f64,
    write_to_searchable_p95_ms: f64,
    rss_mb: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    steady: Option<Steady>,
}

/// Entities in a scratch store, with or without a worker.
pub(super) struct Desk {
    pub(super) entities: Entities,
    client: Client,
    handlers: Handlers,
}

impl Desk {
    pub(super) async fn open(store: Arc<dyn Store>) -> Result<Desk, BenchError> {
        let table = StaticTable::load().map_err(EntityError::from)?;
        let indexing = Indexing::new(Arc::new(table));
        let mut handlers = Handlers::default();
        indexing.add_to(&mut handlers);
        let mut queues = families();
        queues.extend(service::queues());
        let client = Client::open(store, &queues, &handlers.specs()).await?;
        let entities = Entities::open(client.clone(), &indexing, &[]).await?;
        Ok(Desk { entities, client, handlers })
    }

    pub(super) async fn work(&self) -> Result<WorkerHandle, EngineError> {
        let entities = self.entities.clone();
        tokio::spawn(async move {
            let mut patience = Duration::from_secs(1);
            loop {
                patience = entities.look(patience).await;
                entities.nudged(patience).await;
            }
        });
        Worker::start(self.client.clone(), &self.handlers, WorkerOptions::default()).await
    }

    /// Loads entities in bulk and waits until all are indexed. Returns when the last one was accepted.
    pub(super) async fn load(&self, docs: Range<u64>, output: Output) -> Result<Duration, BenchError> {
        let begun = Instant::now();
        let mut progress = Progress::new(output, "entities", docs.end - docs.start);
        let mut done = 0;
        let mut chunks = chunks(docs.clone());
        while let Some(writes) = chunks.recv().await {
            done += writes.len() as u64;
            for saved in self.entities.save_many(writes).await? {
                saved?;
            }
            progress.set(done);
        }
        progress.finish(docs.end - docs.start);
        let took = begun.elapsed();
        while self.entities.stats().await?.pending > 0 {
            if begun.elapsed() > PATIENCE {
                return Err(BenchError::Failed("entities stay pending".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(took)
    }
}

/// The next chunk is built while one is saved, as by a sending client.
fn chunks(docs: Range<u64>) -> Receiver<Vec<SaveRequest>> {
    let (made, chunks) = channel(1);
    tokio::task::spawn_blocking(move || {
        let mut texts = Texts::new(1 + docs.start);
        let mut next = docs.start;
        while next < docs.end {
            let end = docs.end.min(next + CHUNK);
            let write = |n: u64| SaveRequest {
                strategy: Some(Strategy::Batch),
                ..SaveRequest::new("document", &format!("d{n}"), Change::Put(texts.document(n)))
            };
            if made.blocking_send((next..end).map(write).collect()).is_err() {
                return;
            }
            next = end;
        }
    });
    chunks
}

pub(crate) async fn run(
    store: Arc<dyn Store>,
    docs: u64,
    rate: Option<u32>,
    output: Output,
) -> Result<IndexReport, BenchError> {
    let desk = Desk::open(store).await?;
    let worker = desk.work().await?;
    let begun = Instant::now();
    let accepted = desk.load(0..docs, output).await?;
    let searchable = begun.elapsed();
    let mut took = Vec::new();
    for n in 0..SINGLES {
        took.push(write_to_searchable(&desk.entities, n).await?);
    }
    let rss_mb = rss_mb();
    let steady = match rate {
        Some(rate) => Some(steady::run(&desk.entities, docs, rate).await?),
        None => None,
    };
    worker.shutdown().await?;
    took.sort_by(f64::total_cmp);
    Ok(IndexReport {
        docs,
        accepted_per_s: (docs as f64 / accepted.as_secs_f64()).round(),
        searchable_per_s: (docs as f64 / searchable.as_secs_f64()).round(),
        write_to_searchable_p50_ms: percentile(&took, 0.50),
        write_to_searchable_p95_ms: percentile(&took, 0.95),
        rss_mb,
        steady,
    })
}

/// From the call until a search by meaning finds this content.
async fn write_to_searchable(entities: &Entities, n: u64) -> Result<f64, BenchError> {
    let fields = Texts::new(1_000_000 + n).document(n);
    let query = fields.get("text").and_then(|text| text.as_str()).unwrap_or_default().to_owned();
    let id = format!("single{n}");
    let begun = Instant::now();
    entities.save(SaveRequest::new("document", &id, Change::Put(fields))).await?;
    loop {
        let request =
            SearchRequest { mode: Mode::Vector, limit: 1, ..SearchRequest::new("document", &query) };
        let answer = entities.search(request).await?;
        if answer.hits.first().is_some_and(|hit| hit.id == id && !hit.stale) {
            return Ok(begun.elapsed().as_secs_f64() * 1e3);
        }
        if begun.elapsed() > PATIENCE {
            return Err(BenchError::Failed(format!("{id} does not become searchable")));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
