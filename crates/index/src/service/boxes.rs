//! The two kinds of job that carry entities to their embedding.
//!
//! Owns their queues and their handler: embed the whole batch at once, outside any transaction, then write vectors and
//! completions together. A box whose entity has moved on ends without a trace in the index.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use windlass_core::entity::{Boxed, ContentHash, Part, content_hash, parts};
use windlass_core::store::{BoxDone, BoxEnd, BoxOutcome, Settled};
use windlass_core::{Backoff, KindSpec, QueueSpec, Store, Strategy, TypeId};
use windlass_engine::{Assignment, Completion, Context, Handler, HandlerResult, Handlers, JobError};
use windlass_pack::Registry;

use super::EntityError;
use super::background::Background;
use super::follow::Follower;
use super::meter::Meter;
use super::types::Types;
use crate::embed::{EmbedError, Embedder};
use crate::vector::Vector;

pub const ASYNC_KIND: &str = "INDEX_ASYNC";
pub const BATCH_KIND: &str = "INDEX_BATCH";
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300) };
const TIMEOUT: Duration = Duration::from_secs(120);
const ASYNC_SIZE: usize = 128;
const BATCH_SIZE: usize = 512;
/// From so many boxes on nobody waits for one of them.
const MANY: usize = 16;
/// The type in the metrics of a box that does not tell.
const UNREADABLE: &str = "unreadable";

/// What the handlers and the index share.
#[derive(Clone)]
pub struct Indexing {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) types: Arc<Types>,
    pub(super) follower: Arc<Follower>,
    pub(super) meter: Arc<Meter>,
    background: Arc<OnceLock<Option<Background>>>,
}

/// The queues of the two kinds.
pub fn queues() -> Vec<QueueSpec> {
    let queue = |name: &str, priority, concurrency, cadence, sla: u64, colour: &str| QueueSpec {
        priority,
        concurrency,
        cadence: Duration::from_secs(cadence),
        sla: Some(Duration::from_secs(sla)),
        owner: "Search".to_owned(),
        colour: colour.to_owned(),
        ..QueueSpec::named(name)
    };
    vec![queue(ASYNC_KIND, 1, 2, 1, 5, "teal"), queue(BATCH_KIND, 7, 1, 30, 300, "olive")]
}

impl Indexing {
    pub fn new(embedder: Arc<dyn Embedder>) -> Indexing {
        let types = Arc::<Types>::default();
        let follower = Arc::new(Follower::new(embedder.space(), embedder.dimension(), types.clone()));
        Indexing { embedder, types, follower, meter: Arc::default(), background: Arc::default() }
    }

    /// The handlers of both kinds.
    pub fn add_to(&self, handlers: &mut Handlers) {
        for (spec, boxes) in self.boxes() {
            handlers.add(spec, boxes);
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        for (spec, boxes) in self.boxes() {
            registry.kind(spec, boxes);
        }
    }

    fn boxes(&self) -> impl Iterator<Item = (KindSpec, Boxes)> {
        let ways = [(Strategy::Async, ASYNC_SIZE), (Strategy::Batch, BATCH_SIZE)];
        kinds()
            .into_iter()
            .zip(ways)
            .map(|(spec, (strategy, size))| (spec, Boxes { strategy, size, indexing: self.clone() }))
    }

    pub(crate) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }
}

/// What a process must register to produce boxes, whether or not it runs them.
pub fn kinds() -> Vec<KindSpec> {
    let kind = |name: &str, max_attempts, what: &str| KindSpec {
        max_attempts,
        timeout: Some(TIMEOUT),
        backoff: BACKOFF,
        description: what.to_owned(),
        ..KindSpec::new(name, name)
    };
    vec![
        kind(ASYNC_KIND, 3, "Embeds a saved entity within seconds"),
        kind(BATCH_KIND, 5, "Embeds saved entities in bulk"),
    ]
}

struct Boxes {
    strategy: Strategy,
    size: usize,
    indexing: Indexing,
}

impl Handler for Boxes {
    fn batch_size(&self) -> usize {
        self.size
    }

    fn run(&self, jobs: Vec<Assignment>) -> BoxFuture<'static, Vec<HandlerResult>> {
        let turn = Turn { indexing: self.indexing.clone(), strategy: self.strategy, begun: Instant::now() };
        Box::pin(async move {
            let contexts: Vec<Context> = jobs.into_iter().map(|job| job.context).collect();
            turn.embed(contexts).await
        })
    }
}

/// One call of a handler.
struct Turn {
    indexing: Indexing,
    strategy: Strategy,
    begun: Instant,
}

/// Boxes taken apart, and the vectors of those that could be.
struct Embedded {
    opened: Vec<Opened>,
    vectors: Result<Vec<Vector>, EmbedError>,
}

struct Opened {
    context: Context,
    type_name: String,
    read: Result<Open, JobError>,
}

/// A box taken apart.
struct Open {
    entity_type: TypeId,
    id: String,
    hash: ContentHash,
    text: String,
}

/// Whom to tell when a box's outcome is written.
struct Ended {
    context: Context,
    type_name: String,
}

impl Indexing {
    fn open(&self, context: Context) -> Opened {
        let boxed: Boxed = match serde_json::from_slice(context.payload()) {
            Ok(boxed) => boxed,
            Err(error) => {
                let read = Err(JobError::retry(format!("the box cannot be read: {error}")));
                return Opened { context, type_name: UNREADABLE.to_owned(), read };
            }
        };
        let found = self.types.named(&boxed.entity_type);
        let unknown = || JobError::retry(format!("the type `{}` is not known here", boxed.entity_type));
        let read = found.ok_or_else(unknown).map(|(entity_type, spec)| {
            let texts = parts(&spec, &boxed.fields);
            let (hash, text) = (content_hash(&texts), text_of(&texts));
            Open { entity_type, id: boxed.id, hash, text }
        });
        Opened { context, type_name: boxed.entity_type, read }
    }

    fn open_and_embed(&self, contexts: Vec<Context>) -> Embedded {
        let opened: Vec<Opened> = contexts.into_iter().map(|context| self.open(context)).collect();
        let texts = opened.iter().filter_map(|one| one.read.as_ref().ok()).map(|open| open.text.as_str());
        let vectors = self.embedder.embed(&texts.collect::<Vec<_>>());
        Embedded { opened, vectors }
    }

    /// `None` when a text made the embedder panic.
    async fn embed_apart(&self, contexts: Vec<Context>) -> Option<Embedded> {
        let here = self.clone();
        let many = contexts.len() >= MANY;
        let work = move || here.open_and_embed(contexts);
        let background = self.background.get_or_init(|| Background::start().ok()).as_ref();
        match background.filter(|_| many) {
            Some(background) => background.run(work).await,
            None => tokio::task::spawn_blocking(work).await.ok(),
        }
    }

    /// With the types as they are now: a hash by other text fields would be of no entity. Where they cannot be read, what
    /// is known goes on and the rest is told that it is not.
    async fn embed(&self, contexts: Vec<Context>) -> Option<Embedded> {
        if let Some(store) = contexts.first().map(|context| context.client().store().clone())
            && let Err(error) = self.types.load(store.as_ref()).await
        {
            tracing::debug!(error = error.chain(), "the types could not be read again");
        }
        self.embed_apart(contexts).await
    }
}

impl Turn {
    async fn embed(&self, contexts: Vec<Context>) -> Vec<HandlerResult> {
        let (count, first) = (contexts.len(), contexts.first().map(type_named));
        match self.indexing.embed(contexts).await {
            // Whose text it was is unknown: a call without answers is halved until the bad one stands alone.
            Some(Embedded { vectors: Err(_), .. }) | None if count > 1 => Vec::new(),
            Some(Embedded { opened, vectors }) => {
                let space = self.indexing.embedder.space().to_owned();
                self.end(opened, vectors, &space).await
            }
            None => {
                self.tried(first.as_deref().unwrap_or(UNREADABLE), false);
                Vec::new()
            }
        }
    }

    async fn end(
        &self,
        opened: Vec<Opened>,
        vectors: Result<Vec<Vector>, EmbedError>,
        space: &str,
    ) -> Vec<HandlerResult> {
        let mut vectors = vectors.map(Vec::into_iter);
        let store = opened.first().map(|one| one.context.client().store().clone());
        let mut answers = Vec::with_capacity(opened.len());
        let (mut ended, mut done) = (Vec::with_capacity(opened.len()), Vec::with_capacity(opened.len()));
        for Opened { context, type_name, read } in opened {
            let Open { entity_type, id, hash, .. } = match read {
                Ok(open) => open,
                Err(error) => {
                    self.tried(&type_name, false);
                    answers.push(Err(error));
                    continue;
                }
            };
            let embedded = match &mut vectors {
                Ok(vectors) => vectors.next().ok_or_else(|| "the embedder left this text out".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            let (result, outcome) = match embedded {
                Ok(vector) => (
                    Ok(Completion::done()),
                    BoxOutcome::Embedded { space: space.to_owned(), vector: vector.to_bytes() },
                ),
                Err(error) => (Err(JobError::retry(error)), BoxOutcome::Failed),
            };
            let settlement = context.settlement(result.clone());
            done.push(BoxDone { settlement, entity_type, id, hash, outcome });
            ended.push(Ended { context, type_name });
            answers.push(result);
        }
        if let Some(store) = store
            && let Err(error) = self.write(store.as_ref(), &ended, done.into()).await
        {
            // Nothing was written; the engine settles all of these as retries.
            return answers.into_iter().map(|_| Err(JobError::retry(error.chain()))).collect();
        }
        answers
    }

    async fn write(
        &self,
        store: &dyn Store,
        ended: &[Ended],
        done: Arc<[BoxDone]>,
    ) -> Result<(), EntityError> {
        let answers = store.index(done.clone()).await;
        if answers.is_err() {
            ended.iter().for_each(|one| self.tried(&one.type_name, false));
        }
        for ((one, done), BoxEnd { settled, searchable_after }) in ended.iter().zip(&*done).zip(answers?) {
            // Who lost the lease has changed nothing; whoever has it now counts.
            if settled != Settled::Stale {
                self.tried(&one.type_name, matches!(done.outcome, BoxOutcome::Embedded { .. }));
            }
            if settled == Settled::Accepted {
                one.context.settled();
            }
            if let Some(after) = searchable_after {
                self.indexing.meter.searchable(self.strategy, after);
            }
        }
        self.indexing.follower.nudge();
        Ok(())
    }

    fn tried(&self, type_name: &str, success: bool) {
        self.indexing.meter.tried(type_name, self.strategy, success, self.begun.elapsed());
    }
}

/// For the metrics of a box that could not even be told apart.
fn type_named(context: &Context) -> String {
    let boxed = serde_json::from_slice::<Boxed>(context.payload());
    boxed.map_or_else(|_| UNREADABLE.to_owned(), |boxed| boxed.entity_type)
}

/// What is embedded: the parts, a line each.
pub(super) fn text_of(parts: &[Part<'_>]) -> String {
    parts.iter().map(|part| part.text).collect::<Vec<_>>().join("\n")
}
