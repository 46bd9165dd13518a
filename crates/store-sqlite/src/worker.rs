//! Worker registrations.
//!
//! Owns: the workers table and one lock file per worker, held for as long as its process lives. The kernel frees
//! the lock even at kill -9, so a death is seen at once and without a clock. Never identifies a worker by host: a
//! restarted process is another worker. Never waits for a lock: the whole store would wait with it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use windlass_core::store::{WorkerInfo, WorkerLimits, WorkerRow};
use windlass_core::sweep::{Beat, Look, Presence};
use windlass_core::time::micros;
use windlass_core::{QueueId, StoreError, Time, WorkerId};

use crate::error::{Answer, STORE};
use crate::gate::beside;
use crate::resource;
use crate::row::duration;
use crate::scope::Scope;

/// The lock files of the workers registered through this handle, and their folder.
pub(crate) struct Locks {
    folder: PathBuf,
    own: Mutex<HashMap<WorkerId, File>>,
}

impl Locks {
    pub(crate) fn new(database: &Path) -> Locks {
        Locks { folder: beside(database, "-workers"), own: Mutex::default() }
    }

    fn path(&self, worker: WorkerId) -> PathBuf {
        self.folder.join(format!("{worker}.lock"))
    }

    /// Takes the lock before the worker's row is committed: no one may see a worker without a lock.
    fn take(&self, worker: WorkerId) -> Result<File, StoreError> {
        const OP: &str = "lock the worker's file";
        let failed = |error: std::io::Error| StoreError::Other { store: STORE, op: OP, source: error.into() };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let path = self.path(worker);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::Error(error)) => Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let source = format!("another process holds the lock on {}", path.display()).into();
                Err(StoreError::Busy { op: OP, source })
            }
        }
    }

    /// Keeps the lock of a worker whose row is committed.
    pub(crate) fn keep(&self, worker: WorkerId, lock: File) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(worker, lock);
    }

    /// Drops the lock of the worker and deletes its file.
    pub(crate) fn release(&self, worker: WorkerId) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker);
        // A leftover file is harmless: only its lock matters, and the id of a committed worker is never reused.
        let _ = fs::remove_file(self.path(worker));
    }

    pub(crate) fn release_all(&self) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn presence(&self, worker: WorkerId) -> Presence {
        if self.own.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&worker) {
            return Presence::Locked;
        }
        match OpenOptions::new().read(true).write(true).open(self.path(worker)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Presence::Gone,
            Err(_) => Presence::Unknown,
            Ok(file) => match file.try_lock() {
                Ok(()) => Presence::Gone,
                Err(TryLockError::WouldBlock) => Presence::Locked,
                Err(TryLockError::Error(_)) => Presence::Unknown,
            },
        }
    }
}

/// Returns the lock with the id. If the transaction fails both are dropped, and the id may be used again. The file
/// then stays, because the next worker with that id may already have locked it.
pub(crate) fn register_worker(
    scope: &mut Scope<'_>,
    info: &WorkerInfo,
    locks: &Locks,
) -> Answer<(WorkerId, File)> {
    let queues: Vec<i32> = info.queues.iter().map(|queue| queue.0).collect();
    let queues = serde_json::to_string(&queues).unwrap_or_else(|_| "[]".to_owned());
    let now = scope.now;
    let mut insert = scope.connection.prepare_cached(
        "insert into windlass_workers (label, queues, lease_us, started_at, heartbeat_at, expires_at)
         values (?1, ?2, ?3, ?4, ?4, ?5)",
    )?;
    loop {
        insert.execute((&info.label, &queues, micros(info.lease), now.0, now.plus(info.lease).0))?;
        let worker = WorkerId(scope.connection.last_insert_rowid());
        match locks.take(worker) {
            // The number belonged to a worker of a dropped schema whose process still lives. Numbers of deleted
            // rows are not reused, so this ends after at most as many tries as there are such processes.
            Err(StoreError::Busy { .. }) => {
                scope.connection.execute("delete from windlass_workers where id = ?1", [worker.0])?;
            }
            lock => return Ok((worker, lock?)),
        }
    }
}

pub(crate) fn heartbeat(scope: &mut Scope<'_>, worker: WorkerId) -> Answer<bool> {
    let alive = scope
        .connection
        .prepare_cached(
            "update windlass_workers set heartbeat_at = ?2, beats = beats + 1, expires_at = ?2 + lease_us where id = ?1",
        )?
        .execute((worker.0, scope.now.0))?;
    Ok(alive > 0)
}

pub(crate) fn workers(connection: &Connection) -> Answer<Vec<WorkerRow>> {
    let mut statement = connection.prepare_cached(
        "select w.id, w.label, w.queues, w.started_at, w.heartbeat_at,
                coalesce((select sum(json_array_length(c.ids)) from windlass_claims c where c.worker = w.id), 0),
                w.limits
         from windlass_workers w order by w.id",
    )?;
    let rows = statement.query_map([], |row| {
        let queues: Vec<i32> = serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default();
        let limits = WorkerLimits::from_json(&row.get::<_, String>(6)?);
        let row = WorkerRow {
            id: WorkerId(row.get(0)?),
            label: row.get(1)?,
            queues: queues.into_iter().map(QueueId).collect(),
            started_at: Time(row.get(3)?),
            heartbeat_at: Time(row.get(4)?),
            running: row.get::<_, i64>(5)?.unsigned_abs(),
            concurrency: limits.concurrency,
            resources: Vec::new(),
        };
        Ok((row, limits.resources))
    })?;
    let rows: Vec<(WorkerRow, Vec<String>)> = rows.collect::<Result<_, _>>()?;
    let in_use = if rows.iter().all(|(_, resources)| resources.is_empty()) {
        HashMap::new()
    } else {
        resource::in_use(connection)?
    };
    let mut workers = Vec::with_capacity(rows.len());
    for (mut row, resources) in rows {
        row.resources = resource::uses(connection, row.id, resources, &in_use)?;
        workers.push(row);
    }
    Ok(workers)
}

pub(crate) fn announce_stop(scope: &Scope<'_>, worker: WorkerId) -> Answer<()> {
    let mut update =
        scope.connection.prepare_cached("update windlass_workers set stopping = 1 where id = ?1")?;
    update.execute([worker.0])?;
    Ok(())
}

pub(crate) fn look(connection: &Connection, now: Time, locks: &Locks) -> Answer<Look> {
    let mut statement = connection.prepare_cached(
        "select id, beats, lease_us, expires_at, stopping from windlass_workers order by id",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(Beat {
            worker: WorkerId(row.get(0)?),
            beats: row.get(1)?,
            lease: duration(row.get(2)?),
            expired: row.get::<_, i64>(3)? <= now.0,
            presence: Presence::Unknown,
            stopping: row.get(4)?,
            before_restart: false,
        })
    })?;
    let mut beats: Vec<Beat> = rows.collect::<Result<_, _>>()?;
    for beat in &mut beats {
        beat.presence = locks.presence(beat.worker);
    }
    Ok(Look { beats, uptime: None })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use windlass_core::store::WorkerInfo;
    use windlass_core::sweep::Presence;
    use windlass_core::{Store, WorkerId};

    use crate::{SqliteOptions, SqliteStore};

    const SOON: Duration = Duration::from_secs(10);

    async fn open(folder: &tempfile::TempDir) -> SqliteStore {
        let store = SqliteStore::open(folder.path().join("windlass.db"), SqliteOptions::default()).unwrap();
        store.migrate_up(None).await.unwrap();
        store
    }

    fn info() -> WorkerInfo {
        WorkerInfo { label: "host:1".to_owned(), queues: Vec::new(), lease: Duration::from_secs(60) }
    }

    /// The rollback simulates a failed COMMIT: the command ran, and its transaction is lost.
    #[tokio::test]
    async fn a_registration_that_was_rolled_back_leaves_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let locks = store.shared.locks.clone();
        let lost = store
            .write("register", 1, move |scope| {
                let registered = super::register_worker(scope, &info(), &locks)?;
                scope.connection.execute_batch("rollback")?;
                Ok(registered)
            })
            .await;
        assert!(lost.is_err());
        let worker = tokio::time::timeout(SOON, store.register_worker(&info())).await.unwrap().unwrap();
        assert_eq!(worker, WorkerId(1), "the id is reused");
        assert!(store.look().await.unwrap().beats[0].presence != Presence::Gone);
        let elsewhere = open(&folder).await;
        assert!(elsewhere.look().await.unwrap().beats[0].presence != Presence::Gone, "the lock is kept");
    }

    #[tokio::test]
    async fn registering_skips_an_id_whose_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let locks = folder.path().join("windlass.db-workers");
        fs::create_dir_all(&locks).unwrap();
        let held = File::create(locks.join("1.lock")).unwrap();
        held.lock().unwrap();
        let worker = tokio::time::timeout(SOON, store.register_worker(&info())).await.unwrap().unwrap();
        assert_ne!(worker, WorkerId(1), "this number belongs to a living process");
        drop(held);
        assert_eq!(store.workers().await.unwrap().len(), 1);
    }
}
