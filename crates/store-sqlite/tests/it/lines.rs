//! Lines and turns: what is left behind is cleared away, and what is offered goes to whom it should.

use windlass_core::outcome::{Return, ReturnAt, ReturnWhy};
use windlass_core::store::{Action, Change, JobFilter};
use windlass_core::{
    JobId, KindSpec, LeasedJob, NewJob, OnConflict, Settlement, Store, Unique, Verdict, WorkerId,
};

use crate::contend::done;
use crate::setup::{Setup, ask, worker};

impl Setup {
    fn keyed(&self, key: &str) -> NewJob {
        NewJob { concurrency_key: Some(key.to_owned()), ..self.job() }
    }

    async fn claim(&self, worker: WorkerId, limit: u32) -> Vec<LeasedJob> {
        self.store.claim(&ask(worker, self.queue, self.kind, limit)).await.unwrap()
    }

    async fn finish(&self, jobs: &[LeasedJob]) {
        self.store.settle(&jobs.iter().map(done).collect::<Vec<_>>()).await.unwrap();
    }

    fn count(&self, table: &str) -> i64 {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap()
    }

    /// Runs until nothing comes; ids as they were claimed.
    async fn drain(&self, worker: WorkerId) -> Vec<JobId> {
        let mut ran = Vec::new();
        loop {
            let jobs = self.claim(worker, 10).await;
            if jobs.is_empty() {
                return ran;
            }
            ran.extend(jobs.iter().map(|job| job.id));
            self.finish(&jobs).await;
        }
    }
}

/// A job leaves its entry behind when it is claimed: some are cleared away on the way, and none is left of a lane that is done.
#[tokio::test]
async fn a_lane_that_is_done_leaves_nothing() {
    let setup = Setup::new().await;
    let worker = worker(&setup.store, setup.queue).await;
    let jobs: Vec<NewJob> = (0..600).map(|n| setup.keyed(["a", "b", "c"][n % 3])).collect();
    let put: Vec<JobId> = setup.store.enqueue(&jobs).await.unwrap().iter().map(|put| put.id).collect();
    let mut ran = Vec::new();
    for _ in 0..150 {
        let jobs = setup.claim(worker, 10).await;
        ran.extend(jobs.iter().map(|job| job.id));
        setup.finish(&jobs).await;
    }
    // 450 ran, three at a time; without clearing their entries would all be there still.
    assert_eq!(ran.len(), 450);
    assert!(setup.count("windlass_lines") < 600 - 100, "{} entries", setup.count("windlass_lines"));
    ran.extend(setup.drain(worker).await);
    ran.sort();
    assert_eq!(ran, put);
    for table in ["windlass_lines", "windlass_slots", "windlass_turns", "windlass_looks"] {
        assert_eq!(setup.count(table), 0, "{table}");
    }
}

/// In a lane of several slots what is cancelled, while it waits or runs, leaves nothing either.
#[tokio::test]
async fn cancelled_jobs_leave_nothing() {
    let setup = Setup::new().await;
    let three = KindSpec { key_concurrency: 3, ..KindSpec::new("plain", "MAIN") };
    setup.store.sync_registry(&[], &[three], None).await.unwrap();
    let worker = worker(&setup.store, setup.queue).await;
    setup.store.enqueue(&vec![setup.keyed("a"); 8]).await.unwrap();
    let running = setup.claim(worker, 10).await;
    assert_eq!(running.len(), 3);
    assert_eq!(setup.store.act(&JobFilter::default(), Action::Cancel, 100, None).await.unwrap().done, 5);
    let back = running.iter().map(|job| Settlement {
        verdict: Verdict::Return(Return {
            why: ReturnWhy::HandBack,
            attempts_used: 0,
            run_at: ReturnAt::Place(job.run_at),
            error: None,
        }),
        ..done(job)
    });
    setup.store.settle(&back.collect::<Vec<_>>()).await.unwrap();
    assert!(setup.claim(worker, 10).await.is_empty());
    for table in ["windlass_lines", "windlass_slots", "windlass_turns", "windlass_looks"] {
        assert_eq!(setup.count(table), 0, "{table}");
    }
}

/// A slot that is on offer stands where the first in line did. An operator who hurries another changes who that is.
#[tokio::test]
async fn an_offer_follows_an_operators_change() {
    let setup = Setup::new().await;
    let worker = worker(&setup.store, setup.queue).await;
    let put = setup.store.enqueue(&vec![setup.keyed("a"); 4]).await.unwrap();
    let running = setup.claim(worker, 1).await;
    setup.finish(&running).await;
    let plain = setup.store.enqueue(&[NewJob { priority: 3, ..setup.job() }]).await.unwrap()[0].id;
    let urgent = Change { priority: Some(0), run_at: None };
    assert!(setup.store.change(put[3].id, &urgent, None).await.unwrap());
    let next: Vec<JobId> = setup.claim(worker, 10).await.iter().map(|job| job.id).collect();
    assert_eq!(next, [put[3].id, plain], "before what is less urgent, and one of the lane");
}

/// Whoever takes another's place in time may come to stand before jobs that are long gone; it runs all the same.
#[tokio::test]
async fn who_stands_before_those_who_are_gone_runs_too() {
    let setup = Setup::new().await;
    let worker = worker(&setup.store, setup.queue).await;
    let unique = || Some(Unique::new("u", OnConflict::Replace));
    let early =
        setup.store.enqueue(&[NewJob { unique: unique(), priority: 10, ..setup.job() }]).await.unwrap();
    setup.store.enqueue(&vec![setup.keyed("a"); 40]).await.unwrap();
    for _ in 0..5 {
        let jobs = setup.claim(worker, 1).await;
        setup.finish(&jobs).await;
    }
    let late = setup.store.enqueue(&[NewJob { unique: unique(), ..setup.keyed("a") }]).await.unwrap()[0].id;
    assert_ne!(late, early[0].id);
    let ran = setup.drain(worker).await;
    assert_eq!(ran.len(), 36);
    assert!(ran.contains(&late));
}
