//! The write-ahead log stays bounded, also after a reader held it.

use std::path::Path;

use windlass_core::Store;
use windlass_store_sqlite::SqliteOptions;

use crate::setup::Setup;

fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(path.with_extension("db-wal")).unwrap().len()
}

async fn write_much(setup: &Setup) {
    for _ in 0..150 {
        setup.store.enqueue(&vec![setup.job(); 200]).await.unwrap();
    }
}

#[tokio::test]
async fn the_log_is_bounded() {
    let setup = Setup::with(SqliteOptions { checkpoint_pages: 500, ..SqliteOptions::default() }).await;
    write_much(&setup).await;
    let size = log_bytes(&setup.path());
    assert!(size < 4 * 500 * 4_200 * 2, "{size} bytes");
}

#[tokio::test]
async fn a_reader_lets_it_grow_until_it_ends() {
    let setup = Setup::with(SqliteOptions { checkpoint_pages: 300, ..SqliteOptions::default() }).await;
    let reader = rusqlite::Connection::open(setup.path()).unwrap();
    reader.execute_batch("begin; select count(*) from windlass_jobs").unwrap();
    write_much(&setup).await;
    let grown = log_bytes(&setup.path());
    assert!(grown > 4 * 300 * 4_096, "{grown} bytes");
    reader.execute_batch("rollback").unwrap();
    write_much(&setup).await;
    write_much(&setup).await;
    let after = log_bytes(&setup.path());
    assert!(after < grown + grown / 4, "the same room is used again: {after} after {grown} bytes");
}
