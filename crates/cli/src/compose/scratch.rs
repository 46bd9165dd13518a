//! A database of a benchmark's own, or for a backup to be tried out in, beside the one it was pointed at: another file in the same folder, another schema on
//! the same server. Never touches what is there; gone when ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::store::Limit;
use windlass_core::{Store, StoreError};
use windlass_store_postgres::{HeldSnapshot, PostgresStore};
use windlass_store_sqlite::{SqliteOptions, SqliteStore, limit};

use super::{Address, postgres_options};
use crate::config::Database;

pub(crate) struct Scratch {
    place: Place,
}

enum Place {
    File { folder: PathBuf, store: Arc<SqliteStore> },
    Schema { url: String, store: Arc<PostgresStore> },
}

impl Scratch {
    pub(crate) async fn open(database: &Database) -> Result<Scratch, StoreError> {
        let name = format!("windlass_bench_{}", std::process::id());
        let place = match &database.address {
            Address::Sqlite(path) => {
                let folder = path.parent().unwrap_or(Path::new(".")).join(name);
                let store = Arc::new(SqliteStore::open(folder.join("bench.db"), SqliteOptions::default())?);
                Place::File { folder, store }
            }
            Address::Postgres(url) => {
                let url = in_schema(url, &name);
                let store = PostgresStore::connect(&url, postgres_options(database)).await?;
                Place::Schema { url, store: Arc::new(store) }
            }
        };
        let scratch = Scratch { place };
        scratch.store().migrate_up(None).await?;
        Ok(scratch)
    }

    /// For a backup to be restored to: on the same server, or else a file in `folder`, which has room for a copy.
    pub(crate) async fn to_verify(database: &Database, folder: &Path) -> Result<Scratch, StoreError> {
        let name = format!("windlass_verify_{}", std::process::id());
        let place = match &database.address {
            Address::Sqlite(_) => {
                let folder = folder.join(format!(".{name}"));
                // A process of the same number may have been killed here.
                if folder.exists() {
                    remove(&folder)?;
                }
                let store = Arc::new(SqliteStore::open(folder.join("verify.db"), SqliteOptions::default())?);
                Place::File { folder, store }
            }
            Address::Postgres(url) => {
                let url = in_schema(url, &name);
                let store = PostgresStore::connect(&url, postgres_options(database)).await?;
                store.drop_schema().await?;
                Place::Schema { url, store: Arc::new(store) }
            }
        };
        let scratch = Scratch { place };
        scratch.store().migrate_up(None).await?;
        Ok(scratch)
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
    pub(crate) async fn limit(&self, jobs: u64) -> Result<Limit, StoreError> {
        match &self.place {
            Place::File { folder, .. } => {
                let path = folder.join("limit.db");
                let measured = tokio::task::spawn_blocking(move || limit::measure(&path, jobs)).await;
                measured.unwrap_or_else(|error| {
                    Err(StoreError::Open { what: "the bare loop".to_owned(), why: error.to_string() })
                })
            }
            Place::Schema { store, .. } => store.measure_limit(jobs).await,
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
            Place::File { folder, store } => {
                store.close().await;
                remove(&folder)
            }
            Place::Schema { store, .. } => {
                store.drop_schema().await?;
                store.close().await;
                Ok(())
            }
        }
    }
}

fn remove(folder: &Path) -> Result<(), StoreError> {
    std::fs::remove_dir_all(folder).map_err(|error| StoreError::Open {
        what: folder.display().to_string(),
        why: format!("it could not be removed: {error}"),
    })
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
    fn the_schema_is_replaced_and_the_rest_kept() {
        assert_eq!(in_schema("postgres://h/d", "s"), "postgres://h/d?schema=s");
        assert_eq!(in_schema("postgres://h/d?schema=x&a=b", "s"), "postgres://h/d?a=b&schema=s");
    }
}
