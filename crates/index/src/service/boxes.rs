//! The two kinds of job that carry entities to their embedding.
//!
//! Owns their queues and their handler: embed the whole batch at once, outside any transaction, then write vectors and
//! completions together. A box whose entity has moved on ends without a trace in the index.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use windlass_core::entity::{Boxed, ContentHash, Part, content_hash, parts};
use windlass_core::store::{BoxDone, BoxOutcome, Settled};
use windlass_core::{Backoff, KindSpec, QueueSpec, Store, TypeId};
use windlass_engine::{Assignment, Completion, Context, Handler, HandlerResult, Handlers, JobError};

use super::EntityError;
use super::follow::Follower;
use super::types::Types;
use crate::embed::Embedder;

pub const ASYNC_KIND: &str = "INDEX_ASYNC";
pub const BATCH_KIND: &str = "INDEX_BATCH";
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300) };
const TIMEOUT: Duration = Duration::from_secs(120);
const ASYNC_SIZE: usize = 128;
const BATCH_SIZE: usize = 512;

/// What the handlers and the index share.
#[derive(Clone)]
pub struct Indexing {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) types: Arc<Types>,
    pub(super) follower: Arc<Follower>,
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
        Indexing { embedder, types, follower }
    }

    /// The handlers of both kinds.
    pub fn add_to(&self, handlers: &mut Handlers) {
        for (spec, size) in kinds().into_iter().zip([ASYNC_SIZE, BATCH_SIZE]) {
            handlers.add(spec, Boxes { size, indexing: self.clone() });
        }
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
    size: usize,
    indexing: Indexing,
}

impl Handler for Boxes {
    fn batch_size(&self) -> usize {
        self.size
    }

    fn run(&self, jobs: Vec<Assignment>) -> BoxFuture<'static, Vec<HandlerResult>> {
        let indexing = self.indexing.clone();
        Box::pin(async move {
            let mut opened = Vec::with_capacity(jobs.len());
            for job in jobs {
                let read = indexing.open(&job.context).await;
                opened.push((job.context, read));
            }
            indexing.embed(opened).await
        })
    }
}

/// A box taken apart.
struct Open {
    entity_type: TypeId,
    id: String,
    hash: ContentHash,
    text: String,
}

impl Indexing {
    async fn open(&self, context: &Context) -> Result<Open, JobError> {
        let boxed: Boxed = serde_json::from_slice(context.payload())
            .map_err(|error| JobError::retry(format!("the box cannot be read: {error}")))?;
        let store = context.client().store();
        let (entity_type, spec) = match self.types.find(store.as_ref(), &boxed.entity_type).await {
            Ok(found) => found,
            Err(error) => return Err(JobError::retry(error.chain())),
        };
        let texts = parts(&spec, &boxed.fields);
        let (hash, text) = (content_hash(&texts), text_of(&texts));
        Ok(Open { entity_type, id: boxed.id, hash, text })
    }

    async fn embed(&self, opened: Vec<(Context, Result<Open, JobError>)>) -> Vec<HandlerResult> {
        let embedder = self.embedder.clone();
        let embedding = tokio::task::spawn_blocking(move || {
            let texts: Vec<&str> = opened
                .iter()
                .filter_map(|(_, open)| open.as_ref().ok())
                .map(|open| open.text.as_str())
                .collect();
            let vectors = embedder.embed(&texts);
            (opened, vectors, embedder.space().to_owned())
        });
        let Ok((opened, vectors, space)) = embedding.await else { return Vec::new() };
        // Whose text it was is unknown: a call without answers is halved until the bad one stands alone.
        if vectors.is_err() && opened.len() > 1 {
            return Vec::new();
        }
        let mut vectors = vectors.map(Vec::into_iter);
        let store = opened.first().map(|(context, _)| context.client().store().clone());
        let (mut answers, mut done) = (Vec::with_capacity(opened.len()), Vec::with_capacity(opened.len()));
        for (context, open) in opened {
            let open = match open {
                Ok(open) => open,
                Err(error) => {
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
                    BoxOutcome::Embedded { space: space.clone(), vector: vector.to_bytes() },
                ),
                Err(error) => (Err(JobError::retry(&error)), BoxOutcome::Failed { error }),
            };
            let Open { entity_type, id, hash, .. } = open;
            let settlement = context.settlement(result.clone());
            done.push((context, BoxDone { settlement, entity_type, id, hash, outcome }));
            answers.push(result);
        }
        if let Some(store) = store
            && let Err(error) = self.write(store.as_ref(), done).await
        {
            // Nothing was written; the engine settles all of these as retries.
            return answers.into_iter().map(|_| Err(JobError::retry(error.chain()))).collect();
        }
        answers
    }

    async fn write(&self, store: &dyn Store, done: Vec<(Context, BoxDone)>) -> Result<(), EntityError> {
        let (contexts, done): (Vec<Context>, Vec<BoxDone>) = done.into_iter().unzip();
        let settled = store.index(&done).await?;
        for (context, answer) in contexts.iter().zip(settled) {
            if answer == Settled::Accepted {
                context.settled();
            }
        }
        self.follower.nudge();
        Ok(())
    }
}

/// What is embedded: the parts, a line each.
pub(super) fn text_of(parts: &[Part<'_>]) -> String {
    parts.iter().map(|part| part.text).collect::<Vec<_>>().join("\n")
}
