//! The engine's own pack: default queues, clean-up of old rows, health checks of database and workers, budget alerts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::store::{LiveOverride, Prune};
use windlass_core::{Store, StoreError, Time};
use windlass_engine::{AlertWatch, Retention};
use windlass_pack::health::Finding;
use windlass_pack::service::{Runs, Service};
use windlass_pack::settings::{Form, Section, Setting, Settings};
use windlass_pack::{Host, Pack, Registry};

use super::families;

const CLEANUP: Section = Section::plain("cleanup").about("How long things are kept.");
/// Interval of polling for alerts from other processes.
const ALERT_POLL: Duration = Duration::from_secs(10);

/// `retention` overrides the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnginePart {
    pub retention: Option<Retention>,
}

impl Pack for EnginePart {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn settings(&self) -> Vec<Setting> {
        let key =
            |name, default, about| Setting::new(CLEANUP, name, Form::Duration { min_ms: 0 }, default, about);
        vec![
            key("finished", "7d", "Age at which completed, cancelled and superseded jobs go"),
            key("dead_letters", "30d", "Age at which failed jobs and dead letters go"),
            key("idempotency", "1d", "How long an idempotency key is remembered"),
            key("rollups", "30d", "Age at which per-minute statistics go"),
        ]
    }

    fn register(&self, registry: &mut Registry) {
        for family in families() {
            registry.queue(family);
        }
        let retention = self.retention.unwrap_or_else(|| configured(registry.settings()));
        for task in retention.tasks() {
            let host = registry.host();
            registry.audited_cleanup(task.name, task.description, task.older_than, move |run| {
                let host = host.clone();
                async move {
                    let prune = Prune { what: task.what, older_than: run.older_than, dry_run: run.dry_run };
                    Ok(host.client()?.store().prune(&prune, run.actor.as_ref()).await?)
                }
            });
        }
        let host = registry.host();
        registry.check("database", move || {
            let host = host.clone();
            async move { database(&host).await.map_err(|error| error.chain()) }
        });
        let host = registry.host();
        registry.check("workers", move || {
            let host = host.clone();
            async move { workers(&host).await.map_err(|error| error.chain()) }
        });
        let watch = Arc::new(Mutex::new(None));
        let watched = watch.clone();
        registry.service(move || Alerts { watch: watched.clone() });
        // The first poll only marks alerts that fired earlier, so that they are not raised again.
        registry.on_open(|host| async move {
            let client = host.client().map_err(|error| error.chain())?.clone();
            let mut first = AlertWatch::new(client);
            first.tick().await.map_err(|error| error.chain())?;
            *watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
            Ok(())
        });
    }
}

fn configured(settings: &Settings) -> Retention {
    let usual = Retention::default();
    let age = |key, usual| settings.duration(CLEANUP, key).unwrap_or(usual);
    Retention {
        finished: age("finished", usual.finished),
        dead_letters: age("dead_letters", usual.dead_letters),
        idempotency: age("idempotency", usual.idempotency),
        rollups: age("rollups", usual.rollups),
    }
}

/// Findings of the store, and the live values that override the configuration.
async fn database(host: &Host) -> Result<Vec<Finding>, StoreError> {
    let store: &dyn Store = host.client()?.store().as_ref();
    let mut findings = Vec::new();
    for found in store.examine().await? {
        findings.push(match (found.ok, found.remedy) {
            (true, _) => Finding::ok(&found.name, found.finding),
            (false, remedy) => Finding::warning(&found.name, found.finding, remedy.unwrap_or_default()),
        });
    }
    findings.push(Finding::ok("live values", told(&store.live_overrides().await?)));
    Ok(findings)
}

/// Live values are no error, but without them the configuration is misleading.
fn told(live: &[LiveOverride]) -> String {
    if live.is_empty() {
        return "none; the configuration holds".to_owned();
    }
    let each = live.iter().map(|of| format!("{} {} (configured: {})", of.key, of.live, of.configured));
    let each: Vec<String> = each.collect();
    match each.len() {
        1 => format!("1 value holds instead of the configuration: {}", each.join(", ")),
        n => format!("{n} values hold instead of the configuration: {}", each.join(", ")),
    }
}

async fn workers(host: &Host) -> Result<Vec<Finding>, StoreError> {
    let store = host.client()?.store();
    let workers = store.workers().await?.len();
    let waiting: u64 = store.queues().await?.iter().map(|queue| queue.depth).sum();
    let plural = |count: u64, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let what = format!("{}, {} waiting", plural(workers as u64, "worker"), plural(waiting, "job"));
    Ok(vec![match workers {
        0 if waiting > 0 => Finding::warning("workers", what, "start one with `windlass serve`"),
        _ => Finding::ok("workers", what),
    }])
}

/// Raises alerts here that fired in other processes.
struct Alerts {
    watch: Arc<Mutex<Option<AlertWatch>>>,
}

#[async_trait]
impl Service for Alerts {
    fn name(&self) -> &'static str {
        "alerts"
    }

    /// In applications each alert would be repeated once per process.
    fn runs(&self) -> Runs {
        Runs::ServerOnly
    }

    async fn tick(&mut self, _: Time) -> Duration {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut watch) = watch {
            if let Err(error) = watch.tick().await {
                tracing::debug!(error = error.chain(), "alerts could not be read; the next poll reads them");
            }
            *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
        }
        ALERT_POLL
    }
}
