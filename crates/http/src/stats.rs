//! Statistics of all queues, on request and once a second for all listeners.
//!
//! One sampler serves all listeners and stops while there are none. Percentiles come from the workers' per-minute
//! statistics, which change every ten seconds, so they are cached for a few seconds. Counts are cached for one second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::Stream;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use windlass_core::store::{DeadCount, QueueState};
use windlass_core::{QueueId, StoreError};
use windlass_engine::Client;
use windlass_engine::operate::Measured;
use windlass_pack::Figures;

use crate::fresh::Fresh;
use crate::listeners::{ListenerSeat, ListenerSeats};
use crate::view::{QueueView, ResourceTotal, StatsView};

const EVERY: Duration = Duration::from_secs(1);
const MEASURED_FRESH: Duration = Duration::from_secs(5);

type MeasuredQueues = Arc<HashMap<QueueId, Measured>>;
/// Name and value of each figure from a part.
pub(crate) type PartFigures = Arc<Vec<(&'static str, Option<u64>)>>;
type Dead = Arc<HashMap<QueueId, DeadCount>>;

pub(crate) struct Stats {
    client: Client,
    parts: Vec<Figures>,
    figures: Fresh<PartFigures>,
    dead: Fresh<Dead>,
    measured: Fresh<MeasuredQueues>,
    seats: Arc<ListenerSeats>,
    /// The latest event, ready to send.
    feed: watch::Sender<Bytes>,
    sampling: AtomicBool,
}

impl Stats {
    pub(crate) fn new(client: Client, parts: Vec<Figures>, listeners: usize) -> Stats {
        Stats {
            client,
            parts,
            figures: Fresh::new(EVERY),
            dead: Fresh::new(EVERY),
            measured: Fresh::new(MEASURED_FRESH),
            seats: Arc::new(ListenerSeats::new(listeners)),
            feed: watch::channel(Bytes::new()).0,
            sampling: AtomicBool::new(false),
        }
    }

    /// Most urgent first.
    pub(crate) async fn queues(&self) -> Result<Vec<QueueState>, StoreError> {
        self.client.queues().await
    }

    pub(crate) async fn queue_views(&self) -> Result<Vec<QueueView>, StoreError> {
        let measured = self.measured().await?;
        let queues = self.queues().await?;
        Ok(queues.iter().map(|queue| QueueView::new(queue, measured.get(&queue.id))).collect())
    }

    pub(crate) async fn measured(&self) -> Result<MeasuredQueues, StoreError> {
        self.measured.get(async { Ok(Arc::new(self.client.measured().await?)) }).await
    }

    /// Only queues that have some.
    pub(crate) async fn dead(&self) -> Result<Dead, StoreError> {
        let read = async {
            let counts = self.client.dead_letters().await?;
            Ok(Arc::new(counts.into_iter().map(|count| (count.queue, count)).collect()))
        };
        self.dead.get(read).await
    }

    /// In the order of registration.
    async fn part_figures(&self) -> Result<PartFigures, StoreError> {
        let read = async {
            let mut all = Vec::new();
            for figures in &self.parts {
                let values = (figures.read)().await?;
                all.extend(figures.known.iter().map(|(name, _)| *name).zip(values));
            }
            Ok(Arc::new(all))
        };
        self.figures.get(read).await
    }

    pub(crate) async fn sample(&self) -> Result<StatsView, StoreError> {
        let figures = self.part_figures().await?;
        let workers = self.client.workers().await?;
        Ok(StatsView {
            at: crate::view::Stamp(self.client.now().await?),
            queues: self.queue_views().await?,
            workers: workers.len() as u64,
            resources: ResourceTotal::of(&workers),
            figures: figures.iter().copied().collect(),
        })
    }

    /// A stream of events; `None` if clients at other addresses have all places.
    pub(crate) fn listen(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        stop: watch::Receiver<bool>,
    ) -> Option<impl Stream<Item = Result<Bytes, std::convert::Infallible>> + use<>> {
        let seat = self.seats.take(peer)?;
        let mut events = self.feed.subscribe();
        // The last sample may be from before a pause without listeners.
        events.mark_unchanged();
        if !self.sampling.swap(true, Ordering::AcqRel) {
            tokio::spawn(sample_while_heard(self.clone()));
        }
        let listener = Listener { seat, events, stop };
        Some(futures_util::stream::unfold(listener, |mut listener| async move {
            let event = listener.next().await?;
            Some((Ok(event), listener))
        }))
    }
}

struct Listener {
    seat: ListenerSeat,
    events: watch::Receiver<Bytes>,
    stop: watch::Receiver<bool>,
}

impl Listener {
    /// `None` when the server stops, so that endless responses do not delay it, and when a newer stream needs the
    /// place.
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            changed = self.events.changed() => {
                changed.ok()?;
                Some(self.events.borrow_and_update().clone())
            }
            _ = self.stop.wait_for(|stop| *stop) => None,
            () = self.seat.is_taken() => None,
        }
    }
}

async fn sample_while_heard(stats: Arc<Stats>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if stats.feed.receiver_count() == 0 {
            stats.sampling.store(false, Ordering::Release);
            // A listener may have arrived between the count and the end of sampling.
            if stats.feed.receiver_count() == 0 || stats.sampling.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        stats.feed.send_replace(event(stats.sample().await));
    }
}

fn event(sample: Result<StatsView, StoreError>) -> Bytes {
    let text = match sample.map(|sample| serde_json::to_string(&sample)) {
        Ok(Ok(text)) => format!("event: stats\ndata: {text}\n\n"),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the figures could not be written");
            trouble()
        }
        Err(error) => {
            tracing::warn!(causes = error.chain(), "the figures could not be read");
            trouble()
        }
    };
    Bytes::from(text)
}

fn trouble() -> String {
    "event: trouble\ndata: {\"code\":\"store_unavailable\"}\n\n".to_owned()
}
