//! Several processes on one file. The test binary starts itself as the other process.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use windlass_core::Store;
use windlass_core::store::JobFilter;
use windlass_core::sweep::{Beat, Death, Presence};

use crate::setup::{Setup, ask, job, open, worker};

const ROLE: &str = "WINDLASS_TEST_ROLE";
const ROUNDS: u64 = 60;
const FILE: &str = "WINDLASS_TEST_FILE";

fn start(role: &str, path: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::as_another_process", "--nocapture"])
        .env(ROLE, role)
        .env(FILE, path)
        .spawn()
        .unwrap()
}

/// Does nothing unless started by one of the tests below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_another_process() {
    let (Ok(role), Ok(path)) = (std::env::var(ROLE), std::env::var(FILE)) else { return };
    let store = open(&PathBuf::from(path));
    let (queue, kind) = (store.queues().await.unwrap()[0].id, store.kinds().await.unwrap()[0].0);
    let me = worker(&store, queue).await;
    if role == "hang" {
        assert_eq!(store.claim(&ask(me, queue, kind, 3)).await.unwrap().len(), 3);
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    // Enqueues, claims and exits. Any "database is locked" fails the process.
    for _ in 0..ROUNDS {
        store.enqueue(&vec![job(queue, kind); 5]).await.unwrap();
        assert!(store.heartbeat(me).await.unwrap());
        store.claim(&ask(me, queue, kind, 2)).await.unwrap();
        store.poll(me, &[]).await.unwrap();
    }
    store.retire_worker(me).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn eight_processes_never_see_a_locked_database() {
    let setup = Setup::new().await;
    let path = setup.path();
    let mut children: Vec<Child> = (0..8).map(|_| start("contend", &path)).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(setup.store.count(&JobFilter::default()).await.unwrap(), 8 * ROUNDS * 5);
    assert_eq!(setup.store.depth(setup.queue, 10_000).await.unwrap(), 8 * ROUNDS * 5, "all were handed back");
}

#[tokio::test]
async fn a_killed_process_is_gone_at_once() {
    let setup = Setup::new().await;
    setup.store.enqueue(&vec![setup.job(); 3]).await.unwrap();
    let own = worker(&setup.store, setup.queue).await;
    let mut child = start("hang", &setup.path());
    let deadline = Instant::now() + Duration::from_secs(20);
    let leased = loop {
        let rows = setup.store.workers().await.unwrap();
        if let Some(row) = rows.iter().find(|row| row.id != own && row.running == 3) {
            break row.id;
        }
        assert!(Instant::now() < deadline, "the other process never claimed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let beat = |beats: Vec<Beat>| beats.into_iter().find(|beat| beat.worker == leased).unwrap();
    assert!(beat(setup.store.look().await.unwrap().beats).presence != Presence::Gone, "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    let dead = beat(setup.store.look().await.unwrap().beats);
    assert!(dead.presence == Presence::Gone && !dead.expired, "the death is seen without a clock");
    assert!(
        setup
            .store
            .look()
            .await
            .unwrap()
            .beats
            .iter()
            .all(|beat| beat.worker != own || beat.presence == Presence::Locked)
    );
    assert_eq!(
        setup.store.reclaim(&Death { beat: dead, explained: false }).await.unwrap().unwrap().returned,
        3
    );
    let lock = setup.folder.path().join(format!("windlass.db-workers/{leased}.lock"));
    assert!(!lock.exists(), "its lock file went with it");
}

/// Without a poll.
#[tokio::test]
async fn a_commit_of_another_process_wakes_this_one() {
    let setup = Setup::new().await;
    let (send, wakes) = std::sync::mpsc::channel();
    setup.store.on_wake(Box::new(move |wake| send.send(wake).is_ok()));
    let other = rusqlite::Connection::open(setup.path()).unwrap();
    // A new value each time: SQLite commits nothing when nothing changes.
    let write = || other.execute("update windlass_queues set owner = hex(randomblob(4))", []).unwrap();
    // The first check only reads the number: a commit before it wakes no one.
    let heard = || {
        std::iter::repeat_with(write).take(100).any(|_| wakes.recv_timeout(Duration::from_millis(50)).is_ok())
    };
    assert!(heard());
    while wakes.recv_timeout(Duration::from_millis(100)).is_ok() {}
    write();
    assert_eq!(wakes.recv_timeout(Duration::from_secs(5)).unwrap(), windlass_core::store::Wake::Any);
    assert!(wakes.recv_timeout(Duration::from_millis(100)).is_err(), "no wake-up without a commit");
}
