//! Single writes at a constant rate: how long each call takes, and how long until its entity is searchable by meaning.

use std::time::{Duration, Instant};

use serde::Serialize;
use windlass_core::entity::{Change, IndexState, Strategy};
use windlass_index::{Entities, SaveRequest};

use super::percentile;
use super::queue::BenchError;
use super::texts::Texts;

/// Long enough to show that a rate cannot be sustained.
const LONGEST: Duration = Duration::from_secs(20);
/// Every n-th write is watched. Watching reads, and would otherwise be most of the work.
const WATCHED: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize)]
pub(super) struct Steady {
    asked_per_s: u32,
    written_per_s: f64,
    save_p50_ms: f64,
    save_p95_ms: f64,
    write_to_searchable_p50_ms: f64,
    write_to_searchable_p95_ms: f64,
}

/// When a write was answered and, if watched, when its entity was searchable.
struct Written {
    saved: Duration,
    searchable: Option<Duration>,
}

/// `writes` writes, or as many as fit in [`LONGEST`].
pub(super) async fn run(entities: &Entities, writes: u64, rate: u32) -> Result<Steady, BenchError> {
    let mut texts = Texts::new(17);
    let mut tasks = Vec::new();
    let begun = Instant::now();
    let due = |n: u64| begun + Duration::from_secs_f64(n as f64 / f64::from(rate));
    let mut n = 0;
    while n < writes && due(n) < begun + LONGEST {
        tokio::time::sleep_until(due(n).into()).await;
        // All writes that became due during the sleep.
        while n < writes && due(n) <= Instant::now() {
            let change = Change::Put(texts.document(n));
            let request = SaveRequest {
                strategy: Some(Strategy::Async),
                ..SaveRequest::new("document", &format!("steady{n}"), change)
            };
            tasks.push(tokio::spawn(write(entities.clone(), request, n)));
            n += 1;
        }
    }
    let took = begun.elapsed();
    let (mut saved, mut searchable) = (Vec::new(), Vec::new());
    for task in tasks {
        let written = task.await.map_err(|error| BenchError::Failed(error.to_string()))??;
        saved.push(written.saved.as_secs_f64() * 1e3);
        searchable.extend(written.searchable.map(|after| after.as_secs_f64() * 1e3));
    }
    saved.sort_by(f64::total_cmp);
    searchable.sort_by(f64::total_cmp);
    Ok(Steady {
        asked_per_s: rate,
        written_per_s: (n as f64 / took.as_secs_f64()).round(),
        save_p50_ms: percentile(&saved, 0.50),
        save_p95_ms: percentile(&saved, 0.95),
        write_to_searchable_p50_ms: percentile(&searchable, 0.50),
        write_to_searchable_p95_ms: percentile(&searchable, 0.95),
    })
}

/// Once the vector is stored, the next search finds it: every search reads the change feed first.
async fn write(entities: Entities, request: SaveRequest, n: u64) -> Result<Written, BenchError> {
    let begun = Instant::now();
    let id = request.id.clone().unwrap_or_default();
    entities.save(request).await?;
    let saved = begun.elapsed();
    if !n.is_multiple_of(WATCHED) {
        return Ok(Written { saved, searchable: None });
    }
    while entities.get("document", &id).await?.state != IndexState::Indexed {
        if begun.elapsed() > PATIENCE {
            return Err(BenchError::Failed(format!("{id} does not become searchable")));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(Written { saved, searchable: Some(begun.elapsed()) })
}
