//! The two kinds of indexing job. The indexing job of an entity is its "box": it carries the content to the embedder.
//!
//! Owns their queues and their handler. The handler embeds a whole batch at once, outside any transaction, then writes
//! vectors and completions together. A box whose entity has changed since writes no vector.

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
/// Batches this large run on the low-priority thread.
const LARGE_BATCH: usize = 16;
/// Entity type in the metrics when a payload cannot be parsed.
const UNREADABLE: &str = "unreadable";

/// State shared by the handlers and the index.
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

    /// Adds the handlers of both kinds.
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

    fn boxes(&self) -> impl Iterator<Item = (KindSpec, BoxHandler)> {
        let ways = [(Strategy::Async, ASYNC_SIZE), (Strategy::Batch, BATCH_SIZE)];
        kinds()
            .into_iter()
            .zip(ways)
            .map(|(spec, (strategy, size))| (spec, BoxHandler { strategy, size, indexing: self.clone() }))
    }

    pub(crate) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }
}

/// Kinds that a process must register to save entities, even if it does not run their jobs.
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

struct BoxHandler {
    strategy: Strategy,
    size: usize,
    indexing: Indexing,
}

impl Handler for BoxHandler {
    fn batch_size(&self) -> usize {
        self.size
    }

    fn run(&self, jobs: Vec<Assignment>) -> BoxFuture<'static, Vec<HandlerResult>> {
        let run =
            BatchRun { indexing: self.indexing.clone(), strategy: self.strategy, begun: Instant::now() };
        Box::pin(async move {
            let contexts: Vec<Context> = jobs.into_iter().map(|job| job.context).collect();
            run.embed(contexts).await
        })
    }
}

/// One call of the handler.
struct BatchRun {
    indexing: Indexing,
    strategy: Strategy,
    begun: Instant,
}

/// Parsed boxes, and one vector for each that parsed.
struct EmbeddedBatch {
    boxes: Vec<ParsedBox>,
    vectors: Result<Vec<Vector>, EmbedError>,
}

struct ParsedBox {
    context: Context,
    type_name: String,
    content: Result<BoxContent, JobError>,
}

struct BoxContent {
    entity_type: TypeId,
    id: String,
    hash: ContentHash,
    text: String,
}

/// The context to notify when the outcome of a box is written.
struct EndedBox {
    context: Context,
    type_name: String,
}

impl Indexing {
    fn parse(&self, context: Context) -> ParsedBox {
        let boxed: Boxed = match serde_json::from_slice(context.payload()) {
            Ok(boxed) => boxed,
            Err(error) => {
                let content = Err(JobError::retry(format!("the payload cannot be parsed: {error}")));
                return ParsedBox { context, type_name: UNREADABLE.to_owned(), content };
            }
        };
        let found = self.types.named(&boxed.entity_type);
        let unknown = || JobError::retry(format!("the type `{}` is not known here", boxed.entity_type));
        let content = found.ok_or_else(unknown).map(|(entity_type, spec)| {
            let texts = parts(&spec, &boxed.fields);
            let (hash, text) = (content_hash(&texts), text_of(&texts));
            BoxContent { entity_type, id: boxed.id, hash, text }
        });
        ParsedBox { context, type_name: boxed.entity_type, content }
    }

    fn parse_and_embed(&self, contexts: Vec<Context>) -> EmbeddedBatch {
        let boxes: Vec<ParsedBox> = contexts.into_iter().map(|context| self.parse(context)).collect();
        let texts =
            boxes.iter().filter_map(|one| one.content.as_ref().ok()).map(|content| content.text.as_str());
        let vectors = self.embedder.embed(&texts.collect::<Vec<_>>());
        EmbeddedBatch { boxes, vectors }
    }

    /// Parses and embeds on another thread; `None` when the embedder panicked.
    async fn embed_on_thread(&self, contexts: Vec<Context>) -> Option<EmbeddedBatch> {
        let here = self.clone();
        let large = contexts.len() >= LARGE_BATCH;
        let work = move || here.parse_and_embed(contexts);
        let background = self.background.get_or_init(|| Background::start().ok()).as_ref();
        match background.filter(|_| large) {
            Some(background) => background.run(work).await,
            None => tokio::task::spawn_blocking(work).await.ok(),
        }
    }

    /// Loads the types first, because a hash over outdated text fields would match no entity. If that fails, boxes of
    /// known types go on and the others are retried.
    async fn embed(&self, contexts: Vec<Context>) -> Option<EmbeddedBatch> {
        if let Some(store) = contexts.first().map(|context| context.client().store().clone())
            && let Err(error) = self.types.load(store.as_ref()).await
        {
            tracing::debug!(error = error.chain(), "the types could not be loaded");
        }
        self.embed_on_thread(contexts).await
    }
}

impl BatchRun {
    async fn embed(&self, contexts: Vec<Context>) -> Vec<HandlerResult> {
        let (count, first) = (contexts.len(), contexts.first().map(type_named));
        match self.indexing.embed(contexts).await {
            // It is unknown which text failed. The engine halves a batch without answers until the bad job is alone.
            Some(EmbeddedBatch { vectors: Err(_), .. }) | None if count > 1 => Vec::new(),
            Some(EmbeddedBatch { boxes, vectors }) => {
                let space = self.indexing.embedder.space().to_owned();
                self.end(boxes, vectors, &space).await
            }
            None => {
                self.tried(first.as_deref().unwrap_or(UNREADABLE), false);
                Vec::new()
            }
        }
    }

    async fn end(
        &self,
        boxes: Vec<ParsedBox>,
        vectors: Result<Vec<Vector>, EmbedError>,
        space: &str,
    ) -> Vec<HandlerResult> {
        let mut vectors = vectors.map(Vec::into_iter);
        let store = boxes.first().map(|one| one.context.client().store().clone());
        let mut answers = Vec::with_capacity(boxes.len());
        let (mut ended, mut done) = (Vec::with_capacity(boxes.len()), Vec::with_capacity(boxes.len()));
        for ParsedBox { context, type_name, content } in boxes {
            let BoxContent { entity_type, id, hash, .. } = match content {
                Ok(content) => content,
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
            ended.push(EndedBox { context, type_name });
            answers.push(result);
        }
        if let Some(store) = store
            && let Err(error) = self.write(store.as_ref(), &ended, done.into()).await
        {
            // Nothing was written; the engine settles all of them as retries.
            return answers.into_iter().map(|_| Err(JobError::retry(error.chain()))).collect();
        }
        answers
    }

    async fn write(
        &self,
        store: &dyn Store,
        ended: &[EndedBox],
        done: Arc<[BoxDone]>,
    ) -> Result<(), EntityError> {
        let answers = store.index(done.clone()).await;
        if answers.is_err() {
            ended.iter().for_each(|one| self.tried(&one.type_name, false));
        }
        for ((one, done), BoxEnd { settled, searchable_after }) in ended.iter().zip(&*done).zip(answers?) {
            // A stale settlement changed nothing; the worker that now holds the lease counts the attempt.
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

/// The entity type for the metrics of a batch that failed as a whole.
fn type_named(context: &Context) -> String {
    let boxed = serde_json::from_slice::<Boxed>(context.payload());
    boxed.map_or_else(|_| UNREADABLE.to_owned(), |boxed| boxed.entity_type)
}

/// The embedded text: the parts, one per line.
pub(super) fn text_of(parts: &[Part<'_>]) -> String {
    parts.iter().map(|part| part.text).collect::<Vec<_>>().join("\n")
}
