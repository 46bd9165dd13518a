//! `backup`, `backup verify`, `backup list` and `restore`.

mod list;
mod restore;

use std::path::Path;

use serde::Serialize;
use windlass_core::store::BackupNote;
use windlass_engine::backup::{self, Contents};

use super::Session;
use crate::args::{Backup, BackupVerb};
use crate::compose::{Address, Scratch};
use crate::failure::{During, Failure};
use crate::output::progress::Progress;
use crate::output::{plural, visible};
use crate::parts::backup::notes::{mark_verified, noted};
pub(crate) use restore::run as restore;

/// A new backup, in the format of `backup list`.
#[derive(Serialize)]
struct CopyView {
    file: String,
    taken_at: String,
    rows: u64,
    bytes: u64,
    sha256: String,
    verified_at: Option<String>,
    there: bool,
}

impl CopyView {
    fn of(note: &BackupNote) -> CopyView {
        CopyView {
            file: note.file.clone(),
            taken_at: note.taken_at.to_string(),
            rows: note.rows,
            bytes: note.bytes,
            sha256: note.digest.clone(),
            verified_at: note.verified_at.map(|at| at.to_string()),
            there: Path::new(&note.file).exists(),
        }
    }
}

#[derive(Serialize)]
struct ReadView {
    file: String,
    taken_at: String,
    source: String,
    rows: u64,
    bytes: u64,
    sha256: String,
    tables: Vec<TableView>,
    /// Only for `verify`: whether it was recorded in the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<bool>,
}

#[derive(Serialize)]
struct TableView {
    table: &'static str,
    rows: u64,
}

impl ReadView {
    fn of(file: &Path, contents: &Contents, recorded: Option<bool>) -> ReadView {
        let held = contents.tables.iter();
        ReadView {
            file: file.display().to_string(),
            taken_at: contents.head.taken_at.clone(),
            source: contents.head.source.clone(),
            rows: contents.rows,
            bytes: contents.bytes,
            sha256: contents.digest.clone(),
            tables: held.map(|held| TableView { table: held.table.name, rows: held.sum.rows }).collect(),
            recorded,
        }
    }
}

pub(crate) async fn run(session: &Session, args: Backup) -> Result<(), Failure> {
    match (args.verb, args.file) {
        (Some(BackupVerb::Verify { file, json }), _) => verify(session, &file, json.json).await,
        (Some(BackupVerb::List(json)), _) => list::run(session, json.json).await,
        (None, None) => list::run(session, args.json.json).await,
        (None, Some(file)) => make(session, &file, args.json.json).await,
    }
}

async fn make(session: &Session, file: &Path, json: bool) -> Result<(), Failure> {
    let store = session.existing().await?;
    let mut bar = Progress::of_bytes(session.output, "copied", None);
    let written =
        backup::write(store.as_ref(), &session.assembly()?.holdings(), file, &mut |_, bytes| bar.set(bytes))
            .await;
    let written = written.during("cannot make a backup")?;
    bar.finish(written.bytes);
    let note = noted(file, &written);
    store.note_backup(&note).await.during("the backup was made, but could not be noted in the database")?;
    if json {
        return session.output.json(&CopyView::of(&note));
    }
    session.output.line(format_args!(
        "{} copied to {} ({} bytes), as of {}",
        plural(written.rows, "row"),
        visible(&file.display().to_string()),
        written.bytes,
        written.taken_at
    ))
}

async fn verify(session: &Session, file: &Path, json: bool) -> Result<(), Failure> {
    let size = std::fs::metadata(file).during(format!("cannot read {}", file.display()))?.len();
    let mut bar = Progress::of_bytes(session.output, "verified", Some(size));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let what = "the backup is not good";
    Scratch::sweep(&session.config.database, folder).await.during("cannot verify")?;
    let held = session.assembly()?.holdings();
    let scratch =
        Scratch::to_verify(&session.config.database, folder, &held).await.during("cannot verify")?;
    let store = scratch.store();
    let verified = backup::verify(store.as_ref(), &held, file, &mut |_, bytes| bar.set(bytes)).await;
    scratch.end().await.during("cannot remove the scratch database")?;
    let contents = verified.during(what)?;
    bar.finish(size);
    let recorded = record(session, &contents).await?;
    if json {
        return session.output.json(&ReadView::of(file, &contents, Some(recorded)));
    }
    session.output.line(format_args!(
        "good: {} in {} restored and found equal, as of {}",
        plural(contents.rows, "row"),
        plural(contents.tables.len() as u64, "table"),
        contents.taken_at
    ))?;
    match recorded {
        true => Ok(()),
        false => session.output.line("not recorded: this database has not made that copy"),
    }
}

/// Only in the database that the backup is of: it says nothing about any other.
async fn record(session: &Session, contents: &Contents) -> Result<bool, Failure> {
    let database = &session.config.database;
    if matches!(&database.address, Address::Sqlite(path) if !path.exists()) {
        return Ok(false);
    }
    let store = session.open(database, false).await?;
    if store.check_schema().await.is_err() {
        return Ok(false);
    }
    let now = store.now().await.during("cannot read the clock")?;
    mark_verified(store.as_ref(), &contents.digest, now).await.during("cannot record the verification")
}
