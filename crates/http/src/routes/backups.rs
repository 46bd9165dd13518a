//! Backups of the database.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::Method;
use windlass_core::store::BackupNote;
use windlass_pack::{Answer, Call, Problem, Route, Scope, ok, shape};

use super::{Table, route};
use crate::app::App;
use crate::view::{ListView, Stamp};

/// Rotation keeps their number small.
const SHOWN: u32 = 1_000;

pub(super) fn routes(app: &Table) -> Vec<Route> {
    let about = "Backups that were not rotated away, newest first";
    vec![
        route(app, Method::GET, "/v1/backups", "list_backups", about, list)
            .needs(Scope::Read)
            .json::<ListView<BackupView>>(200, "The newest 1,000 backups"),
    ]
}

shape! {
    /// A backup of the database.
    pub struct BackupView as "Backup" {
        /// Path on the machine that made it.
        pub file: String,
        pub taken_at: Stamp,
        pub rows: u64,
        pub bytes: u64,
        pub sha256: String,
        /// When it was restored to a scratch database and found equal.
        pub verified_at: Option<Stamp>,
        /// Whether the file exists, as seen by the process that answers.
        pub there: bool,
    }
}

async fn list(app: Arc<App>, _: Call) -> Answer {
    let notes = app.client.backups(SHOWN).await?;
    // File access may be slow on a network disk.
    let views = tokio::task::spawn_blocking(move || notes.into_iter().map(view).collect());
    let views: Vec<BackupView> = views.await.map_err(|error| {
        Problem::internal("the files of the backups could not be checked", &error.to_string())
    })?;
    ok(&ListView::whole(views))
}

fn view(note: BackupNote) -> BackupView {
    BackupView {
        there: PathBuf::from(&note.file).exists(),
        file: note.file,
        taken_at: Stamp(note.taken_at),
        rows: note.rows,
        bytes: note.bytes,
        sha256: note.digest,
        verified_at: note.verified_at.map(Stamp),
    }
}
