//! A scratch database for a benchmark or for verifying a backup: another file in the same folder, or another schema on
//! the same server. Never touches existing data; removed at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::backup::Holdings;
use windlass_core::store::BenchLimit;
use windlass_core::{Store, StoreError};
use windlass_engine::backup::{self, LockedFile};
use windlass_store_postgres::{HeldSchema, HeldSnapshot, PostgresStore};
use windlass_store_sqlite::{SqliteOptions, SqliteStore, bench_limit};

use super::{Address, postgres_options};
use crate::config::Database;

pub(crate) struct Scratch {
    place: Place,
}

enum Place {
    File { folder: PathBuf, store: Arc<SqliteStore>, held: Option<LockedFile> },
    Schema { url: String, store: Arc<PostgresStore>, held: Option<HeldSchema> },
}

/// Prefix of scratch databases for verification, followed by a unique suffix.
const VERIFY: &str = "windlass_verify_";
/// A file in the folder of a scratch database, locked by its user.
const HELD: &str = "held";
/// How often to try another name if a sweep removes the new folder.
const TRIES: usize = 5;

impl Scratch {
    pub(crate) async fn open(database: &Database) -> Result<Scratch, StoreError> {
        let name = format!("windlass_bench_{}", std::process::id());
        let place = match &database.address {
            Address::Sqlite(path) => {
                let folder = path.parent().unwrap_or(Path::new(".")).join(name);
                let store = Arc::new(SqliteStore::open(folder.join("bench.db"), SqliteOptions::default())?);
                Place::File { folder, store, held: None }
            }
            Address::Postgres(url) => {
                let url = in_schema(url, &name);
                let store = PostgresStore::connect(&url, postgres_options(database)).await?;
                Place::Schema { url, store: Arc::new(store), held: None }
            }
        };
        let scratch = Scratch { place };
        scratch.store().migrate_up(None).await?;
        Ok(scratch)
    }

    /// For restoring a backup: on the same server, or a file in `folder`, which has room for a copy. Has the tables of
    /// all packs whose rows the backup may contain.
    pub(crate) async fn to_verify(
        database: &Database,
        folder: &Path,
        holdings: &Holdings,
    ) -> Result<Scratch, StoreError> {
        let place = match &database.address {
            Address::Sqlite(_) => {
                let (folder, held) = held_folder(folder)?;
                let store = Arc::new(SqliteStore::open(folder.join("verify.db"), SqliteOptions::default())?);
                Place::File { folder, store, held: Some(held) }
            }
            Address::Postgres(url) => {
                let url = in_schema(url, &format!("{VERIFY}{}", backup::unique()));
                let store = PostgresStore::connect(&url, postgres_options(database)).await?;
                let held = store.hold_schema().await?;
                Place::Schema { url, store: Arc::new(store), held: Some(held) }
            }
        };
        let scratch = Scratch { place };
        scratch.store().migrate_up(None).await?;
        for pack in &holdings.packs {
            scratch.store().migrate_pack_up(&pack.name, &pack.steps).await?;
        }
        Ok(scratch)
    }

    /// What killed processes left on the server or in `folder`. Removes nothing.
    pub(crate) async fn left(database: &Database, folder: &Path) -> Result<Vec<String>, StoreError> {
        match &database.address {
            Address::Sqlite(_) => {
                Ok(left_folders(folder)?.into_iter().map(|(left, _)| left.display().to_string()).collect())
            }
            Address::Postgres(url) => {
                let store = PostgresStore::connect(url, postgres_options(database)).await?;
                let left = store.left_schemas(&pattern()).await;
                store.close().await;
                left
            }
        }
    }

    /// Removes those. Never touches what a running process uses, because it holds a lock.
    pub(crate) async fn sweep(database: &Database, folder: &Path) -> Result<(), StoreError> {
        let gone = match &database.address {
            Address::Sqlite(_) => {
                let mut gone = Vec::new();
                for (left, _held) in left_folders(folder)? {
                    remove(&left)?;
                    gone.push(left.display().to_string());
                }
                gone
            }
            Address::Postgres(url) => {
                let store = PostgresStore::connect(url, postgres_options(database)).await?;
                let gone = store.sweep_schemas(&pattern()).await;
                store.close().await;
                gone?
            }
        };
        if !gone.is_empty() {
            tracing::info!(?gone, "removed what killed backups left");
        }
        Ok(())
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match &self.place {
            Place::File { store, .. } => store.clone(),
            Place::Schema { store, .. } => store.clone(),
        }
    }

    /// The address for another process.
    pub(crate) fn url(&self) -> String {
        match &self.place {
            Place::File { folder, .. } => format!("sqlite://{}", folder.join("bench.db").display()),
            Place::Schema { url, .. } => url.clone(),
        }
    }

    /// The bare loop on the same disk or server.
    pub(crate) async fn limit(&self, jobs: u64) -> Result<BenchLimit, StoreError> {
        match &self.place {
            Place::File { folder, .. } => {
                let path = folder.join("limit.db");
                let measured = tokio::task::spawn_blocking(move || bench_limit::measure(&path, jobs)).await;
                measured.unwrap_or_else(|error| {
                    Err(StoreError::Open { what: "the bare loop".to_owned(), why: error.to_string() })
                })
            }
            Place::Schema { store, .. } => store.measure_limit(jobs).await,
        }
    }

    /// Waits until the server has written back its changes, so that they do not slow down the next measurement. False
    /// if this role cannot force it. SQLite needs no wait: its writer checkpoints continuously.
    pub(crate) async fn rest(&self) -> Result<bool, StoreError> {
        match &self.place {
            Place::File { .. } => Ok(true),
            Place::Schema { store, .. } => store.checkpoint().await,
        }
    }

    /// A reader that keeps an old snapshot open; `None` on SQLite.
    pub(crate) async fn hold_snapshot(&self) -> Result<Option<HeldSnapshot>, StoreError> {
        match &self.place {
            Place::File { .. } => Ok(None),
            Place::Schema { store, .. } => store.hold_snapshot().await.map(Some),
        }
    }

    pub(crate) async fn end(self) -> Result<(), StoreError> {
        match self.place {
            Place::File { folder, store, held } => {
                store.close().await;
                let removed = remove(&folder);
                drop(held);
                removed
            }
            Place::Schema { store, held, .. } => {
                store.drop_schema().await?;
                drop(held);
                store.close().await;
                Ok(())
            }
        }
    }
}

/// A new hidden folder in `folder`, owned as long as its lock is held.
fn held_folder(folder: &Path) -> Result<(PathBuf, LockedFile), StoreError> {
    for _ in 0..TRIES {
        let new = folder.join(format!(".{VERIFY}{}", backup::unique()));
        let made = std::fs::create_dir_all(&new).and_then(|()| LockedFile::create(&new.join(HELD)));
        if let Some(held) = made.map_err(|error| failed(&new, "made", error))? {
            return Ok((new, held));
        }
    }
    Err(failed(
        folder,
        "used",
        std::io::Error::other("each scratch folder in it is removed by another process"),
    ))
}

/// Folders whose users are gone, locked against other sweeps.
fn left_folders(folder: &Path) -> Result<Vec<(PathBuf, Option<LockedFile>)>, StoreError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed(folder, "listed", error))?,
    };
    let mut left = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, "listed", error))?;
        let name = entry.file_name();
        let token = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_prefix(VERIFY));
        if !token.is_some_and(backup::is_unique) {
            continue;
        }
        let path = entry.path();
        match LockedFile::abandoned(&path.join(HELD)) {
            Ok(Some(held)) => left.push((path, Some(held))),
            // Its process was killed before it could lock it, or is about to lock it.
            Ok(None) if !path.join(HELD).exists() && backup::is_old(&path).unwrap_or(false) => {
                left.push((path, None));
            }
            // A folder that cannot be checked is not ours.
            Ok(None) | Err(_) => {}
        }
    }
    Ok(left)
}

/// Matches the schemas of [`Scratch::to_verify`].
fn pattern() -> String {
    format!("^{VERIFY}[0-9a-f]{{21}}$")
}

fn remove(folder: &Path) -> Result<(), StoreError> {
    std::fs::remove_dir_all(folder).map_err(|error| failed(folder, "removed", error))
}

fn failed(folder: &Path, done: &str, error: std::io::Error) -> StoreError {
    StoreError::Open { what: folder.display().to_string(), why: format!("it could not be {done}: {error}") }
}

/// The address with our schema instead of its own.
fn in_schema(url: &str, schema: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("schema="));
    let pairs: Vec<&str> = kept.collect();
    let pairs = if pairs.is_empty() { String::new() } else { format!("{}&", pairs.join("&")) };
    format!("{base}?{pairs}schema={schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_folders_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let (used, held) = held_folder(folder.path()).unwrap();
        let (left, gone) = held_folder(folder.path()).unwrap();
        drop(gone);
        let just_made = folder.path().join(format!(".{VERIFY}{}", backup::unique()));
        std::fs::create_dir(&just_made).unwrap();
        std::fs::create_dir(folder.path().join(".windlass_verify_mine")).unwrap();
        let found: Vec<PathBuf> =
            left_folders(folder.path()).unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(found, [left]);
        drop((used, held));
    }

    #[test]
    fn the_schema_is_replaced_and_the_rest_kept() {
        assert_eq!(in_schema("postgres://h/d", "s"), "postgres://h/d?schema=s");
        assert_eq!(in_schema("postgres://h/d?schema=x&a=b", "s"), "postgres://h/d?a=b&schema=s");
    }
}
