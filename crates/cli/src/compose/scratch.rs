//! A database of a benchmark's own, or for a backup to be tried out in, beside the one it was pointed at: another file in the same folder, another schema on
//! the same server. Never touches what is there; gone when ended.

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

/// Begins the name of what a backup is tried out in; something unique follows.
const VERIFY: &str = "windlass_verify_";
/// In the folder of a scratch file, locked by whoever uses it.
const HELD: &str = "held";
/// How often another name is tried when a sweep takes the new folder for left over.
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

    /// For a backup to be restored to: on the same server, or else a file in `folder`, which has room for a copy.
    /// It has the tables of every pack whose rows a copy may hold.
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

    /// What killed processes left of their own, on the server or in `folder`. Removes nothing.
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

    /// Removes that. Never touches what a living process uses: it holds a lock.
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

    /// With which another process opens it.
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

    /// Until a server has written back what it was given, so that this does not weigh on what is measured next; false where nobody
    /// of this role can make it. The writer of a file copies all the time: there is nothing to wait for.
    pub(crate) async fn rest(&self) -> Result<bool, StoreError> {
        match &self.place {
            Place::File { .. } => Ok(true),
            Place::Schema { store, .. } => store.checkpoint().await,
        }
    }

    /// A reader that holds on to the past; `None` where there is no such thing to hold.
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

/// A new hidden folder in `folder`, ours for as long as the lock is kept.
fn held_folder(folder: &Path) -> Result<(PathBuf, LockedFile), StoreError> {
    for _ in 0..TRIES {
        let new = folder.join(format!(".{VERIFY}{}", backup::unique()));
        let made = std::fs::create_dir_all(&new).and_then(|()| LockedFile::create(&new.join(HELD)));
        if let Some(held) = made.map_err(|error| failed(&new, "made", error))? {
            return Ok((new, held));
        }
    }
    Err(failed(folder, "used", std::io::Error::other("somebody removes each scratch folder in it")))
}

/// Folders whose users are gone, locked against others who sweep.
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
            // Killed before it could be locked, or just about to be.
            Ok(None) if !path.join(HELD).exists() && backup::is_old(&path).unwrap_or(false) => {
                left.push((path, None));
            }
            // What cannot be looked at is none of ours.
            Ok(None) | Err(_) => {}
        }
    }
    Ok(left)
}

/// The schemas of [`Scratch::to_verify`].
fn pattern() -> String {
    format!("^{VERIFY}[0-9a-f]{{21}}$")
}

fn remove(folder: &Path) -> Result<(), StoreError> {
    std::fs::remove_dir_all(folder).map_err(|error| failed(folder, "removed", error))
}

fn failed(folder: &Path, done: &str, error: std::io::Error) -> StoreError {
    StoreError::Open { what: folder.display().to_string(), why: format!("it could not be {done}: {error}") }
}

/// The address with our schema in place of whichever it names.
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
    fn what_nobody_uses_is_swept_and_nothing_else() {
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
