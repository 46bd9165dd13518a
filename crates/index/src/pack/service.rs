//! Background service that keeps the index up to date with the change feed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::Time;
use windlass_pack::service::{Runs, Service};

use crate::Entities;
use crate::service::LOOK_EVERY;

pub(super) struct Follow {
    opened: Arc<OnceLock<Entities>>,
    patience: Duration,
}

impl Follow {
    pub(super) fn new(opened: Arc<OnceLock<Entities>>) -> Follow {
        Follow { opened, patience: LOOK_EVERY }
    }
}

#[async_trait]
impl Service for Follow {
    fn name(&self) -> &'static str {
        "index follower"
    }

    /// A process that only runs jobs does not search.
    fn runs(&self) -> Runs {
        Runs::Serving
    }

    async fn tick(&mut self, _: Time) -> Duration {
        if let Some(entities) = self.opened.get() {
            self.patience = entities.look(self.patience).await;
        }
        self.patience
    }

    async fn rest(&mut self, next: Duration) {
        match self.opened.get() {
            Some(entities) => entities.nudged(next).await,
            None => tokio::time::sleep(next).await,
        }
    }
}
