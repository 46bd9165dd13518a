//! What an application does with entities: save, read, delete, search.
//!
//! Owns the types in force and the follower that keeps the index in step with the store. Every search drains the change
//! feed first, so what was committed before it began, by whichever process, is in its answer.

mod background;
mod boxes;
mod define;
mod error;
mod follow;
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

/// A sync write whose entity changes under it is prepared again this often, then queued.
const SYNC_TRIES: usize = 3;
/// How often the index looks for other processes' changes when nobody searches; a search looks by itself. Soon after it
/// found some, so that a search beside a load has little to catch up with; seldom when all is quiet.
const LOOK_SOONEST: Duration = Duration::from_millis(100);
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Entities per transaction of a bulk save while others search: each waits for about one such transaction to be in the
/// index.
const SAVED_BESIDE_SEARCHES: usize = 100;
/// After such a transaction the load rests as long as it took, this long at most, so that searches have a processor.
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
    /// What this process defines itself.
    configured: Vec<TypeSpec>,
    follower: Arc<Follower>,
    meter: Arc<Meter>,
    /// Started by the first save.
    saves: OnceLock<Saves>,
}

/// Figures of all entities together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityStats {
    /// Counted no further than [`DEPTH_SHOWN`].
    pub pending: u64,
    pub indexed: u64,
}

impl Entities {
    /// Over a database that others serve: nothing is written until something is saved. `indexing` must be the one whose
    /// handlers `client` knows; of two types with one name the first counts.
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

    /// The same for a process that serves: `types` are written as they are given, `document` where it is missing.
    pub async fn open(
        client: Client,
        indexing: &Indexing,
        types: &[TypeSpec],
    ) -> Result<Entities, EntityError> {
        let entities = Entities::visit(client, indexing, types);
        entities.begin().await?;
        Ok(entities)
    }

    /// Makes a visitor one that serves.
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

    /// What this process indexed.
    pub fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    /// Brings the index in step once. Answers how long until the next look: soon after it found something, else twice
    /// the `patience` of before.
    pub async fn look(&self, patience: Duration) -> Duration {
        match self.inner.follower.drain(self.store()).await {
            Ok(true) => LOOK_SOONEST,
            Ok(false) => (2 * patience).min(LOOK_EVERY),
            Err(error) => {
                tracing::debug!(
                    error = error.chain(),
                    "the change feed could not be read; the next look will"
                );
                patience
            }
        }
    }

    /// Resolves when there may be something new to look at, after `patience` at the latest.
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
            // A patch may meet another write between its preparation and its lock; then its vector is of other content.
            // It is safe to patch again, unless the caller named a version, which is gone by now, or a key, which is used.
            let missed = write.prepared.is_some() && written.state == IndexState::Pending;
            let once = write.expected != Expected::Anything || write.idempotency.is_some();
            if !missed || once || tries == SYNC_TRIES {
                return Ok(written);
            }
        }
    }

    /// In transactions of a few hundred, each beside the indexing of the one before, so that searches meanwhile have
    /// little to catch up with. Each has its own answer. When the store fails, what was written before stays.
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
            let most = if beside { SAVED_BESIDE_SEARCHES } else { self.store().saved_together() };
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

    /// Inside the caller's transaction. A sync strategy is honoured only by a vector prepared before it began.
    pub async fn save_in(&self, tx: TxRef<'_>, request: SaveRequest) -> Result<Written, EntityError> {
        let (type_id, spec) = self.find_type_within(&request.entity_type).await?;
        let write = request.checked(type_id, spec)?;
        self.needs_type(&write)?;
        let saved = self.store().save_in(tx, &self.boxes()?, std::slice::from_ref(&write)).await?;
        let saved = saved.into_iter().next().ok_or(EntityError::Unanswered)?;
        refused(saved, &write.id)
    }

    /// What a repeat of the write that took this idempotency key is answered from now on.
    pub async fn restate(&self, key: &str, written: &Written) -> Result<(), EntityError> {
        Ok(self.store().restate(key, written).await?)
    }

    /// Every rule that a write breaks, for a caller that found mistakes of its own and answers all at once. What cannot be told,
    /// such as of a type that is not there, is no problem here.
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

    /// Embeds beforehand what will be indexed with the write: never inside a transaction.
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

    /// A write that came with its vector is an attempt, unless there was nothing to index.
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

    /// By id, those after `after`.
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
