//! Enqueue, claim, settle and reclaim under concurrency.

use std::collections::HashSet;
use std::time::Duration;

use windlass_core::outcome::{Return, ReturnAt, ReturnWhy};
use windlass_core::store::Settled;
use windlass_core::sweep::Death;
use windlass_core::{JobState, NewJob, RunAt, Store, StoreError, Time, Token, TxRef, Verdict};

use crate::place::{Place, done, ended, settlement};

fn back(job: &windlass_core::LeasedJob, used: u16) -> Verdict {
    Verdict::Return(Return {
        why: ReturnWhy::Retry,
        attempts_used: used,
        run_at: ReturnAt::Place(job.run_at),
        error: Some("no".to_owned()),
    })
}

#[tokio::test]
async fn ids_come_in_input_order_and_claims_in_priority_order() {
    let place = Place::new().await;
    let jobs: Vec<NewJob> =
        (0..300).map(|n| NewJob { priority: (10 - n % 11) as u8, ..place.job() }).collect();
    let ids = place.store.enqueue(&jobs).await.unwrap();
    assert!(ids.windows(2).all(|pair| pair[0].id < pair[1].id));
    let worker = place.worker().await;
    let leased = place.lease(worker, 1_000).await;
    assert_eq!(leased.len(), 300);
    assert!(
        leased
            .windows(2)
            .all(|p| (p[0].priority, p[0].run_at, p[0].id) < (p[1].priority, p[1].run_at, p[1].id))
    );
    assert!(leased.iter().all(|j| j.attempt == 1 && j.payload == b"{}"));
    place.end().await;
}

#[tokio::test]
async fn a_claim_takes_no_more_than_asked_and_no_job_twice() {
    let place = Place::new().await;
    place.put(2_000).await;
    // Statistics of an empty table provoke the plan that runs the locking part more than once.
    place.sql("analyze windlass.ready").await;
    let worker = place.worker().await;
    let mut seen = HashSet::new();
    loop {
        let claim = place.claim(worker, 37);
        let (a, b, c) =
            tokio::join!(place.store.claim(&claim), place.store.claim(&claim), place.store.claim(&claim));
        let mut none = true;
        for leased in [a.unwrap(), b.unwrap(), c.unwrap()] {
            assert!(leased.len() <= 37, "{}", leased.len());
            none &= leased.is_empty();
            for job in leased {
                assert!(seen.insert(job.id), "leased twice");
            }
        }
        if none && seen.len() == 2_000 {
            break;
        }
    }
    place.end().await;
}

#[tokio::test]
async fn settle_writes_one_row_and_a_second_settle_is_stale() {
    let place = Place::new().await;
    let ids = place.put(3).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 10).await;
    let result = Verdict::End { state: JobState::Completed, result: Some(b"7".to_vec()), error: None };
    let batch =
        [settlement(&leased[0], done()), settlement(&leased[1], result), settlement(&leased[0], done())];
    let answers = place.store.settle(&batch).await.unwrap();
    assert_eq!(answers, [Settled::Accepted, Settled::Accepted, Settled::Stale]);
    assert_eq!(place.store.settle(&batch).await.unwrap(), [Settled::Stale; 3]);
    assert_eq!(place.store.job(ids[1]).await.unwrap().unwrap().job.result.as_deref(), Some(&b"7"[..]));
    assert_eq!(place.number("select count(*) from windlass.attempts").await, 0);
    let mut wrong = settlement(&leased[2], done());
    wrong.token = Token(wrong.token.0 + 100);
    assert_eq!(place.store.settle(&[wrong]).await.unwrap(), [Settled::Stale]);
    assert_eq!(place.state(ids[2]).await, JobState::Running);
    assert_eq!(place.store.settle(&[settlement(&leased[2], done())]).await.unwrap(), [Settled::Accepted]);
    assert_eq!(place.number("select count(*) from windlass.claims").await, 0);
    place.end().await;
}

#[tokio::test]
async fn overlapping_settles_accept_each_job_once() {
    let place = Place::new().await;
    place.put(200).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 200).await;
    let low: Vec<_> = leased[..120].iter().map(|j| settlement(j, done())).collect();
    let high: Vec<_> = leased[80..].iter().map(|j| settlement(j, ended(JobState::Failed, "no"))).collect();
    let (a, b) = tokio::join!(place.store.settle(&low), place.store.settle(&high));
    let accepted = [a.unwrap(), b.unwrap()].concat().iter().filter(|s| **s == Settled::Accepted).count();
    assert_eq!(accepted, 200);
    assert_eq!(place.number("select count(*) from windlass.finished").await, 200);
    assert_eq!(place.number("select count(*) from windlass.claims").await, 0);
    place.end().await;
}

/// An application's statements run with the server's settings, not ours.
#[tokio::test]
async fn a_transaction_for_callers_has_the_servers_own_settings() {
    const SETTINGS: &str = "select current_setting('enable_seqscan'), current_setting('jit'),
                                   current_setting('statement_timeout'), current_setting('timezone')";
    type Settings = (String, String, String, String);
    let place = Place::new().await;
    let plain: Settings = sqlx::query_as(SETTINGS).fetch_one(&place.pool).await.unwrap();
    assert_eq!(plain.0, "on", "this server's own");
    // Again after the connection was returned to the pool.
    for _ in 0..2 {
        let mut tx = place.store.begin().await.unwrap();
        let connection = tx.tx().connection::<sqlx::PgConnection>().unwrap();
        let inside: Settings = sqlx::query_as(SETTINGS).fetch_one(connection).await.unwrap();
        assert_eq!(inside, plain);
        tx.commit().await.unwrap();
    }
    place.end().await;
}

#[tokio::test]
async fn open_transactions_of_callers_do_not_block_heartbeats() {
    let place = Place::new().await;
    let worker = place.worker().await;
    let mut open = Vec::new();
    for _ in 0..windlass_store_postgres::Options::default().pool_size {
        open.push(place.store.begin().await.unwrap());
    }
    assert!(place.store.heartbeat(worker).await.unwrap());
    drop(open);
    place.end().await;
}

/// The cost of one lease row per claim, which `settle_in` documents: other jobs of the claim wait for the caller's
/// commit, and for nothing else.
#[tokio::test]
async fn jobs_of_the_same_claim_wait_for_a_callers_transaction() {
    let place = Place::new().await;
    place.put(3).await;
    let worker = place.worker().await;
    let (together, apart) = (place.lease(worker, 2).await, place.lease(worker, 1).await);
    let mut tx = place.store.begin().await.unwrap();
    let inside = place.store.settle_in(tx.tx(), &settlement(&together[0], done())).await.unwrap();
    assert_eq!(inside, Settled::Accepted);
    let other = [settlement(&apart[0], done())];
    assert_eq!(place.store.settle(&other).await.unwrap(), [Settled::Accepted], "another claim does not wait");
    let neighbour = [settlement(&together[1], done())];
    let mut waiting = place.store.settle(&neighbour);
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "if this changes, `settle_in` need not be the last call before the commit");
    tx.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap(), [Settled::Accepted]);
    assert_eq!(place.number("select count(*) from windlass.claims").await, 0);
    place.end().await;
}

#[tokio::test]
async fn a_returned_job_keeps_its_place_and_its_history() {
    let place = Place::new().await;
    let ids = place.put(2).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 1).await;
    place.store.settle(&[settlement(&leased[0], back(&leased[0], 1))]).await.unwrap();
    let again = place.lease(worker, 1).await;
    assert_eq!((again[0].id, again[0].attempt, again[0].run_at), (ids[0], 2, leased[0].run_at));
    place.store.settle(&[settlement(&again[0], ended(JobState::DeadLetter, "gone"))]).await.unwrap();
    let detail = place.store.job(ids[0]).await.unwrap().unwrap();
    let outcomes: Vec<&str> = detail.attempts.iter().map(|a| a.outcome.as_str()).collect();
    assert_eq!(outcomes, ["retry", "dead_letter"]);
    assert_eq!(detail.job.last_error.as_deref(), Some("gone"));
    place.end().await;
}

#[tokio::test]
async fn a_dead_workers_jobs_run_again_at_once() {
    let place = Place::new().await;
    place.put(3).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 3).await;
    place.store.settle(&[settlement(&leased[0], done())]).await.unwrap();
    let beat = place.store.look().await.unwrap().beats[0];
    assert!(!beat.expired);
    assert!(place.store.heartbeat(worker).await.unwrap());
    assert_eq!(
        place.store.reclaim(&Death { beat, explained: false }).await.unwrap(),
        None,
        "the worker sent a heartbeat"
    );
    place.store.set_clock_offset(3_600_000_000);
    let beat = place.store.look().await.unwrap().beats[0];
    assert!(beat.expired);
    assert_eq!(place.store.reclaim(&Death { beat, explained: false }).await.unwrap().unwrap().returned, 2);
    assert!(!place.store.heartbeat(worker).await.unwrap());
    assert!(place.lease(worker, 5).await.is_empty(), "a dead worker leases nothing");
    assert_eq!(place.store.settle(&[settlement(&leased[1], done())]).await.unwrap(), [Settled::Stale]);

    let worker = place.worker().await;
    let again = place.lease(worker, 5).await;
    assert_eq!(again.iter().map(|job| (job.attempt, job.suspicion.level())).collect::<Vec<_>>(), [(1, 1); 2]);
    assert!(place.store.clear_alone(again[0].token).await.unwrap());
    assert!(!place.store.clear_alone(Token(i64::MAX)).await.unwrap());
    place.end().await;
}

#[tokio::test]
async fn a_retiring_worker_hands_back() {
    let place = Place::new().await;
    let ids = place.put(2).await;
    let worker = place.worker().await;
    assert_eq!(place.lease(worker, 2).await.len(), 2);
    place.store.retire_worker(worker).await.unwrap();
    let worker = place.worker().await;
    let leased = place.lease(worker, 2).await;
    assert_eq!(leased.iter().map(|j| (j.id, j.attempt)).collect::<Vec<_>>(), [(ids[0], 1), (ids[1], 1)]);
    assert_eq!(place.store.job(ids[0]).await.unwrap().unwrap().attempts[0].outcome, "handed_back");
    place.end().await;
}

#[tokio::test]
async fn future_jobs_are_scheduled_and_past_times_become_now() {
    let place = Place::new().await;
    let jobs = [
        NewJob { run_at: RunAt::In(Duration::from_secs(600)), ..place.job() },
        NewJob { run_at: RunAt::At(Time(5)), ..place.job() },
    ];
    let ids = place.store.enqueue(&jobs).await.unwrap();
    assert_eq!(place.state(ids[0].id).await, JobState::Scheduled);
    assert_eq!(place.state(ids[1].id).await, JobState::Pending);
    let worker = place.worker().await;
    let leased = place.lease(worker, 9).await;
    assert_eq!(leased.len(), 1);
    assert!(leased[0].run_at >= leased[0].created_at);
    place.store.set_clock_offset(601_000_000);
    assert_eq!(place.lease(worker, 9).await.len(), 1);
    place.end().await;
}

#[tokio::test]
async fn an_effect_and_its_settlement_are_one_commit() {
    let place = Place::new().await;
    let ids = place.put(1).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 1).await;
    let end = settlement(&leased[0], done());
    let mut tx = place.store.begin().await.unwrap();
    assert_eq!(place.store.settle_in(tx.tx(), &end).await.unwrap(), Settled::Accepted);
    tx.rollback().await.unwrap();
    assert_eq!(place.state(ids[0]).await, JobState::Running);
    let mut tx = place.pool.begin().await.unwrap();
    let added = place.store.enqueue_in(TxRef::new(&mut *tx), &[place.job()]).await.unwrap();
    assert_eq!(place.store.settle_in(TxRef::new(&mut *tx), &end).await.unwrap(), Settled::Accepted);
    assert!(place.store.job(added[0].id).await.unwrap().is_none(), "not visible before the commit");
    tx.commit().await.unwrap();
    assert_eq!(place.state(ids[0]).await, JobState::Completed);
    assert_eq!(place.state(added[0].id).await, JobState::Pending);

    let mut wrong = 5_u8;
    let refused = place.store.enqueue_in(TxRef::new(&mut wrong), &[place.job()]).await.unwrap_err();
    assert!(matches!(refused, StoreError::WrongTransaction { .. }));
    let mut loose = place.pool.acquire().await.unwrap();
    let refused = place.store.enqueue_in(TxRef::new(&mut *loose), &[place.job()]).await.unwrap_err();
    assert!(refused.to_string().contains("begin one first"), "{refused}");
    drop(loose);
    place.end().await;
}

/// As after the database's clock was set back: for a while every new id belongs to another job.
#[tokio::test]
async fn an_id_in_use_is_replaced_by_another() {
    for table in ["jobs", "ready"] {
        let place = Place::new().await;
        let old = place.put(1).await[0];
        place
            .sql(&format!(
                "create sequence windlass.inserts;
                 create function windlass.collide() returns trigger language plpgsql as $$
                 begin
                     if nextval('windlass.inserts') <= 2 then new.id := {}; end if;
                     return new;
                 end $$;
                 create trigger collide before insert on windlass.{table}
                 for each row execute function windlass.collide()",
                old.0
            ))
            .await;
        let new = place.put(3).await;
        assert_eq!(new.len(), 3);
        assert!(place.number("select last_value from windlass.inserts").await >= 4, "{table}: none collided");
        assert_eq!(place.number("select count(*) from windlass.jobs").await, 4);
        assert_eq!(place.number("select count(*) from windlass.ready").await, 4);
        place.end().await;
    }
}

#[tokio::test]
async fn a_huge_delay_fails_neither_its_job_nor_its_batch() {
    let place = Place::new().await;
    let endless = NewJob { run_at: RunAt::In(Duration::MAX), ..place.job() };
    let ids = place.store.enqueue(&[endless, place.job(), place.job()]).await.unwrap();
    assert_eq!(place.state(ids[0].id).await, JobState::Scheduled);
    let worker = place.worker().await;
    let leased = place.lease(worker, 5).await;
    let snoozed = Verdict::Return(Return {
        why: ReturnWhy::Snooze,
        attempts_used: 0,
        run_at: ReturnAt::In(Duration::MAX),
        error: None,
    });
    let batch = [settlement(&leased[0], snoozed), settlement(&leased[1], done())];
    assert_eq!(place.store.settle(&batch).await.unwrap(), [Settled::Accepted; 2]);
    assert_eq!(place.state(leased[0].id).await, JobState::Scheduled);
    place.end().await;
}

#[tokio::test]
async fn a_connection_without_a_transaction_is_refused() {
    let place = Place::new().await;
    let id = place.put(1).await[0];
    let worker = place.worker().await;
    let leased = place.lease(worker, 1).await;
    let mut conn = place.pool.acquire().await.unwrap();
    let settled = place.store.settle_in(TxRef::new(&mut *conn), &settlement(&leased[0], done())).await;
    assert!(matches!(settled, Err(StoreError::WrongTransaction { .. })), "{settled:?}");
    let put = place.store.enqueue_in(TxRef::new(&mut *conn), &[place.job()]).await;
    assert!(matches!(put, Err(StoreError::WrongTransaction { .. })), "{put:?}");
    assert_eq!(place.state(id).await, JobState::Running);
    drop(conn);
    place.end().await;
}
