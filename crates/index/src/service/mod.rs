//! The API for entities: save, read, delete, search.
//!
//! Owns the known types and the follower that keeps the index up to date. Every search drains the change feed first, so
//! it sees everything that any process committed before the search began.

mod background;
mod boxes;
mod define;
mod error;
mod follow;
mod hits;
mod meter;
mod request;
mod saves;
mod search;
mod types;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use windlass_core::entity::{
    BoxKind, BoxKinds, Change, EntityWrite, Expected, IndexState, Operation, Prepared, Strategy,
};
use windlass_core::entity::{content_hash, parts, resolve};
use windlass_core::store::{DEPTH_SHOWN, EntityRecord, Saved, Written};
use windlass_core::{Invalid, Store, TxRef, TypeSpec};
use windlass_engine::Client;

pub use boxes::{ASYNC_KIND, BATCH_KIND, Indexing, kinds, queues};
pub use error::EntityError;
pub use meter::{Attempts, Meter};
pub use request::SaveRequest;
pub use search::{Hit, SearchAnswer, SearchRequest};

use crate::embed::Embedder;
use follow::Follower;
use saves::Saves;
use types::Types;

/// Attempts of a sync write whose entity is changed concurrently; after them it is indexed by a job.
const SYNC_TRIES: usize = 3;
/// Bounds of the interval at which the index polls the change feed. A search drains the feed itself; polling keeps what
/// it has to drain small. The interval is short after changes and doubles while there are none.
const LOOK_SOONEST: Duration = Duration::from_millis(100);
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Entities per transaction of a bulk save during searches. A search waits for about one such transaction to be
/// indexed.
const SAVED_BESIDE_SEARCHES: usize = 100;
/// Longest pause after such a transaction. A bulk save pauses for as long as the transaction took, to leave processor
/// time for searches.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Cheap to clone; all clones share one index.
#[derive(Clone)]
pub struct Entities {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    embedder: Arc<dyn Embedder>,
    types: Arc<Types>,
    /// Types that this process defines.
    configured: Vec<TypeSpec>,
    follower: Arc<Follower>,
    meter: Arc<Meter>,
    /// Started by the first save.
    saves: OnceLock<Saves>,
}

/// Figures over all entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityStats {
    /// Counted no further than [`DEPTH_SHOWN`].
    pub pending: u64,
    pub indexed: u64,
}

impl Entities {
    /// Opens entities in a process that does not serve: nothing is written until the first save. `client` must know the
    /// handlers of `indexing`. If two types share a name, the first counts.
    pub fn visit(client: Client, indexing: &Indexing, types: &[TypeSpec]) -> Entities {
        let (embedder, types_read) = (indexing.embedder.clone(), indexing.types.clone());
        let (follower, meter) = (indexing.follower.clone(), indexing.meter.clone());
        let configured = define::once(types);
        let inner = Inner {
            client,
            embedder,
            types: types_read,
            configured,
            follower,
            meter,
            saves: OnceLock::new(),
        };
        Entities { inner: Arc::new(inner) }
    }

    /// Opens entities in a process that serves: writes `types`, and adds `document` if it is missing.
    pub async fn open(
        client: Client,
        indexing: &Indexing,
        types: &[TypeSpec],
    ) -> Result<Entities, EntityError> {
        let entities = Entities::visit(client, indexing, types);
        entities.begin().await?;
        Ok(entities)
    }

    /// Turns the result of `visit` into that of `open`.
    pub(crate) async fn begin(&self) -> Result<(), EntityError> {
        self.boxes()?;
        self.define().await
    }

    fn boxes(&self) -> Result<BoxKinds, EntityError> {
        box_kinds(&self.inner.client)
    }

    fn saves(&self) -> Result<&Saves, EntityError> {
        let boxes = self.boxes()?;
        let store = Arc::downgrade(self.inner.client.store());
        Ok(self.inner.saves.get_or_init(|| Saves::start(store, boxes)))
    }

    fn store(&self) -> &dyn Store {
        self.inner.client.store().as_ref()
    }

    /// Metrics of the indexing done by this process.
    pub fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    /// Drains the change feed once. Returns the time until the next call: short after changes, else twice `patience`.
    pub async fn look(&self, patience: Duration) -> Duration {
        match self.inner.follower.drain(self.store()).await {
            Ok(true) => LOOK_SOONEST,
            Ok(false) => (2 * patience).min(LOOK_EVERY),
            Err(error) => {
                tracing::debug!(
                    error = error.chain(),
                    "the change feed could not be read; it is tried again"
                );
                patience
            }
        }
    }

    /// Resolves when there may be changes, after `patience` at the latest.
    pub async fn nudged(&self, patience: Duration) {
        self.inner.follower.nudged(patience).await;
    }

    // Writing --------------------------------------------------------------------------------------------------

    pub async fn save(&self, request: SaveRequest) -> Result<Written, EntityError> {
        let mut write = self.check(request).await?;
        self.ensure_type(&mut write).await?;
        let mut tries = 0;
        loop {
            tries += 1;
            let begun = Instant::now();
            self.prepare(&mut write).await?;
            let saved = self.saves()?.save(self.store(), &write).await?;
            self.count_sync(&write, &saved, begun);
            let written = refused(saved, &write.id)?;
            self.inner.follower.nudge();
            // Another write between preparing and locking makes the vector of a patch outdated. Patching again is safe,
            // unless the caller gave a version, which is outdated, or an idempotency key, which is used.
            let missed = write.prepared.is_some() && written.state == IndexState::Pending;
            let once = write.expected != Expected::Anything || write.idempotency.is_some();
            if !missed || once || tries == SYNC_TRIES {
                return Ok(written);
            }
        }
    }

    /// Saves in transactions of a few hundred, each while the one before is indexed, so that concurrent searches have
    /// little to drain. Each request has its own answer. When the store fails, earlier transactions stay.
    pub async fn save_many(
        &self,
        requests: Vec<SaveRequest>,
    ) -> Result<Vec<Result<Written, EntityError>>, EntityError> {
        let mut answers: Vec<Option<Result<Written, EntityError>>> = Vec::with_capacity(requests.len());
        let (mut writes, mut places) = (Vec::with_capacity(requests.len()), Vec::new());
        for request in requests {
            match self.check(request).await {
                Ok(mut write) => {
                    self.ensure_type(&mut write).await?;
                    places.push(answers.len());
                    writes.push(write);
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Err(error))),
            }
        }
        let (begun, boxes) = (Instant::now(), self.boxes()?);
        for write in &mut writes {
            self.prepare(write).await?;
        }
        let (mut places, mut writes) = (places.into_iter(), writes.into_iter());
        while writes.len() > 0 {
            let beside = self.inner.follower.is_searched();
            let most = if beside { SAVED_BESIDE_SEARCHES } else { self.store().save_batch_size() };
            let together: Arc<[EntityWrite]> = writes.by_ref().take(most).collect();
            let turn = Instant::now();
            let saving = self.store().save(&boxes, together.clone());
            let (saved, ()) = tokio::join!(saving, self.inner.follower.keep_up(self.store()));
            for ((saved, write), place) in saved?.into_iter().zip(&*together).zip(&mut places) {
                self.count_sync(write, &saved, begun);
                answers[place] = Some(refused(saved, &write.id));
            }
            if beside {
                tokio::time::sleep(turn.elapsed().min(LONGEST_REST)).await;
            }
        }
        self.inner.follower.nudge();
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(EntityError::Unanswered))).collect())
    }

    /// Saves inside the caller's transaction. Nothing is embedded inside a transaction, so a sync strategy is queued.
    pub async fn save_in(&self, tx: TxRef<'_>, request: SaveRequest) -> Result<Written, EntityError> {
        let (type_id, spec) = self.find_type_within(&request.entity_type).await?;
        let write = request.checked(type_id, spec)?;
        self.needs_type(&write)?;
        let saved = self.store().save_in(tx, &self.boxes()?, std::slice::from_ref(&write)).await?;
        let saved = saved.into_iter().next().ok_or(EntityError::Unanswered)?;
        refused(saved, &write.id)
    }

    /// Replaces the stored response for an idempotency key.
    pub async fn replace_response(&self, key: &str, written: &Written) -> Result<(), EntityError> {
        Ok(self.store().replace_response(key, written).await?)
    }

    /// Every rule that a request breaks, for a caller that reports them together with its own problems. Empty when the
    /// request cannot be checked, such as for an unknown type.
    pub async fn problems(&self, request: &SaveRequest) -> Invalid {
        match self.check(request.clone()).await {
            Err(EntityError::Invalid(invalid)) => invalid,
            _ => Invalid::default(),
        }
    }

    async fn check(&self, request: SaveRequest) -> Result<EntityWrite, EntityError> {
        let (type_id, spec) = self.find_type(&request.entity_type).await?;
        Ok(request.checked(type_id, spec)?)
    }

    /// Embeds the content of a sync write before its transaction begins.
    async fn prepare(&self, write: &mut EntityWrite) -> Result<(), EntityError> {
        let spec = &write.spec;
        let said = [write.strategy, spec.strategy, spec.on_create, spec.on_update];
        if !said.contains(&Some(Strategy::Sync)) || matches!(write.change, Change::Delete) {
            return Ok(());
        }
        let current = self.store().entity(write.type_id, &write.id).await?.and_then(|row| row.fields);
        let operation = if current.is_some() { Operation::Update } else { Operation::Create };
        if resolve(write.strategy, operation, spec).strategy != Strategy::Sync {
            return Ok(());
        }
        let fields = match &write.change {
            Change::Put(fields) => fields.clone(),
            Change::Patch(patch) => windlass_core::entity::patched(current.as_ref(), patch),
            Change::Delete => return Ok(()),
        };
        let texts = parts(spec, &fields);
        let hash = content_hash(&texts);
        let begun = Instant::now();
        let vectors = self.inner.embedder.embed(&[&boxes::text_of(&texts)]);
        if vectors.is_err() {
            self.inner.meter.tried(&spec.name, Strategy::Sync, false, begun.elapsed());
        }
        let vectors = vectors?;
        let Some(vector) = vectors.first() else { return Ok(()) };
        let (space, vector) = (self.inner.embedder.space().to_owned(), vector.to_bytes());
        write.prepared = Some(Prepared { hash, space, vector });
        Ok(())
    }

    /// Counts a write that came with its vector as an attempt, unless there was nothing to index.
    fn count_sync(&self, write: &EntityWrite, saved: &Saved, begun: Instant) {
        let (Some(_), Saved::Written(written)) = (&write.prepared, saved) else { return };
        let (meter, took) = (&self.inner.meter, begun.elapsed());
        match written.strategy {
            None => {}
            Some(Strategy::Sync) => {
                meter.tried(&write.spec.name, Strategy::Sync, true, took);
                meter.searchable(Strategy::Sync, took);
            }
            Some(_) => meter.tried(&write.spec.name, Strategy::Sync, false, took),
        }
    }

    // Reading --------------------------------------------------------------------------------------------------

    pub async fn get(&self, entity_type: &str, id: &str) -> Result<EntityRecord, EntityError> {
        let (type_id, _) = self.find_type(entity_type).await?;
        let found = self.store().entity(type_id, id).await?.filter(|row| row.fields.is_some());
        found.ok_or_else(|| EntityError::Missing { entity_type: entity_type.to_owned(), id: id.to_owned() })
    }

    /// Entities sorted by id, starting after `after`.
    pub async fn list(
        &self,
        entity_type: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<EntityRecord>, EntityError> {
        let (type_id, _) = self.find_type(entity_type).await?;
        Ok(self.store().entities(type_id, after, limit).await?)
    }

    pub async fn stats(&self) -> Result<EntityStats, EntityError> {
        let pending = self.store().pending_entities(DEPTH_SHOWN).await?;
        self.inner.follower.drain(self.store()).await?;
        Ok(EntityStats { pending, indexed: self.inner.follower.live.indexed() })
    }
}

fn refused(saved: Saved, id: &str) -> Result<Written, EntityError> {
    match saved {
        Saved::Written(written) | Saved::Replayed(written) => Ok(written),
        Saved::Refused(refusal) => Err(EntityError::Refused { id: id.to_owned(), refusal }),
    }
}

fn box_kinds(client: &Client) -> Result<BoxKinds, EntityError> {
    let catalog = client.catalog();
    let kind = |name: &'static str| {
        let entry = catalog.kind_named(name).ok_or(EntityError::NotRegistered { kind: name })?;
        let of_queue = catalog.queue(entry.queue).map_or(5, |queue| queue.spec.priority);
        Ok::<BoxKind, EntityError>(BoxKind {
            kind: entry.id,
            queue: entry.queue,
            priority: entry.spec.priority.unwrap_or(of_queue),
            max_attempts: entry.spec.max_attempts,
            timeout: entry.spec.timeout,
        })
    };
    Ok(BoxKinds { soon: kind(ASYNC_KIND)?, bulk: kind(BATCH_KIND)? })
}
