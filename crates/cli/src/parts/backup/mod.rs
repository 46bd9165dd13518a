//! Scheduled backups as a part: the kind that makes and verifies one, its schedule, its checks and its metric.
//!
//! A tick enqueues one job, so only one of several processes makes the backup.

mod age;
mod copies;
mod make;
pub(crate) mod notes;

use std::sync::{Arc, OnceLock};

use windlass_core::KindSpec;
use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_engine::{JobError, backup, handler};
use windlass_pack::metrics::{Labels, Samples, Series};
use windlass_pack::settings::Setting;
use windlass_pack::{Host, Pack, Registry};

use crate::config::Database;
use copies::Copies;

const KIND: &str = "BACKUP";
const QUEUE: &str = "LOW";
const SCHEDULE: &str = "windlass-backup";
const VERIFIED: Series = Series::gauge(
    "windlass_backup_last_verified_timestamp_seconds",
    "When the newest verified backup that is still there was taken.",
);

/// Backups of this process's database.
#[derive(Default)]
pub(crate) struct BackupPart {
    /// Set once the configuration was read.
    database: Arc<OnceLock<Database>>,
}

impl BackupPart {
    pub(crate) fn of(&self, database: &Database) {
        // The configuration is read once; a second call has no effect.
        let _ = self.database.set(database.clone());
    }
}

impl Pack for BackupPart {
    fn name(&self) -> &'static str {
        "backup"
    }

    fn settings(&self) -> Vec<Setting> {
        copies::declared()
    }

    fn register(&self, registry: &mut Registry) {
        let copies = copies::read(registry.settings());
        self.checks(registry, copies.as_ref());
        let (host, folder) = (registry.host(), copies.as_ref().map(|copies| copies.shelf.folder.clone()));
        registry.metrics(&[VERIFIED], move || {
            let (host, folder) = (host.clone(), folder.clone());
            async move {
                let store = host.client().map_err(|error| error.chain())?.store();
                let verified = backup::last_verified(store.as_ref(), folder.as_deref()).await;
                let mut samples = Samples::default();
                if let Some(at) = verified.map_err(|error| error.chain())?.newest {
                    samples.value(VERIFIED.name, Labels::new(), at.0 as f64 / 1e6);
                }
                Ok(samples)
            }
        });
        if let Some(copies) = copies {
            self.make(registry, copies);
        }
    }
}

impl BackupPart {
    /// Lets this process make backups. Processes without the setting do not handle the kind.
    fn make(&self, registry: &mut Registry, copies: Copies) {
        let spec = KindSpec {
            description: "copies the database to the folder of backups and verifies the copy".to_owned(),
            max_attempts: 3,
            timeout: None,
            ..KindSpec::new(KIND, QUEUE)
        };
        registry.schedule(schedule(&copies));
        let (host, watched) = (registry.host(), copies.clone());
        registry.service(move || age::Watch { host: host.clone(), copies: watched.clone() });
        let (database, host) = (self.database.clone(), registry.host());
        let run = move |context, _: serde::de::IgnoredAny| {
            let (copies, database, host) = (copies.clone(), database.get().cloned(), host.clone());
            async move {
                let database = database.ok_or_else(|| JobError::retry("the database is not known yet"))?;
                make::make(context, copies, database, host.holdings()?).await
            }
        };
        registry.kind(spec, handler(run));
    }

    fn checks(&self, registry: &mut Registry, copies: Option<&Copies>) {
        let (host, of) = (registry.host(), copies.cloned());
        registry.check("backup", move || {
            let (host, copies): (Host, Option<Copies>) = (host.clone(), of.clone());
            async move {
                let store = host.client().map_err(|error| error.chain())?.store();
                let found = age::examine(store.as_ref(), copies.as_ref()).await;
                Ok(found.map_err(|error| error.chain())?.into_iter().collect())
            }
        });
        let (database, of) = (self.database.clone(), copies.cloned());
        registry.check("backup leftovers", move || {
            let (database, copies) = (database.get().cloned(), of.clone());
            async move {
                let Some(database) = database else { return Ok(Vec::new()) };
                let found = age::examine_left(&database, copies.as_ref()).await;
                Ok(found.map_err(|error| error.chain())?.into_iter().collect())
            }
        });
    }
}

fn schedule(copies: &Copies) -> ScheduleSpec {
    ScheduleSpec {
        name: SCHEDULE.to_owned(),
        kind: KIND.to_owned(),
        payload: b"{}".to_vec(),
        unique_key: Some(SCHEDULE.to_owned()),
        // One backup at a time: two at once would read the whole database twice for nothing.
        concurrency_key: Some(SCHEDULE.to_owned()),
        rules: vec![RuleSpec { expr: copies.every.clone(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Time;
    use windlass_core::store::{BackupNote, BackupStore, Store};
    use windlass_engine::Client;
    use windlass_pack::Assembly;
    use windlass_pack::metrics::Measure;
    use windlass_pack::settings::Settings;
    use windlass_store_sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn the_metric_is_the_time_of_the_newest_verified_backup() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            Arc::new(SqliteStore::open(folder.path().join("b.db"), SqliteOptions::default()).unwrap());
        store.migrate_up(None).await.unwrap();
        let packs: Vec<Arc<dyn Pack>> = vec![Arc::new(BackupPart::default())];
        let mut assembly = Assembly::new(&packs, Settings::default(), Vec::new()).unwrap();
        assembly.visit(Client::open(store.clone(), &[], &[]).await.unwrap()).unwrap();
        let metrics = assembly.metrics();
        assert!((metrics[0].collect)().await.unwrap().0.is_empty(), "there is none yet");
        for (n, verified_at) in [(1, Some(Time(9))), (2, Some(Time(9))), (3, None)] {
            let (digest, file) = (n.to_string(), n.to_string());
            let note =
                BackupNote { digest, file, taken_at: Time(n * 1_000_000), rows: 0, bytes: 0, verified_at };
            store.note_backup(&note).await.unwrap();
        }
        let samples = (metrics[0].collect)().await.unwrap().0;
        assert!(matches!(samples[0].measure, Measure::Value(2.0)), "{samples:?}");
    }
}
