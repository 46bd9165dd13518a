//! What every handler has at hand, and the places later parts fill.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use windlass_core::{StoreError, Strategy};
use windlass_engine::Client;
use windlass_index::Meter;

use crate::options::Options;
use crate::read_back::ReadBack;
use crate::route::Route;
use crate::router::Counters;
use crate::stats::Stats;

/// What other parts bring to the server.
#[derive(Default)]
pub struct Parts {
    /// Where entities are indexed.
    pub indexing: Option<Arc<dyn IndexFigures>>,
    /// Served and documented beside our own.
    pub routes: Vec<Route>,
}

/// Figures about entities and their boxes, for `/v1/stats` and the `indexing_*` metrics.
pub trait IndexFigures: Send + Sync {
    /// Cheap: it is read every second while somebody looks.
    fn figures(&self) -> Pin<Box<dyn Future<Output = Result<Indexing, StoreError>> + Send + '_>>;

    /// The queue of a strategy's boxes; `None`: it has none.
    fn queue_of(&self, strategy: Strategy) -> Option<&str>;

    /// What this process indexed.
    fn meter(&self) -> Option<&Meter> {
        None
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Indexing {
    /// Counted up to 10000.
    pub pending_entities: u64,
    pub indexed_entities: u64,
}

pub(crate) struct App {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) read_back: ReadBack,
    pub(crate) stats: Arc<Stats>,
    pub(crate) counters: Arc<Counters>,
    /// True once the server stops: whoever waits answers with what there is.
    pub(crate) stop: watch::Receiver<bool>,
}

impl App {
    /// Resolves when the server stops.
    pub(crate) async fn stopping(&self) {
        let mut stop = self.stop.clone();
        // The sender is gone only when the server is.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
