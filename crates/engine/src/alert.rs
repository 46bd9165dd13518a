//! Raises a budget's alerts: in the log, at their level, and in the metrics.
//!
//! Also watches for alerts that fired in other processes, which may not be scraped or may have ended: an application,
//! or a command. `core::budget` decides when an alert is due.

use std::time::Duration;

use windlass_core::budget::{Alert, Level};
use windlass_core::{StoreError, Time};

use crate::{Client, Meter};

/// A late charge may fire an alert of the month before; older months are closed.
const LOOK_BACK: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// Raises alerts that fired in other processes. Those that fired before the first look are not raised: a restart must
/// not repeat them.
pub struct AlertWatch {
    client: Client,
    /// Set by the first look.
    since: Option<Time>,
}

impl AlertWatch {
    pub fn new(client: Client) -> AlertWatch {
        AlertWatch { client, since: None }
    }

    /// One look. Alerts are told apart by key, not by time, so one that was committed late is found too.
    pub async fn tick(&mut self) -> Result<(), StoreError> {
        let store = self.client.store();
        match self.since {
            Some(since) => raise(self.client.meter(), &store.alerts_since(since).await?),
            None => {
                let since = store.now().await?.minus(LOOK_BACK);
                self.client.meter().knows(&store.alerts_since(since).await?);
                self.since = Some(since);
            }
        }
        Ok(())
    }
}

/// Raises each alert once in this process, whether the call that fired it or the watch brings it first.
pub(crate) fn raise(meter: &Meter, alerts: &[Alert]) {
    for alert in alerts.iter().filter(|alert| meter.alerted(alert)) {
        let (budget, month) = (alert.budget.as_str(), alert.figures.month);
        let (percent, level) = (alert.threshold.percent, alert.threshold.level);
        let (used, limits) = (alert.figures.used(), alert.figures.limits);
        let limit = limits.amount.map(|limit| limit.to_string());
        let (limit, currency) = (limit.as_deref(), alert.currency.as_str());
        let (used, tokens, token_limit) = (used.amount, used.tokens, limits.tokens);
        macro_rules! log {
            ($at:ident) => {
                tracing::$at!(
                    budget, %month, percent, %level, %used, limit, currency, tokens, token_limit,
                    "a budget reached {percent} % of its limit"
                )
            };
        }
        match level {
            Level::Info => log!(info),
            Level::Warning => log!(warn),
            Level::Critical => log!(error),
        }
    }
}
