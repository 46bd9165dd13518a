//! Shared state of all handlers.

use std::sync::Arc;

use tokio::sync::watch;
use windlass_engine::Client;
use windlass_pack::cleanup::CleanupTask;
use windlass_pack::health::Check;
use windlass_pack::metrics::Metrics;
use windlass_pack::page::Page;

use crate::options::Options;
use crate::read_back::ReadBack;
use crate::router::Counters;
use crate::stats::Stats;

pub(crate) struct App {
    pub(crate) client: Client,
    pub(crate) options: Options,
    pub(crate) read_back: ReadBack,
    pub(crate) stats: Arc<Stats>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) parts: Parts,
    /// True once the server stops. Waiting calls then return what they have.
    pub(crate) stop: watch::Receiver<bool>,
}

/// What parts contribute to the engine's own routes.
pub(crate) struct Parts {
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) checks: Vec<Check>,
    pub(crate) cleanup: Vec<CleanupTask>,
    pub(crate) pages: Vec<Page>,
}

impl App {
    /// Resolves when the server stops.
    pub(crate) async fn stopping(&self) {
        let mut stop = self.stop.clone();
        // The sender is dropped only with the server.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
