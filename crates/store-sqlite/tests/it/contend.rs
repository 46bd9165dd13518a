//! A failing command does not affect others, and two handles can share one file.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_core::store::{JobFilter, Settled};
use windlass_core::{JobState, OnConflict, Settlement, Store, StoreError, Time, Unique, Verdict};

use crate::setup::{Setup, ask, worker};

pub(crate) fn done(job: &windlass_core::LeasedJob) -> Settlement {
    Settlement {
        id: job.id,
        token: job.token,
        queue: job.queue,
        attempt: job.attempt,
        started_at: job.claimed_at,
        workflow: job.workflow,
        lane: job.lane,
        holds_key: job.holds_key,
        verdict: Verdict::End { state: JobState::Completed, result: None, error: None },
    }
}

/// All commands wait for a caller's transaction and then share the next commit.
#[tokio::test]
async fn a_refused_command_undoes_only_itself() {
    let setup = Setup::new().await;
    let unique = || {
        let mut job = setup.job();
        job.unique = Some(Unique::until_started("k", OnConflict::Reject));
        job
    };
    let tx = setup.store.begin().await.unwrap();
    let batches = [vec![setup.job()], vec![unique()], vec![setup.job(), unique()], vec![setup.job()]];
    let tasks: Vec<_> = batches
        .into_iter()
        .map(|jobs| {
            let store = setup.store.clone();
            tokio::spawn(async move { store.enqueue(&jobs).await })
        })
        .collect();
    // On this single thread each of them reaches the writer's queue.
    tokio::task::yield_now().await;
    tx.rollback().await.unwrap();
    let mut refused = 0;
    let mut accepted = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(jobs) => accepted += jobs.len(),
            Err(StoreError::UniqueRejected { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(setup.store.count(&JobFilter::default()).await.unwrap(), accepted as u64);
}

/// Each job is run by exactly one of two handles that claim concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_share_the_work() {
    const JOBS: usize = 4_000;
    let setup = Setup::new().await;
    let stores = [setup.store.clone(), setup.again()];
    let runs = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for store in stores {
        let (runs, queue, kind, job) = (runs.clone(), setup.queue, setup.kind, setup.job());
        tasks.push(tokio::spawn(async move {
            let me = worker(&store, queue).await;
            let mut mine = Vec::new();
            for _ in 0..JOBS / 2 / 50 {
                store.enqueue(&vec![job.clone(); 50]).await.unwrap();
                let leased = store.claim(&ask(me, queue, kind, 40)).await.unwrap();
                mine.extend(leased.iter().map(|job| job.id));
                let settled = store.settle(&leased.iter().map(done).collect::<Vec<_>>()).await.unwrap();
                assert!(settled.iter().all(|one| *one == Settled::Accepted));
            }
            while runs.load(Ordering::Relaxed) + mine.len() < JOBS {
                let leased = store.claim(&ask(me, queue, kind, 100)).await.unwrap();
                if leased.is_empty() {
                    break;
                }
                mine.extend(leased.iter().map(|job| job.id));
                store.settle(&leased.iter().map(done).collect::<Vec<_>>()).await.unwrap();
            }
            runs.fetch_add(mine.len(), Ordering::Relaxed);
            mine
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all.len(), all.iter().collect::<HashSet<_>>().len(), "no job twice");
    let completed = JobFilter { states: vec![JobState::Completed], ..JobFilter::default() };
    assert_eq!(setup.store.count(&completed).await.unwrap(), all.len() as u64);
}

/// A claim of 500 jobs that are settled in five parts, unordered.
#[tokio::test]
async fn a_claim_settles_in_parts_and_stays_readable_outside() {
    let setup = Setup::new().await;
    setup.store.enqueue(&vec![setup.job(); 500]).await.unwrap();
    let me = worker(&setup.store, setup.queue).await;
    let mut leased = setup.store.claim(&ask(me, setup.queue, setup.kind, 500)).await.unwrap();
    let outside = rusqlite::Connection::open(setup.path()).unwrap();
    let leases = || -> isize {
        outside
            .query_row("select count(*) from windlass_job_view where state = 'running'", [], |r| r.get(0))
            .unwrap()
    };
    assert_eq!(leases(), 500);
    leased.sort_by_key(|job| job.id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()));
    for (n, piece) in leased.chunks(100).enumerate() {
        let piece: Vec<Settlement> = piece.iter().map(done).collect();
        let settled = setup.store.settle(&piece).await.unwrap();
        assert!(settled.iter().all(|one| *one == Settled::Accepted));
        assert!(setup.store.settle(&piece).await.unwrap().iter().all(|one| *one == Settled::Stale));
        assert_eq!(leases(), 400 - n.cast_signed() * 100);
    }
    let claims: isize =
        outside.query_row("select count(*) from windlass_claims", [], |row| row.get(0)).unwrap();
    assert_eq!(claims, 0);
}

/// The clock is set back after the newest job was deleted.
#[tokio::test]
async fn an_id_is_never_reused() {
    let setup = Setup::new().await;
    let id = setup.put().await;
    let filter = JobFilter { ids: vec![id], ..JobFilter::default() };
    setup.store.act(&filter, windlass_core::store::Action::Cancel, 1, None).await.unwrap();
    assert_eq!(
        setup.store.act(&filter, windlass_core::store::Action::Delete, 1, None).await.unwrap().done,
        1
    );
    setup.store.set_clock_offset(-3_600_000_000);
    assert!(setup.put().await > id);
    assert!(setup.store.now().await.unwrap() > Time(0));
}
