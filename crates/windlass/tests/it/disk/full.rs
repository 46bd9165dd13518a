//! The disk under SQLite fills up: writes are refused, and go on once there is space again.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use windlass::{EnqueueError, JobId, JobState, Request, StoreError};
use windlass_core::store::JobDetail;
use windlass_testkit::signal::{Seen, wait_until};

use super::{LargePayload, open};
use crate::jobs::{Append, Hold};
use crate::world::{World, wait_all_finished};

const DEADLINE: Duration = Duration::from_secs(60);

/// A file system of a few megabytes. Mounting it needs root.
struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> SmallDisk {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(directory.path());
        let status = command.status().unwrap();
        assert!(status.success(), "mounting a small tmpfs needs root");
        SmallDisk { directory }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.directory.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_jobs_until_space_is_freed() {
    let disk = SmallDisk::mount(24);
    let ballast = disk.directory.path().join("ballast");
    std::fs::write(&ballast, vec![0u8; 10 << 20]).unwrap();
    let windlass = open(&disk.directory.path().join("app.db")).await;
    let mut accepted: Vec<JobId> = Vec::new();
    let refusal = loop {
        match windlass.enqueue(LargePayload { body: "x".repeat(200_000) }).await {
            Ok(enqueued) => accepted.push(enqueued.id),
            Err(error) => break error,
        }
        assert!(accepted.len() < 1_000, "the disk never filled");
    };
    assert!(
        matches!(&refusal, EnqueueError::Store(error) if matches!(**error, StoreError::Full { .. })),
        "{refusal:?}"
    );
    assert!(refusal.to_string().contains("no restart is needed"), "{refusal}");
    std::fs::remove_file(&ballast).unwrap();
    accepted.push(windlass.enqueue(LargePayload { body: "y".repeat(200_000) }).await.unwrap().id);
    let drained = windlass.drain().await.unwrap();
    assert_eq!(drained.completed, accepted.len() as u64, "every accepted job, and no other");
}

/// Fills the disk to the last byte.
fn fill(disk: &SmallDisk) -> PathBuf {
    let path = disk.directory.path().join("ballast");
    let mut ballast = std::fs::File::create(&path).unwrap();
    for size in [1 << 20, 1 << 12] {
        while ballast.write_all(&vec![0u8; size]).is_ok() {}
    }
    path
}

/// Fills the disk while a worker process runs jobs, lets them end while it is full, and frees it once their settlements
/// were refused and `long_enough` is true of the log. The same process must then finish them.
async fn fill_under_a_worker(lease: Duration, long_enough: fn(&str) -> bool) -> Vec<JobDetail> {
    let disk = SmallDisk::mount(24);
    let world = World::sqlite_at(disk.directory.path().join("app.db")).await;
    let windlass = world.windlass().await;
    let go = world.directory().join("go");
    let jobs = (0..6).map(|n| Request::from(Hold { file: go.clone(), in_tx: n % 2 == 0 }));
    let mut ids: Vec<JobId> = windlass.enqueue_many(jobs).await.unwrap().iter().map(|e| e.id).collect();
    let mut worker = world.worker("worker", lease);
    wait_until("every job to run", DEADLINE, || async {
        Seen::when(world.entries().lines.len(), |runs| *runs == ids.len())
    })
    .await;
    let ballast = fill(&disk);
    let refusal = windlass.enqueue(Append { ms: 0 }).await.unwrap_err();
    assert!(refusal.to_string().contains("the disk is full"), "{refusal}");
    std::fs::write(&go, []).unwrap();
    wait_until("a settle to be refused", DEADLINE, || async {
        let log = worker.stderr();
        let refused = log.contains("could not settle; trying again until it works error=\"the disk is full");
        if refused && long_enough(&log) { Seen::Yes(()) } else { Seen::NotYet(log) }
    })
    .await;
    let settled = windlass.client().store().job(ids[1]).await.unwrap().expect("the job is there");
    assert_eq!(settled.job.state, JobState::Running, "it was written to a full disk");
    std::fs::remove_file(ballast).unwrap();

    // A job enqueued afterwards must run too.
    ids.push(windlass.enqueue(Hold { file: go, in_tx: true }).await.unwrap().id);
    wait_all_finished(&windlass, DEADLINE).await;
    assert!(worker.is_running().unwrap(), "{}", worker.output());
    let mut details = Vec::new();
    for id in &ids {
        details
            .push(windlass.client().store().job(*id).await.unwrap().expect("an accepted job is never lost"));
    }
    check_runs(&world, &details).await;
    details
}

/// Every job completed, every earlier run was lost or retried, and transactional effects happened once.
async fn check_runs(world: &World, details: &[JobDetail]) {
    let entries = world.entries();
    let verdict = entries.judge(details.iter().map(|detail| detail.job.id));
    assert_eq!((verdict.lost, verdict.doubled, verdict.unknown), (vec![], vec![], vec![]));
    for detail in details {
        let (last, earlier) = detail.attempts.split_last().expect("it ran");
        assert_eq!(
            (detail.job.state, last.outcome.as_str()),
            (JobState::Completed, "completed"),
            "{detail:?}"
        );
        assert!(earlier.iter().all(|run| ["lost", "retry"].contains(&run.outcome.as_str())), "{detail:?}");
        let runs = entries.lines.iter().filter(|(id, _)| *id == detail.job.id).count();
        assert_eq!(runs, detail.attempts.len(), "a run was not recorded: {detail:?}");
    }
    let in_tx = details.iter().enumerate().filter(|(n, _)| n % 2 == 0).map(|(_, detail)| detail.job.id);
    assert_eq!(world.effect_ids().await, in_tx.collect::<Vec<_>>(), "each transactional effect exactly once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settles_refused_by_a_full_disk_are_written_when_it_is_freed() {
    let details = fill_under_a_worker(Duration::from_secs(60), |_| true).await;
    for detail in details.iter().skip(1).step_by(2) {
        assert_eq!(detail.job.attempt, 1, "a job that had ended ran again: {detail:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_full_for_longer_than_the_lease_costs_runs_and_no_jobs() {
    let lost = |log: &str| log.contains("lease lost: the lease could not be renewed in time");
    let details = fill_under_a_worker(Duration::from_millis(1_000), lost).await;
    let lost = details.iter().flat_map(|detail| &detail.attempts).filter(|run| run.outcome == "lost").count();
    assert!(lost > 0, "no lease was lost: {details:?}");
}
