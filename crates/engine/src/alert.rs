//! Where a budget's alert goes: the log, at its level, and the meter.
//!
//! Owns what a process has raised, and the watch for alerts that arose in others: in a library process that nobody
//! scrapes, or in a verb of the command line that answers and ends. Never decides when one is due: `core::budget` does.

use std::time::Duration;

use windlass_core::budget::{Alert, Level};
use windlass_core::{StoreError, Time};

use crate::{Client, Meter};

/// A charge may come late and set off an alert of the month before; older months are over for good.
const LOOK_BACK: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// Raises here what was set off elsewhere. What fired before the first look is known and raises nothing: a restart is no
/// news.
pub struct AlertWatch {
    client: Client,
    /// Set by the first look.
    since: Option<Time>,
}

impl AlertWatch {
    pub fn new(client: Client) -> AlertWatch {
        AlertWatch { client, since: None }
    }

    /// One look. By keys, not by times: an alert that was committed late is as new as any.
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

/// Each alert once in this process, whoever brings it first: the call that set it off, or the look that finds it.
pub(crate) fn raise(meter: &Meter, alerts: &[Alert]) {
    for alert in alerts.iter().filter(|alert| meter.alerted(alert)) {
        let (budget, month) = (alert.budget.as_str(), alert.standing.month);
        let (percent, level) = (alert.threshold.percent, alert.threshold.level);
        let (used, limits) = (alert.standing.used(), alert.standing.limits);
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
