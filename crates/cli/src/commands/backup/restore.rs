//! `restore FILE`: into a new or empty database. If the file is then refused, a database that was created or migrated
//! for it is removed again. Left empty, it would look like a restored one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::store::JobFilter;
use windlass_core::{Store, StoreError};
use windlass_engine::backup;
use windlass_pack::Assembly;

use super::ReadView;
use crate::args::Restore;
use crate::commands::Session;
use crate::compose::{self, Address};
use crate::failure::{During, Failure};
use crate::output::plural;
use crate::output::progress::Progress;

/// What a restore created before the first row.
enum Made {
    Nothing,
    File(PathBuf),
    Tables,
}

pub(crate) async fn run(session: &Session, args: &Restore) -> Result<(), Failure> {
    let (file, database) = (&args.file, &session.config.database);
    let (assembly, what) = (session.assembly()?, format!("cannot restore into {}", database.address));
    let held = assembly.holdings();
    let size = std::fs::metadata(file).during(format!("cannot read {}", file.display()))?.len();
    // Before anything is created.
    backup::inspect(file, compose::newest_schema(database), &held).during(what.as_str())?;
    let is_new = matches!(&database.address, Address::Sqlite(path) if !path.exists());
    let store = session.open(database, true).await?;
    let made = match (&database.address, store.check_schema().await) {
        (Address::Sqlite(path), _) if is_new => Made::File(path.clone()),
        (_, Err(StoreError::SchemaMissing)) => Made::Tables,
        _ => Made::Nothing,
    };
    session.migrated(&store, database, true).await?;
    let mut bar = Progress::of_bytes(session.output, "restored", Some(size));
    let restored = backup::restore(store.as_ref(), &held, file, &mut |_, bytes| bar.set(bytes)).await;
    if restored.is_err() {
        take_back(&store, &assembly, made).await;
    }
    let contents = restored.during(what)?;
    bar.finish(size);
    if args.json.json {
        return session.output.json(&ReadView::of(file, &contents, None));
    }
    session.output.line(format_args!(
        "{} in {} restored into {}, as of {}",
        plural(contents.rows, "row"),
        plural(contents.tables.len() as u64, "table"),
        database.address,
        contents.taken_at
    ))
}

async fn take_back(store: &Arc<dyn Store>, assembly: &Assembly, made: Made) {
    if !is_unused(store.as_ref()).await {
        return;
    }
    match made {
        Made::Nothing => {}
        Made::File(path) => {
            store.close().await;
            discard(&path);
        }
        Made::Tables => {
            if let Err(error) = drop_tables(store.as_ref(), assembly).await {
                tracing::warn!(error = error.chain(), "cannot remove the empty tables");
            }
        }
    }
}

async fn drop_tables(store: &dyn Store, assembly: &Assembly) -> Result<(), StoreError> {
    for (pack, steps) in assembly.migrations() {
        store.migrate_pack_down(pack, steps, 0).await?;
    }
    store.migrate_down(0).await?;
    Ok(())
}

/// Checks that no other process has started to use it.
async fn is_unused(store: &dyn Store) -> bool {
    let (jobs, workers) = (store.count(&JobFilter::default()).await, store.workers().await);
    matches!((jobs, workers), (Ok(0), Ok(workers)) if workers.is_empty())
}

/// Removes the file that this restore created, and the files beside it.
fn discard(path: &Path) {
    for end in ["", "-wal", "-shm", "-gate", "-turn"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %Path::new(&name).display(), %error, "cannot remove the empty database");
            }
            _ => {}
        }
    }
}
