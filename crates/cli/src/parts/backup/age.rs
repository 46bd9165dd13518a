//! The age of the last good backup, as a health check and as a warning in the log.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::{Store, StoreError, Time, duration};
use windlass_engine::backup::{self, BackupError, TooOld, Verified};
use windlass_pack::Host;
use windlass_pack::health::Finding;
use windlass_pack::service::Service;

use super::{Copies, SCHEDULE};
use crate::compose::Scratch;
use crate::config::Database;

/// The name of the health check.
const NAME: &str = "backup";
/// Interval for checking the age.
const LOOK: Duration = Duration::from_secs(600);

/// Logs a warning while the last good backup is too old.
pub(super) struct Watch {
    pub(super) host: Host,
    pub(super) copies: Copies,
}

#[async_trait]
impl Service for Watch {
    fn name(&self) -> &'static str {
        "backup watch"
    }

    async fn tick(&mut self, _: Time) -> Duration {
        let Ok(client) = self.host.client() else { return LOOK };
        match age(client.store().as_ref(), &self.copies).await {
            Ok(Age { verified, late: Some(late) }) => tracing::warn!(
                age = duration::rough(late.age),
                alert_after = duration::format(self.copies.alert_after),
                "{}",
                describe(&verified)
            ),
            Ok(Age { late: None, .. }) => {}
            Err(error) => {
                tracing::warn!(error = error.chain(), "cannot look at the age of the last backup")
            }
        }
        LOOK
    }
}

pub(super) struct Age {
    pub(super) verified: Verified,
    pub(super) late: Option<TooOld>,
}

pub(super) async fn age(store: &dyn Store, copies: &Copies) -> Result<Age, StoreError> {
    let now = store.now().await?;
    let since = store.schedule(SCHEDULE).await?.map_or(now, |schedule| schedule.created_at);
    let verified = backup::last_verified(store, Some(&copies.shelf.folder)).await?;
    let late = backup::too_old(verified.newest, since, now, copies.alert_after);
    Ok(Age { verified, late })
}

pub(super) fn describe(verified: &Verified) -> String {
    let gone = verified.gone.as_ref().map(|file| file.display());
    match (verified.newest, gone) {
        (Some(at), None) => format!("the last verified backup is of {at}"),
        (Some(at), Some(gone)) => format!("the last verified backup is of {at}; {gone} is not there"),
        (None, Some(gone)) => format!("no verified backup is where it was put; {gone} is not there"),
        (None, None) => "no backup was ever verified".to_owned(),
    }
}

/// No finding if no backups are configured and none was made.
pub(super) async fn examine(
    store: &dyn Store,
    copies: Option<&Copies>,
) -> Result<Option<Finding>, StoreError> {
    let line = |ok, finding: String, remedy: &str| {
        Some(if ok { Finding::ok(NAME, finding) } else { Finding::warning(NAME, finding, remedy) })
    };
    let Some(copies) = copies else {
        let verified = backup::last_verified(store, None).await?;
        let remedy = "make another: `windlass backup FILE`, then `windlass backup verify FILE`";
        return Ok(match verified.newest {
            None if verified.gone.is_some() => line(false, describe(&verified), remedy),
            None => None,
            Some(at) => line(true, format!("the last verified one is of {at}; none is scheduled"), ""),
        });
    };
    let remedy = "see why with `windlass jobs --kind BACKUP`, or make one now: `windlass schedules run windlass-backup`";
    let Age { verified, late } = age(store, copies).await?;
    Ok(match verified.newest {
        _ if late.is_some() => line(false, describe(&verified), remedy),
        Some(at) => line(true, format!("the last verified one is of {at}"), remedy),
        None if verified.gone.is_some() => line(false, describe(&verified), remedy),
        None => line(true, "none yet; the first is to come".to_owned(), remedy),
    })
}

/// Reports what killed processes left; the next backup removes it.
pub(super) async fn examine_left(
    database: &Database,
    copies: Option<&Copies>,
) -> Result<Option<Finding>, StoreError> {
    let unreadable =
        |error: BackupError| StoreError::Open { what: "the backups".to_owned(), why: error.to_string() };
    let mut left = match copies {
        Some(copies) => {
            let drafts = copies.shelf.left().map_err(unreadable)?;
            drafts.into_iter().map(|draft| draft.display().to_string()).collect()
        }
        None => Vec::new(),
    };
    let folder = copies.map_or(Path::new("."), |copies| &copies.shelf.folder);
    left.extend(Scratch::left(database, folder).await?);
    let remedy = match copies {
        Some(_) => "the next scheduled backup removes it: `windlass schedules run windlass-backup`",
        None => "the next `windlass backup verify FILE` removes it",
    };
    let what = format!("a killed backup left {}", left.join(", "));
    Ok((!left.is_empty()).then(|| Finding::warning("backup leftovers", what, remedy)))
}
