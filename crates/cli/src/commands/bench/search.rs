//! `bench search`: how long a hybrid search takes over many entities, and how soon after a start it is possible.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use windlass_core::Store;
use windlass_index::embed::{Embedder, StaticTable};
use windlass_index::vector::Vector;
use windlass_index::{EntityError, Mode, SearchRequest};

use super::index::Desk;
use super::queue::BenchError;
use super::texts::Texts;
use super::{percentile, rounded, rss_mb};
use crate::output::Output;

const RECALLED: usize = 100;
const NEAREST: usize = 10;

#[derive(Debug, Serialize)]
pub(crate) struct SearchReport {
    docs: u64,
    p50_ms: f64,
    p95_ms: f64,
    qps: f64,
    recall_at_10: f64,
    ready_ms: f64,
    rss_mb: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    during_load: Option<DuringLoad>,
}

/// Searches during a bulk load of half as many entities.
#[derive(Debug, Serialize)]
struct DuringLoad {
    p50_ms: f64,
    p95_ms: f64,
    searches: usize,
    loaded_per_s: f64,
}

/// Fills the store that the benchmark then reopens.
pub(crate) async fn load(store: Arc<dyn Store>, docs: u64, output: Output) -> Result<(), BenchError> {
    let desk = Desk::open(store).await?;
    let worker = desk.work().await?;
    desk.load(0..docs, output).await?;
    worker.shutdown().await?;
    Ok(())
}

pub(crate) async fn run(
    store: Arc<dyn Store>,
    docs: u64,
    queries: u64,
    during_load: bool,
    output: Output,
) -> Result<SearchReport, BenchError> {
    let begun = Instant::now();
    let desk = Arc::new(Desk::open(store).await?);
    let mut texts = Texts::new(7);
    desk.entities.search(SearchRequest::new("document", &texts.query())).await?;
    let ready_ms = rounded(begun.elapsed().as_secs_f64() * 1e3);
    let mut took = Vec::new();
    let begun = Instant::now();
    for _ in 0..queries {
        let call = Instant::now();
        desk.entities.search(SearchRequest::new("document", &texts.query())).await?;
        took.push(call.elapsed().as_secs_f64() * 1e3);
    }
    let qps = (queries as f64 / begun.elapsed().as_secs_f64()).round();
    took.sort_by(f64::total_cmp);
    let rss_mb = rss_mb();
    let recall_at_10 = rounded(recall(&desk, docs).await?);
    let during_load = match during_load {
        true => Some(search_beside_a_load(&desk, docs, output).await?),
        false => None,
    };
    Ok(SearchReport {
        docs,
        p50_ms: percentile(&took, 0.50),
        p95_ms: percentile(&took, 0.95),
        qps,
        recall_at_10,
        ready_ms,
        rss_mb,
        during_load,
    })
}

async fn search_beside_a_load(desk: &Arc<Desk>, docs: u64, output: Output) -> Result<DuringLoad, BenchError> {
    let worker = desk.work().await?;
    let begun = Instant::now();
    let mut took = Vec::new();
    let mut texts = Texts::new(13);
    let loader = desk.clone();
    let loading = tokio::spawn(async move { loader.load(docs..docs + docs / 2, output).await });
    while !loading.is_finished() {
        let call = Instant::now();
        desk.entities.search(SearchRequest::new("document", &texts.query())).await?;
        took.push(call.elapsed().as_secs_f64() * 1e3);
    }
    loading.await.map_err(|error| BenchError::Failed(error.to_string()))??;
    let loaded_per_s = ((docs / 2) as f64 / begun.elapsed().as_secs_f64()).round();
    worker.shutdown().await?;
    took.sort_by(f64::total_cmp);
    let (p50_ms, p95_ms) = (percentile(&took, 0.50), percentile(&took, 0.95));
    Ok(DuringLoad { p50_ms, p95_ms, searches: took.len(), loaded_per_s })
}

/// Compared with an exact scan over vectors computed again from the text.
async fn recall(desk: &Desk, docs: u64) -> Result<f64, BenchError> {
    let table = StaticTable::load().map_err(EntityError::from)?;
    let embed = |text: &str| -> Result<Vector, BenchError> {
        let vectors = table.embed(&[text]).map_err(EntityError::from)?;
        vectors.into_iter().next().ok_or_else(|| BenchError::Failed("no vector".to_owned()))
    };
    let mut texts = Texts::new(1);
    let mut all = Vec::with_capacity(docs as usize);
    for n in 0..docs {
        let fields = texts.document(n);
        let field = |name: &str| fields.get(name).and_then(|text| text.as_str()).unwrap_or_default();
        all.push(embed(&format!("{}\n{}", field("title"), field("text")))?);
    }
    let mut queries = Texts::new(11);
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..RECALLED {
        let query = queries.query();
        let vector = embed(&query)?;
        let mut exact: Vec<(f32, usize)> =
            all.iter().enumerate().map(|(n, v)| (v.cosine(&vector), n)).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        let nearest: HashSet<String> = exact.iter().take(NEAREST).map(|(_, n)| format!("d{n}")).collect();
        let request =
            SearchRequest { mode: Mode::Vector, limit: NEAREST, ..SearchRequest::new("document", &query) };
        let answer = desk.entities.search(request).await?;
        found += answer.hits.iter().filter(|hit| nearest.contains(&hit.id)).count();
        wanted += nearest.len();
    }
    Ok(found as f64 / wanted.max(1) as f64)
}
