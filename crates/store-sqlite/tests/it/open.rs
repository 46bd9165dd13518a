//! Usable and unusable paths.

use windlass_core::{Store, StoreError};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

fn refused(path: &std::path::Path, options: SqliteOptions) -> String {
    match SqliteStore::open(path, options) {
        Err(error @ StoreError::Open { .. }) => error.to_string(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("opened"),
    }
}

#[tokio::test]
async fn the_folder_is_made_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/windlass.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    assert!(matches!(store.check_schema().await, Err(StoreError::SchemaMissing)));
    store.close().await;
    assert!(path.exists());
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/windlass.db");
    let text = refused(&path, SqliteOptions { create: false, ..SqliteOptions::default() });
    assert!(text.contains("no such file") && text.contains("windlass.db"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_folder_memory_and_garbage_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refused(folder.path(), SqliteOptions::default()).contains("it is a folder"));
    assert!(refused(std::path::Path::new(":memory:"), SqliteOptions::default()).contains("lose every job"));
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "these are my notes, not a database, and they are long enough".repeat(100))
        .unwrap();
    assert!(refused(&path, SqliteOptions::default()).contains("not a database"));
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("these are my notes"));
}

/// A file as parent folder simulates a read-only one: permissions do not apply to root.
#[test]
fn an_unusable_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let text = refused(&folder.path().join("file/windlass.db"), SqliteOptions::default());
    assert!(text.contains("the folder") && text.contains("file"), "{text}");
}

/// `/proc` accepts no new files, even from root.
#[cfg(target_os = "linux")]
#[test]
fn an_unwritable_folder_is_refused_before_anything_is_written() {
    let text = refused(std::path::Path::new("/proc/windlass.db"), SqliteOptions::default());
    assert!(text.contains("the folder /proc"), "{text}");
}

#[tokio::test]
async fn calls_after_close_fail_and_the_file_is_whole() {
    let setup = crate::setup::Setup::new().await;
    let id = setup.put().await;
    setup.store.close().await;
    assert!(matches!(setup.store.enqueue(&[setup.job()]).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(setup.store.job(id).await, Err(StoreError::Unavailable { .. })));
    assert!(setup.store.begin().await.is_err());
    let wal = setup.folder.path().join("windlass.db-wal");
    assert!(!wal.exists(), "the last handle checkpoints the log into the file");
    assert!(setup.again().job(id).await.unwrap().is_some());
}

#[tokio::test]
async fn every_finding_of_a_healthy_store_is_ok() {
    let setup = crate::setup::Setup::new().await;
    let findings = setup.store.examine().await.unwrap();
    assert_eq!(findings.len(), 8);
    for line in findings.iter().filter(|line| line.name != "disk") {
        assert!(line.ok && line.remedy.is_none(), "{line:?}");
    }
    assert!(findings.iter().any(|line| line.finding.contains("synchronous=FULL")));
}

#[tokio::test]
async fn a_missing_schema_is_found_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::setup::open(&folder.path().join("windlass.db"));
    let findings = store.examine().await.unwrap();
    let schema = findings.iter().find(|line| line.name == "schema").unwrap();
    assert!(!schema.ok && schema.remedy.as_deref().unwrap().contains("migrate up"), "{schema:?}");
}

/// Closing any descriptor of the file drops all POSIX locks of the process on it. SQLite avoids that for its own
/// descriptors, so no one else may open the file. Without the locks another process believes that it is the last
/// one and deletes the log.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_second_handle_leaves_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;
    let setup = crate::setup::Setup::new().await;
    let inode = std::fs::metadata(setup.path()).unwrap().ino();
    let seen = || {
        let ours = format!(" {} ", std::process::id());
        let all = std::fs::read_to_string("/proc/locks").unwrap();
        let on_file = |line: &&str| line.contains("POSIX") && line.contains(&format!(":{inode} "));
        all.lines().filter(on_file).any(|line| line.contains(&ours))
    };
    // One reading may miss a lock while other processes take and release theirs; a lost lock never returns.
    let held = || (0..50).any(|_| seen());
    assert!(held(), "an open handle holds a lock");
    // The second handle is refused before it opens a connection, which would take the lock again.
    let folder_of_that_name = setup.folder.path().join("windlass.db-gate");
    std::fs::remove_file(&folder_of_that_name).unwrap();
    std::fs::create_dir(&folder_of_that_name).unwrap();
    refused(&setup.path(), SqliteOptions::default());
    assert!(held(), "opening the file again dropped the locks on it");
}

/// Payloads and results are nobody else's business.
#[tokio::test]
async fn what_is_created_belongs_to_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let store = SqliteStore::open(folder.join("windlass.db"), SqliteOptions::default()).unwrap();
    store.migrate_up(None).await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for name in ["windlass.db", "windlass.db-wal", "windlass.db-shm"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
}
