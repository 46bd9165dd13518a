//! The job that makes a backup, verifies it and removes surplus ones. Never removes the last verified one.

use std::path::PathBuf;

use serde::Serialize;
use windlass_core::backup::Holdings;
use windlass_engine::backup;
use windlass_engine::{Completion, Context, JobError};

use super::Copies;
use super::notes::{mark_verified, noted};
use crate::compose::Scratch;
use crate::config::Database;

#[derive(Serialize)]
struct Made {
    file: String,
    rows: u64,
    bytes: u64,
    verified: bool,
    removed: Vec<PathBuf>,
}

pub(super) async fn make(
    context: Context,
    copies: Copies,
    database: Database,
    held: &Holdings,
) -> Result<Completion, JobError> {
    let store = context.client().store().clone();
    let shelf = &copies.shelf;
    shelf.prepare()?;
    Scratch::sweep(&database, &shelf.folder).await?;
    let path = shelf.path(store.now().await?, context.job_id());
    let mut progress = |rows: u64, _: u64| context.progress(0.0, Some(&format!("{rows} rows copied")));
    let written = backup::write(store.as_ref(), held, &path, &mut progress).await?;
    store.note_backup(&noted(&path, &written)).await?;
    if copies.verify {
        let mut progress = |rows: u64, _: u64| {
            let percent = 100.0 * rows as f32 / written.rows.max(1) as f32;
            context.progress(percent, Some(&format!("{rows} rows verified")));
        };
        let scratch = Scratch::to_verify(&database, &shelf.folder, held).await?;
        let verified = backup::verify(scratch.store().as_ref(), held, &path, &mut progress).await;
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
