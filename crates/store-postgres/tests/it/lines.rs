//! Lines as a process remembers them: who stands behind whom is not asked again until somebody gets in line, and then it is.

use std::time::Duration;

use windlass_core::outcome::{Return, ReturnAt, ReturnWhy};
use windlass_core::store::{Action, Change, JobFilter};
use windlass_core::{JobId, LeasedJob, NewJob, QueueSpec, RunAt, Store, Verdict, WorkerId};
use windlass_store_postgres::PostgresStore;

use crate::lanes::{ids, keyed, sound, worked_place};
use crate::place::{Place, done, settlement};

/// Of one lane, in line.
const JOBS: usize = 12;

/// A lane whose line this process remembers, up to who runs.
struct Remembered {
    place: Place,
    worker: WorkerId,
    jobs: Vec<JobId>,
    runs: LeasedJob,
    /// How many of `jobs` have been leased.
    leased: usize,
}

impl Remembered {
    async fn new() -> Remembered {
        let (place, worker) = worked_place().await;
        let jobs: Vec<NewJob> = (0..JOBS).map(|_| keyed(&place, "a")).collect();
        let jobs: Vec<JobId> = place.store.enqueue(&jobs).await.unwrap().iter().map(|put| put.id).collect();
        let runs = place.lease(worker, 5).await.remove(0);
        let mut line = Remembered { place, worker, jobs, runs, leased: 1 };
        // Where the sequence stands; that it stands still; the list.
        for _ in 0..3 {
            let next = line.next().await;
            assert_eq!(next, line.jobs[line.leased - 1]);
        }
        line
    }

    /// Settles who runs; who is next, and runs from then on.
    async fn next(&mut self) -> JobId {
        let store = self.place.store.clone();
        self.next_by(&store).await
    }

    async fn next_by(&mut self, store: &PostgresStore) -> JobId {
        store.settle(&[settlement(&self.runs, done())]).await.unwrap();
        self.lease().await
    }

    async fn lease(&mut self) -> JobId {
        let leased = self.place.lease(self.worker, 5).await;
        assert_eq!(leased.len(), 1, "one at a time");
        self.runs = leased.into_iter().next().unwrap();
        self.leased += 1;
        self.runs.id
    }

    /// Who stands first of those that were there from the beginning.
    fn first(&self) -> JobId {
        self.jobs[self.leased]
    }

    /// Moves the last in line to its front behind everybody's back: only who reads the line finds him.
    async fn smuggle(&self) -> JobId {
        let last = self.jobs[JOBS - 1];
        self.place.sql(&format!("update windlass.ready set priority = 1 where id = {}", last.0)).await;
        last
    }

    async fn end(mut self) {
        while self.place.number("select count(*) from windlass.ready").await > 0 {
            self.next().await;
        }
        sound(&self.place).await;
        self.place.end().await;
    }
}

#[tokio::test]
async fn the_line_is_not_read_while_nobody_gets_in() {
    let mut line = Remembered::new().await;
    let smuggled = line.smuggle().await;
    let first = line.first();
    assert_eq!(line.next().await, first, "the line was read");
    line.place.store.enqueue(&[keyed(&line.place, "another lane")]).await.unwrap();
    let other = line.place.lease(line.worker, 1).await;
    assert_eq!(other.len(), 1);
    assert_eq!(line.next().await, smuggled, "somebody got in some line since");
    line.end().await;
}

#[tokio::test]
async fn an_urgent_newcomer_is_next() {
    let mut line = Remembered::new().await;
    let urgent = NewJob { priority: 0, ..keyed(&line.place, "a") };
    let urgent = line.place.store.enqueue(&[urgent]).await.unwrap()[0].id;
    assert_eq!(line.next().await, urgent);
    line.end().await;
}

/// His look is gone before this process sees it.
#[tokio::test]
async fn a_newcomer_whose_look_another_process_followed_is_next() {
    let mut line = Remembered::new().await;
    let other = line.place.other().await;
    let urgent = NewJob { priority: 0, ..keyed(&line.place, "a") };
    let urgent = other.enqueue(&[urgent]).await.unwrap()[0].id;
    assert!(other.claim(&line.place.claim(line.worker, 5)).await.unwrap().is_empty());
    assert_eq!(line.place.number("select count(*) from windlass.looks").await, 0);
    assert_eq!(line.next().await, urgent);
    other.close().await;
    line.end().await;
}

#[tokio::test]
async fn who_was_made_more_urgent_is_next() {
    let mut line = Remembered::new().await;
    let last = line.jobs[JOBS - 1];
    let change = Change { priority: Some(2), ..Change::default() };
    assert!(line.place.store.change(last, &change, None).await.unwrap());
    assert_eq!(line.next().await, last);
    line.end().await;
}

#[tokio::test]
async fn a_late_one_whom_the_sweeper_lets_ahead_is_next() {
    let mut line = Remembered::new().await;
    let quick = QueueSpec { boost_after: Some(Duration::from_secs(60)), ..QueueSpec::named("Q") };
    line.place.store.sync_registry(&[quick], &[], None).await.unwrap();
    let late = line.jobs[JOBS - 1];
    // Late behind the others without anybody's word: the sweeper has to say it.
    let late_by = "update windlass.ready set priority = 9, run_at = run_at - interval '1 hour' where id =";
    line.place.sql(&format!("{late_by} {}", late.0)).await;
    assert_eq!(line.place.store.boost_lines(None).await.unwrap().jobs, 1);
    assert_eq!(line.next().await, late);
    line.end().await;
}

/// More urgent than when he was leased, behind who was offered his slot.
#[tokio::test]
async fn who_comes_back_is_found_in_line() {
    let mut line = Remembered::new().await;
    let (place, again) = (&line.place, line.runs.id);
    place.sql(&format!("update windlass.jobs set priority = 1 where id = {}", again.0)).await;
    let back = Return {
        why: ReturnWhy::Retry,
        attempts_used: 1,
        run_at: ReturnAt::In(Duration::ZERO),
        error: Some("once more".to_owned()),
    };
    place.store.settle(&[settlement(&line.runs, Verdict::Return(back))]).await.unwrap();
    let first = line.first();
    assert_eq!(line.lease().await, first);
    assert_eq!(line.next().await, again);
    line.end().await;
}

/// Nobody says who left: the claim finds the offer void and looks at the line.
#[tokio::test]
async fn behind_one_who_left_the_line_comes_the_next() {
    let mut line = Remembered::new().await;
    let gone = JobFilter { ids: vec![line.first()], ..JobFilter::default() };
    assert_eq!(line.place.store.act(&gone, Action::Cancel, 1, None).await.unwrap().done, 1);
    let second = line.jobs[line.leased + 1];
    assert_eq!(line.next().await, second);
    line.end().await;
}

/// Each remembers the line from where it was last asked.
#[tokio::test]
async fn two_processes_keep_to_the_order_of_a_line() {
    let mut line = Remembered::new().await;
    let other = line.place.other().await;
    let mut order = Vec::new();
    while line.leased < JOBS {
        let by = if line.leased % 3 == 0 { other.clone() } else { line.place.store.clone() };
        order.push(line.next_by(&by).await);
    }
    assert_eq!(order, line.jobs[4..]);
    other.close().await;
    line.end().await;
}

/// In a caller's transaction, whose snapshot may be older than what this process knows.
#[tokio::test]
async fn a_settlement_in_a_callers_transaction_reads_the_line() {
    let mut line = Remembered::new().await;
    let smuggled = line.smuggle().await;
    let mut tx = line.place.store.begin().await.unwrap();
    line.place.store.settle_in(tx.tx(), &settlement(&line.runs, done())).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(line.lease().await, smuggled);
    line.end().await;
}

/// The number that was there from the beginning is no other's.
#[tokio::test]
async fn the_first_number_drawn_shows() {
    let (place, _) = worked_place().await;
    let number = "select last_value from windlass.line_seq";
    let before = place.number(number).await;
    place.sql("delete from windlass.looks").await;
    assert_ne!(place.number(number).await, before);
    place.end().await;
}

/// He was in line all the while.
#[tokio::test]
async fn an_urgent_one_whose_time_comes_is_next() {
    let (place, worker) = worked_place().await;
    let soon = place.store.now().await.unwrap().plus(Duration::from_secs(600));
    let urgent = NewJob { priority: 0, run_at: RunAt::At(soon), ..keyed(&place, "a") };
    let mut jobs = vec![urgent];
    jobs.extend((0..JOBS).map(|_| keyed(&place, "a")));
    let jobs: Vec<JobId> = place.store.enqueue(&jobs).await.unwrap().iter().map(|put| put.id).collect();
    let runs = place.lease(worker, 5).await.remove(0);
    let mut line = Remembered { place, worker, jobs: jobs[1..].to_vec(), runs, leased: 1 };
    for _ in 0..3 {
        let first = line.first();
        assert_eq!(line.next().await, first);
    }
    line.smuggle().await;
    let first = line.first();
    assert_eq!(line.next().await, first, "remembered");
    line.place.store.set_clock_offset(Duration::from_secs(601).as_micros() as i64);
    assert_eq!(line.next().await, jobs[0]);
    line.end().await;
}

/// Lists end, and many lanes have theirs at once.
#[tokio::test]
async fn long_lines_are_worked_off_in_order() {
    let (place, worker) = worked_place().await;
    let mut expected: Vec<Vec<JobId>> = vec![Vec::new(); 3];
    for _ in 0..60 {
        for (n, line) in expected.iter_mut().enumerate() {
            let put = place.store.enqueue(&[keyed(&place, &format!("key {n}"))]).await.unwrap();
            line.push(put[0].id);
        }
    }
    let mut seen: Vec<Vec<JobId>> = vec![Vec::new(); 3];
    loop {
        let leased = place.lease(worker, 10).await;
        if leased.is_empty() {
            break;
        }
        for id in ids(&leased) {
            let lane = expected.iter().position(|line| line.contains(&id)).unwrap();
            seen[lane].push(id);
        }
        let batch: Vec<_> = leased.iter().map(|job| settlement(job, done())).collect();
        place.store.settle(&batch).await.unwrap();
    }
    assert_eq!(seen, expected);
    sound(&place).await;
    place.end().await;
}
