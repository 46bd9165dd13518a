//! Backup files: between databases, while a worker is running, and every way a file can be broken.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_core::store::{BackupNote, Claim, JobFilter, Page, WorkerInfo};
use windlass_core::sweep::Death;
use windlass_core::{JobId, JobState, KindSpec, Store, StoreError, Time, WorkerId};
use windlass_engine::backup::{self, BackupError, BackupFolder};
use windlass_engine::{
    Client, Completion, Handlers, JobRequest, MemberRequest, Worker, WorkerHandle, WorkerOptions,
    WorkflowRequest, handler,
};
use windlass_testkit::conformance::Harness;
use windlass_testkit::conformance::backup_fixture::exported_as;
use windlass_testkit::conformance::backup_fixture::{check_full, exported, fill, holdings, sums};
use windlass_testkit::conformance::backup_pack::{PACK, STEPS, fill_sample_pack, with_sample_pack};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::place::{NEVER, Place};

async fn write(store: &dyn Store, path: &Path) -> backup::Written {
    backup::write(store, &holdings(), path, &mut |_, _| {}).await.unwrap()
}

async fn restore(store: &dyn Store, path: &Path) -> Result<backup::Contents, BackupError> {
    backup::restore(store, &holdings(), path, &mut |_, _| {}).await
}

/// A SQLite database with rows in every table.
async fn full() -> Harness {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("windlass.db");
    let open = move || {
        let store = windlass_store_sqlite::SqliteStore::open(&path, Default::default()).unwrap();
        async move { Arc::new(store) as Arc<dyn Store> }
    };
    let h = Harness::new(open, folder).await;
    fill(&h).await;
    h
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_to_postgres_to_sqlite() {
    let (h, folder) = (full().await, tempfile::tempdir().unwrap());
    let before = exported(&*h.store).await;
    check_full(&before);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    write(&*h.store, &first).await;
    let (postgres, sqlite) = (Place::postgres().await, Place::sqlite().await);
    let contents = restore(postgres.store.as_ref(), &first).await.unwrap();
    assert_eq!(contents.head.source, "sqlite");
    assert_eq!(sums(&exported(postgres.store.as_ref()).await), sums(&before));
    write(postgres.store.as_ref(), &second).await;
    restore(sqlite.store.as_ref(), &second).await.unwrap();
    assert_eq!(sums(&exported(sqlite.store.as_ref()).await), sums(&before));
    let third = Place::postgres().await;
    backup::verify(third.store.as_ref(), &holdings(), &first, &mut |_, _| {}).await.unwrap();
    for place in [third, postgres, sqlite] {
        place.end().await;
    }
}

/// A pack with a column of every type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pack_tables_are_backed_up_and_restored() {
    let (h, folder) = (full().await, tempfile::tempdir().unwrap());
    let rest = exported(&*h.store).await;
    let all = with_sample_pack();
    let mut places = Vec::new();
    for n in 0..4 {
        let place = if n % 2 == 0 { Place::sqlite().await } else { Place::postgres().await };
        place.store.migrate_pack_up(PACK, STEPS).await.unwrap();
        places.push(place);
    }
    fill_sample_pack(places[0].store.as_ref(), rest).await;
    let before = sums(&exported_as(places[0].store.as_ref(), &all).await);
    assert_eq!(before["sample_things"].rows, 5);
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        let path = folder.path().join(from.to_string());
        let (from, to) = (places[from].store.as_ref(), places[to].store.as_ref());
        backup::write(from, &all, &path, &mut |_, _| {}).await.unwrap();
        let contents = backup::verify(to, &all, &path, &mut |_, _| {}).await.unwrap();
        assert_eq!(contents.head.packs, [(PACK.to_owned(), 1)].into());
        assert_eq!(sums(&exported_as(to, &all).await), before);
    }
    for place in places {
        place.end().await;
    }
}

/// Every broken file is refused with a reason and leaves the database empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_is_refused() {
    let (h, folder) = (full().await, tempfile::tempdir().unwrap());
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    write(&*h.store, &good).await;
    let bytes = std::fs::read(&good).unwrap();
    let place = Place::sqlite().await;
    let store = place.store.as_ref();
    let refused = async |bytes: &[u8], why: &str| {
        std::fs::write(&bad, bytes).unwrap();
        match restore(store, &bad).await {
            Err(BackupError::Broken { why: said, .. } | BackupError::Unfit { why: said, .. })
                if said.contains(why) => {}
            other => panic!("expected `{why}`, got {other:?}"),
        }
        assert_eq!(exported(store).await.len(), 0, "{why}");
    };
    refused(b"", "it ends in the middle").await;
    refused(b"hello\n", "does not begin like a backup").await;
    refused(&bytes[..bytes.len() / 2], "ends in the middle").await;
    refused(&bytes[..bytes.len() - 1], "ends in the middle").await;
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    refused(&bytes[..=last], "ends in the middle").await;
    refused(&[&bytes[..], b"[]\n"].concat(), "stands behind its last line").await;
    // Changing any byte is detected: of a row, of an end, of the last line.
    let step = bytes.len() / 60;
    for at in (0..bytes.len()).step_by(step).chain([bytes.len() - 10]) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        refused(&flipped, "").await;
    }
    let text = String::from_utf8(bytes).unwrap();
    let newer = text.replacen("\"windlass_backup\":1", "\"windlass_backup\":2", 1);
    refused(newer.as_bytes(), "format 2, this binary knows up to 1").await;
    let schema = text.replacen("\"schema\":", "\"schema\":9", 1);
    refused(schema.as_bytes(), "this binary knows up to").await;
    restore(store, &good).await.unwrap();
    let full = restore(store, &good).await.unwrap_err().to_string();
    assert!(full.contains("the database is not empty"), "{full}");
    place.end().await;
}

/// A file as an older binary wrote it: without a column that has a default, and without a table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_file_gets_the_defaults() {
    use sha2::{Digest, Sha256};
    let lines = [
        r#"{"windlass_backup":1,"schema":1,"source":"sqlite","taken_at":"2026-01-01T00:00:00Z"}"#,
        r#"{"table":"queues","columns":["id","name","priority","concurrency","cadence_us","owner","colour"]}"#,
        r#"[1,"Q",5,10,1000,"",""]"#,
    ];
    let mut sum = windlass_core::backup::Sum::default();
    sum.add(lines[2].as_bytes());
    let end = format!(r#"{{"end":"queues","rows":1,"digest":"{}"}}"#, sum.hex());
    let body = format!("{}\n{end}\n", lines.join("\n"));
    let hash: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old");
    std::fs::write(&path, format!("{body}{{\"rows\":1,\"sha256\":\"{hash}\"}}\n")).unwrap();
    for place in [Place::sqlite().await, Place::postgres().await] {
        backup::verify(place.store.as_ref(), &holdings(), &path, &mut |_, _| {}).await.unwrap();
        let queues = place.store.queues().await.unwrap();
        assert_eq!((queues.len(), queues[0].paused), (1, false));
        place.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_overwritten_and_no_partial_file_stays() {
    let (place, folder) = (Place::sqlite().await, tempfile::tempdir().unwrap());
    let path = folder.path().join("copy");
    std::fs::write(&path, "mine").unwrap();
    let store = place.store.as_ref();
    let refused = backup::write(store, &holdings(), &path, &mut |_, _| {}).await.unwrap_err();
    assert!(matches!(refused, BackupError::Exists { .. }), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let lost = backup::write(store, &holdings(), &folder.path().join("no/folder"), &mut |_, _| {})
        .await
        .unwrap_err();
    assert!(lost.to_string().contains("could not create"), "{lost}");
    // A dropped backup leaves no file. Two batches are read ahead, so the backup has not ended after three.
    let (client, worker) = drain(&place).await;
    worker.shutdown().await.unwrap();
    let payload = format!("\"{}\"", "x".repeat(1 << 19)).into_bytes();
    let jobs = vec![JobRequest::new(KIND, payload); 20];
    client.enqueue_many(jobs).await.unwrap();
    let dropped = folder.path().join("dropped");
    let (begun, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let mut told = |rows: u64, _: u64| {
        let _ = begun.send(rows);
    };
    let all = holdings();
    let copying = backup::write(store, &all, &dropped, &mut told);
    tokio::select! {
        copied = copying => panic!("{copied:?} before it could be dropped"),
        _ = seen.recv() => {}
    }
    let names = || async {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        Seen::when(names, |names| names.len() == 1)
    };
    let names = wait_until("the partial file to be removed", Duration::from_secs(20), names).await;
    assert_eq!(names, ["copy"]);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_keeps_the_last_verified_copy() {
    let (place, folder) = (Place::sqlite().await, tempfile::tempdir().unwrap());
    let store = place.store.as_ref();
    let shelf = BackupFolder { folder: folder.path().to_owned(), keep: 2 };
    let mut paths: Vec<PathBuf> = Vec::new();
    for day in 1..=4 {
        let taken_at: Time = format!("2026-11-0{day}T00:00:00Z").parse().unwrap();
        let path = shelf.path(taken_at, JobId(1));
        let written = write(store, &path).await;
        let note = BackupNote {
            digest: written.digest,
            file: path.display().to_string(),
            taken_at,
            rows: 0,
            bytes: 0,
            verified_at: (day == 1).then_some(taken_at),
        };
        store.note_backup(&note).await.unwrap();
        paths.push(path);
    }
    std::fs::write(folder.path().join("other.txt"), "").unwrap();
    let gone = shelf.rotate(store).await.unwrap();
    assert_eq!(gone, [paths[1].clone()]);
    assert_eq!(shelf.copies().unwrap(), [&paths[3], &paths[2], &paths[0]].map(Clone::clone));
    assert!(folder.path().join("other.txt").exists());
    assert_eq!(store.backups(10).await.unwrap().len(), 3);
    assert!(shelf.rotate(store).await.unwrap().is_empty());
    place.end().await;
}

const KIND: &str = "work";
const QUEUE: &str = "WORK";

async fn drain(place: &Place) -> (Client, WorkerHandle) {
    let mut handlers = Handlers::default();
    let run = handler(|_, _: serde_json::Value| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(Completion::done())
    });
    handlers.add(KindSpec::new(KIND, QUEUE), run);
    let client = place.client(&[QUEUE], &handlers).await;
    let worker = Worker::start(client.clone(), &handlers, WorkerOptions::default()).await.unwrap();
    (client, worker)
}

async fn all(store: &dyn Store) -> Vec<(JobId, JobState)> {
    let (mut jobs, mut before) = (Vec::new(), None);
    loop {
        let page =
            store.list(&JobFilter::default(), &Page { before, limit: 1_000, excerpt: None }).await.unwrap();
        let Some(last) = page.last() else { return jobs };
        before = Some(last.id);
        jobs.extend(page.iter().map(|job| (job.id, job.state)));
    }
}

on_both! {
    /// A backup without a pack's tables would lose rows, and so would a restore without its tables.
    async fn unknown_packs_are_refused_instead_of_left_out(place: Place) {
        let folder = tempfile::tempdir().unwrap();
        let (path, none, store) = (folder.path().join("copy"), folder.path().join("none"), place.store.as_ref());
        store.migrate_pack_up(PACK, STEPS).await.unwrap();
        fill_sample_pack(store, Vec::new()).await;
        match backup::write(store, &holdings(), &none, &mut |_, _| {}).await {
            Err(BackupError::Store(StoreError::UnknownPack { pack })) => assert_eq!(pack, PACK),
            other => panic!("{other:?}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        backup::write(store, &with_sample_pack(), &path, &mut |_, _| {}).await.unwrap();
        for other in [Place::sqlite().await, Place::postgres().await] {
            let store = other.store.as_ref();
            match restore(store, &path).await {
                Err(BackupError::Unfit { why, .. }) => {
                    assert!(why.contains("pack `sample`, which this binary does not have"), "{why}");
                }
                other => panic!("{other:?}"),
            }
            let missing = backup::restore(store, &with_sample_pack(), &path, &mut |_, _| {}).await.unwrap_err();
            assert!(missing.to_string().contains("pack `sample` are missing; run `windlass migrate up`"), "{missing}");
            assert!(exported(store).await.is_empty());
            store.migrate_pack_up(PACK, STEPS).await.unwrap();
            backup::restore(store, &with_sample_pack(), &path, &mut |_, _| {}).await.unwrap();
            other.end().await;
        }
        // A backup from before the pack leaves the pack's tables empty.
        let plain = Place::sqlite().await;
        let old = folder.path().join("old");
        write(plain.store.as_ref(), &old).await;
        plain.store.migrate_pack_up(PACK, STEPS).await.unwrap();
        backup::restore(plain.store.as_ref(), &with_sample_pack(), &old, &mut |_, _| {}).await.unwrap();
        plain.end().await;
    }

    /// Jobs acknowledged before the backup began are in it once. Ended jobs stay ended, running ones wait again.
    async fn a_backup_taken_under_load_is_consistent(place: Place) {
        let (client, worker) = drain(place).await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = Vec::new();
        for _ in 0..4 {
            let (client, stop) = (client.clone(), stop.clone());
            producers.push(tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let job = client.enqueue(JobRequest::new(KIND, b"{}".to_vec())).await;
                    acknowledged.push((job.unwrap().id, std::time::Instant::now()));
                }
                acknowledged
            }));
        }
        let busy = || async {
            let done = JobFilter { states: vec![JobState::Completed], ..JobFilter::default() };
            Seen::when(place.store.count(&done).await.unwrap(), |done| *done > 100)
        };
        wait_until("the worker to be busy", Duration::from_secs(30), busy).await;
        let folder = tempfile::tempdir().unwrap();
        for n in 0..3 {
            let done_before: BTreeSet<JobId> =
                all(place.store.as_ref()).await.into_iter().filter(|(_, s)| s.is_finished()).map(|(id, _)| id).collect();
            let begun = std::time::Instant::now();
            let path = folder.path().join(format!("copy-{n}"));
            write(place.store.as_ref(), &path).await;
            let scratch = Place::sqlite().await;
            restore(scratch.store.as_ref(), &path).await.unwrap();
            let restored = all(scratch.store.as_ref()).await;
            let ids: BTreeSet<JobId> = restored.iter().map(|(id, _)| *id).collect();
            assert_eq!(ids.len(), restored.len(), "no job is restored twice");
            for (id, state) in &restored {
                assert!(state.is_finished() || *state == JobState::Pending, "{id} is {state:?}");
                assert!(state.is_finished() || !done_before.contains(id), "{id} had ended");
            }
            assert!(done_before.is_subset(&ids));
            scratch.end().await;
            if n == 2 {
                stop.store(true, Ordering::Relaxed);
                for producer in std::mem::take(&mut producers) {
                    for (id, at) in producer.await.unwrap() {
                        assert!(at > begun || ids.contains(&id), "{id} was acknowledged before and is lost");
                    }
                }
            }
        }
        worker.shutdown().await.unwrap();
    }

    /// Leases do not survive a restore. Jobs of a living worker, jobs of a dead one, suspects, a lane and a workflow
    /// are all completed by a worker on the restored database, of either type, even when another worker dies there
    /// first.
    async fn running_jobs_are_completed_on_the_restored_database(place: Place) {
        let gate = Arc::new(Semaphore::new(0));
        let (client, handlers) = gated(place, gate.clone()).await;
        let store = place.store.as_ref();
        client.enqueue_many(vec![JobRequest::new(OTHER_KIND, b"{}".to_vec()); 2]).await.unwrap();
        client.enqueue_many(vec![job(); 3]).await.unwrap();
        let lost = lease(store, &client, OTHER_KIND, 2, NEVER).await;
        let beat = store.look().await.unwrap().beats.into_iter().find(|beat| beat.worker == lost).unwrap();
        assert_eq!(store.reclaim(&Death { beat, explained: false }).await.unwrap().unwrap().returned, 2);
        lease(store, &client, KIND, 3, NEVER).await;
        let keyed = JobRequest { concurrency_key: Some("key".to_owned()), ..job() };
        client.enqueue_many(vec![keyed; 4]).await.unwrap();
        client.enqueue_workflow(chain()).await.unwrap();
        let options = WorkerOptions { queues: vec![QUEUE.to_owned()], ..WorkerOptions::default() };
        let worker = Worker::start(client, &handlers, options).await.unwrap();
        // Three of the dead worker, the first of the lane, the first of the workflow.
        reach(store, JobState::Running, 5).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        write(store, &path).await;
        for other in [Place::sqlite().await, Place::postgres().await] {
            let store = other.store.as_ref();
            restore(store, &path).await.unwrap();
            let ids = async || all(store).await.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
            let restored = ids().await;
            assert_eq!((restored.len(), in_state(store, JobState::Running).await), (11, 0));
            let (client, handlers) = gated(&other, Arc::new(Semaphore::new(1_000))).await;
            lease(store, &client, KIND, 2, Duration::from_secs(1)).await;
            let options = WorkerOptions { lease: Duration::from_secs(1), ..WorkerOptions::default() };
            let worker = Worker::start(client, &handlers, options).await.unwrap();
            reach(store, JobState::Completed, 11).await;
            assert_eq!(ids().await, restored);
            worker.shutdown().await.unwrap();
            other.end().await;
        }
        assert_eq!(in_state(store, JobState::Running).await, 5, "the restored database does not affect the original");
        gate.add_permits(1_000);
        worker.shutdown().await.unwrap();
    }
}

const OTHER_KIND: &str = "other";

fn job() -> JobRequest {
    JobRequest::new(KIND, b"{}".to_vec())
}

fn chain() -> WorkflowRequest {
    let step = |name: &str, after: &[&str]| MemberRequest {
        name: name.to_owned(),
        job: job(),
        after: after.iter().map(|name| (*name).to_owned()).collect(),
        ..MemberRequest::default()
    };
    WorkflowRequest { jobs: vec![step("a", &[]), step("b", &["a"])], ..WorkflowRequest::default() }
}

async fn in_state(store: &dyn Store, state: JobState) -> u64 {
    store.count(&JobFilter { states: vec![state], ..JobFilter::default() }).await.unwrap()
}

async fn reach(store: &dyn Store, state: JobState, jobs: u64) {
    let seen = || async { Seen::when(in_state(store, state).await, |found| *found == jobs) };
    wait_until(&format!("{jobs} jobs to be {state}"), Duration::from_secs(60), seen).await;
}

/// Each run waits for a permit of the gate.
async fn gated(place: &Place, gate: Arc<Semaphore>) -> (Client, Handlers) {
    let mut handlers = Handlers::default();
    for (kind, queue) in [(KIND, QUEUE), (OTHER_KIND, "OTHER")] {
        let gate = gate.clone();
        let run = handler(move |_, _: serde_json::Value| {
            let gate = gate.clone();
            async move {
                gate.acquire().await?.forget();
                Ok(Completion::done())
            }
        });
        handlers.add(KindSpec::new(kind, queue), run);
    }
    (place.client(&[QUEUE, "OTHER"], &handlers).await, handlers)
}

/// Leases jobs for a worker that sends no heartbeat.
async fn lease(store: &dyn Store, client: &Client, kind: &str, jobs: u32, lease: Duration) -> WorkerId {
    let kind = client.catalog().kind_named(kind).unwrap().clone();
    let info = WorkerInfo { label: "dead".to_owned(), queues: vec![kind.queue], lease };
    let worker = store.register_worker(&info).await.unwrap();
    let claim = Claim {
        worker,
        queue: kind.queue,
        kinds: vec![kind.id],
        limit: jobs,
        level: windlass_core::sweep::Level::Ordinary,
    };
    assert_eq!(store.claim(&claim).await.unwrap().len(), jobs as usize);
    worker
}
