//! Copies on a schedule: the kind that makes and verifies one, its schedule, and the alarm when the last good one is old.
//!
//! A tick makes one job, so of any number of processes one makes the copy. Never removes the last verified copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use windlass_core::schedule::{RuleSpec, ScheduleSpec};
use windlass_core::store::Finding;
use windlass_core::{KindSpec, Store, StoreError, duration};
use windlass_engine::backup::{self, BackupError, TooOld, Verified};
use windlass_engine::{Client, Completion, Context, Handlers, JobError, handler};

use super::{mark_verified, noted};
use crate::compose::Scratch;
use crate::config::{Copies, Database};
use crate::failure::{During, Failure};

pub(crate) const KIND: &str = "BACKUP";
const QUEUE: &str = "LOW";
pub(crate) const SCHEDULE: &str = "windlass-backup";
/// Between two looks at the age of the last good copy.
const LOOK: Duration = Duration::from_secs(600);

/// Lets this process make copies; others that are not told to never take the job.
pub(crate) fn add_to(handlers: &mut Handlers, copies: &Copies, database: &Database) {
    let spec = KindSpec {
        description: "copies the database to the folder of backups and verifies the copy".to_owned(),
        max_attempts: 3,
        timeout: None,
        ..KindSpec::new(KIND, QUEUE)
    };
    let (copies, database) = (copies.clone(), database.clone());
    handlers.add(
        spec,
        handler(move |context, _: serde::de::IgnoredAny| make(context, copies.clone(), database.clone())),
    );
}

pub(crate) async fn schedule(client: &Client, copies: &Copies) -> Result<(), Failure> {
    let what = "cannot schedule the backups";
    client.put_own_schedule(&spec(copies)).await.during(what)?;
    Ok(())
}

pub(crate) fn spec(copies: &Copies) -> ScheduleSpec {
    ScheduleSpec {
        name: SCHEDULE.to_owned(),
        kind: KIND.to_owned(),
        payload: b"{}".to_vec(),
        unique_key: Some(SCHEDULE.to_owned()),
        // One copy at a time: two at once read the whole database twice, and neither is worth more than the other.
        concurrency_key: Some(SCHEDULE.to_owned()),
        rules: vec![RuleSpec { expr: copies.every.clone(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    }
}

#[derive(Serialize)]
struct Made {
    file: String,
    rows: u64,
    bytes: u64,
    verified: bool,
    removed: Vec<PathBuf>,
}

async fn make(context: Context, copies: Copies, database: Database) -> Result<Completion, JobError> {
    let store = context.client().store().clone();
    let shelf = &copies.shelf;
    shelf.prepare()?;
    Scratch::sweep(&database, &shelf.folder).await?;
    let path = shelf.path(store.now().await?);
    let mut told = |rows: u64, _: u64| context.progress(0.0, Some(&format!("{rows} rows copied")));
    let written = backup::write(store.as_ref(), &path, &mut told).await?;
    store.note_backup(&noted(&path, &written)).await?;
    if copies.verify {
        let mut told = |rows: u64, _: u64| {
            let percent = 100.0 * rows as f32 / written.rows.max(1) as f32;
            context.progress(percent, Some(&format!("{rows} rows verified")));
        };
        let scratch = Scratch::to_verify(&database, &shelf.folder).await?;
        let verified = backup::verify(scratch.store().as_ref(), &path, &mut told).await;
        scratch.end().await?;
        verified
            .inspect_err(|error| tracing::warn!(file = %path.display(), %error, "a backup is not good"))?;
        mark_verified(store.as_ref(), &written.digest, store.now().await?).await?;
    }
    let removed = shelf.rotate(store.as_ref()).await?;
    let file = path.display().to_string();
    tracing::info!(file, rows = written.rows, bytes = written.bytes, verified = copies.verify, "backup made");
    let made = Made { file, rows: written.rows, bytes: written.bytes, verified: copies.verify, removed };
    Completion::with(&made)
}

/// Looks soon after the start and then every ten minutes, until dropped.
pub(crate) async fn watch(store: Arc<dyn Store>, copies: Copies) {
    loop {
        match age(store.as_ref(), &copies).await {
            Ok(Age { verified, late: Some(late) }) => tracing::warn!(
                age = duration::format(late.age),
                alert_after = duration::format(copies.alert_after),
                "{}",
                said(&verified)
            ),
            Ok(Age { late: None, .. }) => {}
            Err(error) => {
                tracing::warn!(error = error.chain(), "cannot look at the age of the last backup")
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

struct Age {
    verified: Verified,
    late: Option<TooOld>,
}

async fn age(store: &dyn Store, copies: &Copies) -> Result<Age, StoreError> {
    let now = store.now().await?;
    let since = store.schedule(SCHEDULE).await?.map_or(now, |schedule| schedule.created_at);
    let verified = backup::last_verified(store, Some(&copies.shelf.folder)).await?;
    let late = backup::too_old(verified.newest, since, now, copies.alert_after);
    Ok(Age { verified, late })
}

fn said(verified: &Verified) -> String {
    let gone = verified.gone.as_ref().map(|file| file.display());
    match (verified.newest, gone) {
        (Some(at), None) => format!("the last verified backup is of {at}"),
        (Some(at), Some(gone)) => format!("the last verified backup is of {at}; {gone} is not there"),
        (None, Some(gone)) => format!("no verified backup is where it was put; {gone} is not there"),
        (None, None) => "no backup was ever verified".to_owned(),
    }
}

/// A line for `doctor`; nothing where no copies were asked for and none was made.
pub(crate) async fn examine(
    store: &dyn Store,
    copies: Option<&Copies>,
) -> Result<Option<Finding>, StoreError> {
    let line = |ok, finding, remedy: &str| {
        Some(Finding { name: "backup".to_owned(), ok, finding, remedy: (!ok).then(|| remedy.to_owned()) })
    };
    let Some(copies) = copies else {
        let verified = backup::last_verified(store, None).await?;
        let remedy = "make another: `windlass backup FILE`, then `windlass backup verify FILE`";
        return Ok(match verified.newest {
            None if verified.gone.is_some() => line(false, said(&verified), remedy),
            None => None,
            Some(at) => line(true, format!("the last verified one is of {at}; none is scheduled"), ""),
        });
    };
    let remedy = "see why with `windlass jobs --kind BACKUP`, or make one now: `windlass schedules run windlass-backup`";
    let Age { verified, late } = age(store, copies).await?;
    Ok(match verified.newest {
        _ if late.is_some() => line(false, said(&verified), remedy),
        Some(at) => line(true, format!("the last verified one is of {at}"), remedy),
        None if verified.gone.is_some() => line(false, said(&verified), remedy),
        None => line(true, "none yet; the first is to come".to_owned(), remedy),
    })
}

/// A line for `doctor` when killed processes left something that the next copy sweeps away.
pub(crate) async fn examine_left(
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
    Ok((!left.is_empty()).then(|| Finding {
        name: "backup leftovers".to_owned(),
        ok: false,
        finding: format!("a killed backup left {}", left.join(", ")),
        remedy: Some(remedy.to_owned()),
    }))
}
