//! Lanes when two sessions interleave within a statement, and while a caller keeps its transaction open.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Postgres, Transaction};
use windlass_core::store::{Action, Change, JobFilter, Settled};
use windlass_core::{JobId, JobState, KindSpec, LaneId, LeasedJob, NewJob, Store, Time, TxRef, WorkerId};
use windlass_store_postgres::PostgresStore;
use windlass_testkit::signal::{Seen, wait_until};

use crate::place::{Place, done, settlement};

const ROUNDS: usize = 8;

pub(crate) fn keyed(place: &Place, key: &str) -> NewJob {
    NewJob { concurrency_key: Some(key.to_owned()), ..place.job() }
}

pub(crate) async fn put(place: &Place, key: &str) -> JobId {
    place.store.enqueue(&[keyed(place, key)]).await.unwrap()[0].id
}

pub(crate) fn ids(jobs: &[LeasedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

pub(crate) async fn sound(place: &Place) {
    let findings = place.store.examine().await.unwrap();
    let lanes = findings.iter().find(|finding| finding.name == "lanes").unwrap();
    assert!(lanes.ok, "{}", lanes.finding);
}

/// Blocks any session that takes the lane's first slot. By then that session has locked the lane's next job.
async fn hold_slot(place: &Place, key: &str) -> Transaction<'static, Postgres> {
    let mut tx = place.pool.begin().await.unwrap();
    let sql = format!("insert into {}.lane_slots (lane, slot) values ($1, 1)", place.schema);
    let lane = LaneId::of(place.kind, key).0;
    sqlx::query(AssertSqlSafe(sql)).bind(lane).execute(&mut *tx).await.unwrap();
    tx
}

async fn end(place: Place, other: PostgresStore) {
    other.close().await;
    place.end().await;
}

/// The second would skip the job that the first has locked, and give the slot to the one after it.
#[tokio::test]
async fn two_claims_that_check_one_lane_concurrently_keep_its_order() {
    let (place, worker) = place_with_worker().await;
    let other = place.other().await;
    let ask = place.claim(worker, 1);
    for round in 0..ROUNDS {
        let key = format!("key {round}");
        let first = put(&place, &key).await;
        put(&place, &key).await;
        let held = hold_slot(&place, &key).await;
        let (one, two, ()) = tokio::join!(
            place.store.claim(&ask),
            async {
                place.wait_for_blocked_session().await;
                put(&place, &key).await;
                other.claim(&ask).await
            },
            async {
                place.wait_for_blocked_sessions(2).await;
                held.rollback().await.unwrap();
            }
        );
        assert_eq!(ids(&[one.unwrap(), two.unwrap()].concat()), [first], "round {round}");
    }
    sound(&place).await;
    end(place, other).await;
}

/// The second sees the tables as they were before the first, tries the same slot for its job and does not get it.
#[tokio::test]
async fn a_claim_that_loses_a_slot_leaves_a_lane_check() {
    let (place, worker) = place_with_worker().await;
    let two_at_once = KindSpec { key_concurrency: 2, ..KindSpec::new("k", "Q") };
    place.store.sync_registry(&[], &[two_at_once], None).await.unwrap();
    let other = place.other().await;
    let ask = place.claim(worker, 5);
    for round in 0..ROUNDS {
        let key = format!("key {round}");
        let first = put(&place, &key).await;
        let held = hold_slot(&place, &key).await;
        let (one, (second, two), ()) = tokio::join!(
            place.store.claim(&ask),
            async {
                place.wait_for_blocked_session().await;
                let second = put(&place, &key).await;
                (second, other.claim(&ask).await)
            },
            async {
                place.wait_for_blocked_sessions(2).await;
                held.rollback().await.unwrap();
            }
        );
        let mut leased = [one.unwrap(), two.unwrap()].concat();
        leased.extend(place.lease(worker, 5).await);
        assert_eq!(ids(&leased), [first, second], "round {round}");
    }
    sound(&place).await;
    end(place, other).await;
}

/// The cancel finds its job blocked, waits for the claim that makes it ready, and then removes a job that holds a
/// slot.
#[tokio::test]
async fn a_job_made_ready_while_it_is_cancelled_frees_its_slot() {
    let (place, worker) = place_with_worker().await;
    let other = place.other().await;
    let ask = place.claim(worker, 1);
    let mut cancelled = 0;
    for round in 0..ROUNDS {
        let key = format!("key {round}");
        let first = put(&place, &key).await;
        let filter = JobFilter { ids: vec![first], ..JobFilter::default() };
        let held = hold_slot(&place, &key).await;
        let (leased, acted, ()) = tokio::join!(
            place.store.claim(&ask),
            async {
                place.wait_for_blocked_session().await;
                other.act(&filter, Action::Cancel, 1, None).await
            },
            async {
                place.wait_for_blocked_sessions(2).await;
                held.rollback().await.unwrap();
            }
        );
        let (leased, acted) = (leased.unwrap(), acted.unwrap());
        assert_eq!((acted.done + acted.requested, acted.done), (1, 1 - leased.len() as u64), "round {round}");
        cancelled += acted.done;
        sound(&place).await;
    }
    assert!(cancelled > 0, "the claim was always faster, so nothing was tested");
    end(place, other).await;
}

/// Neither side waits for the other.
#[tokio::test]
async fn an_open_transaction_blocks_no_lane() {
    let (place, worker) = place_with_worker().await;
    let (a, b) = (put(&place, "a").await, put(&place, "b").await);
    let leased = place.lease(worker, 5).await;
    assert_eq!(ids(&leased), [a, b]);
    let behind = put(&place, "a").await;

    let mut producer = place.pool.begin().await.unwrap();
    let inside = place.store.enqueue_in(TxRef::new(&mut *producer), &[keyed(&place, "a")]).await.unwrap();
    let first = [settlement(&leased[0], done())];
    let settled = place.store.settle(&first);
    assert_eq!(within(settled).await, [Settled::Accepted], "while a job is not committed yet");
    let next = place.claim(worker, 5);
    let next = within(place.store.claim(&next)).await;
    assert_eq!(ids(&next), [behind]);

    let mut handler = place.store.begin().await.unwrap();
    let settled = place.store.settle_in(handler.tx(), &settlement(&next[0], done())).await.unwrap();
    assert_eq!(settled, Settled::Accepted);
    let third = within(place.store.enqueue(&[keyed(&place, "a")])).await[0].id;
    let ask = place.claim(worker, 5);
    assert!(within(place.store.claim(&ask)).await.is_empty(), "the slot is not free before the commit");
    assert_eq!(
        within(place.store.settle(&[settlement(&leased[1], done())])).await,
        [Settled::Accepted],
        "another claim's job"
    );
    handler.commit().await.unwrap();
    producer.commit().await.unwrap();
    let mut order = Vec::new();
    for _ in 0..2 {
        let leased = place.lease(worker, 5).await;
        order.extend(ids(&leased));
        place.store.settle(&[settlement(&leased[0], done())]).await.unwrap();
    }
    assert_eq!(order, [inside[0].id, third]);
    assert_eq!(place.state(third).await, JobState::Completed);
    sound(&place).await;
    place.end().await;
}

/// Blocks a settlement of `job` before it hands over the slot.
async fn hold_end_of(place: &Place, job: JobId) -> Transaction<'static, Postgres> {
    let mut tx = place.pool.begin().await.unwrap();
    let sql = format!(
        "insert into {}.finished (id, state, attempt, finished_at) values ($1, 3, 1, now())",
        place.schema
    );
    sqlx::query(AssertSqlSafe(sql)).bind(job.0).execute(&mut *tx).await.unwrap();
    tx
}

pub(crate) async fn hold(place: &Place, which: &str, key: i64) -> Transaction<'static, Postgres> {
    let mut tx = place.pool.begin().await.unwrap();
    let sql = format!("select 1 from {}.{which} for update", place.schema);
    let held = sqlx::query(AssertSqlSafe(sql)).bind(key).fetch_all(&mut *tx).await.unwrap();
    assert_eq!(held.len(), 1);
    tx
}

/// While a settlement is blocked, the next job of its lane is cancelled or delayed.
#[tokio::test]
async fn a_slot_skips_a_job_that_was_cancelled_or_delayed() {
    let (place, worker) = place_with_worker().await;
    let other = place.other().await;
    for round in 0..ROUNDS {
        let key = format!("key {round}");
        let first = put(&place, &key).await;
        let running = place.lease(worker, 1).await;
        assert_eq!(ids(&running), [first]);
        let (next, last) = (put(&place, &key).await, put(&place, &key).await);
        let filter = JobFilter { ids: vec![next], ..JobFilter::default() };
        let later = Change { priority: None, run_at: Some(Time(i64::MAX / 2)) };
        let batch = [settlement(&running[0], done())];
        let held = hold_end_of(&place, first).await;
        let (settled, ()) = tokio::join!(place.store.settle(&batch), async {
            place.wait_for_blocked_session().await;
            match round % 2 {
                0 => assert_eq!(within(other.act(&filter, Action::Cancel, 1, None)).await.done, 1),
                _ => assert!(within(other.change(next, &later, None)).await),
            }
            held.rollback().await.unwrap();
        });
        assert_eq!(settled.unwrap(), [Settled::Accepted], "round {round}");
        sound(&place).await;
        let leased = place.lease(worker, 5).await;
        assert_eq!(ids(&leased), [last], "round {round}");
        place.store.settle(&[settlement(&leased[0], done())]).await.unwrap();
    }
    sound(&place).await;
    end(place, other).await;
}

/// The second settlement is not blocked by the first.
#[tokio::test]
async fn two_concurrent_settlements_hand_their_slots_to_two_jobs() {
    let (place, worker) = place_with_worker().await;
    let two_at_once = KindSpec { key_concurrency: 2, ..KindSpec::new("k", "Q") };
    place.store.sync_registry(&[], &[two_at_once], None).await.unwrap();
    let other = place.other().await;
    for round in 0..ROUNDS {
        let key = format!("key {round}");
        let first = [put(&place, &key).await, put(&place, &key).await];
        let mut leased = Vec::new();
        for _ in 0..2 {
            leased.extend(place.lease(worker, 1).await);
        }
        assert_eq!(ids(&leased), first);
        let then = [put(&place, &key).await, put(&place, &key).await];
        put(&place, &key).await;
        let (one, two) = ([settlement(&leased[0], done())], [settlement(&leased[1], done())]);
        let held = hold_end_of(&place, first[0]).await;
        let (left, right) = tokio::join!(place.store.settle(&one), async {
            place.wait_for_blocked_session().await;
            let settled = within(other.settle(&two)).await;
            held.rollback().await.unwrap();
            settled
        });
        assert_eq!((left.unwrap(), right), (vec![Settled::Accepted], vec![Settled::Accepted]));
        sound(&place).await;
        let mut leased = place.lease(worker, 5).await;
        leased.sort_by_key(|job| job.id);
        assert_eq!(ids(&leased), then, "round {round}");
        let batch: Vec<_> = leased.iter().map(|job| settlement(job, done())).collect();
        place.store.settle(&batch).await.unwrap();
        let last = place.lease(worker, 5).await;
        place.store.settle(&[settlement(&last[0], done())]).await.unwrap();
    }
    sound(&place).await;
    end(place, other).await;
}

/// The slot is given away later, in order.
#[tokio::test]
async fn settlements_and_claims_do_not_wait_for_a_locked_job() {
    let (place, worker) = place_with_worker().await;
    let first = put(&place, "a").await;
    let running = place.lease(worker, 1).await;
    assert_eq!(ids(&running), [first]);
    let (next, last) = (put(&place, "a").await, put(&place, "a").await);
    let held = hold(&place, "ready where id = $1", next.0).await;
    within(place.store.settle(&[settlement(&running[0], done())])).await;
    let ask = place.claim(worker, 5);
    assert!(within(place.store.claim(&ask)).await.is_empty(), "the next job is locked");
    held.rollback().await.unwrap();
    sound(&place).await;
    let running = lease_some(&place, worker).await;
    assert_eq!(ids(&running), [next]);

    let two_at_once = KindSpec { key_concurrency: 2, ..KindSpec::new("k", "Q") };
    place.store.sync_registry(&[], &[two_at_once], None).await.unwrap();
    let (then, most) = (put(&place, "a").await, put(&place, "a").await);
    assert_eq!(ids(&place.lease(worker, 5).await), [last]);
    let held = hold(&place, "ready where id = $1", then.0).await;
    within(place.store.settle(&[settlement(&running[0], done())])).await;
    held.rollback().await.unwrap();
    assert_eq!(ids(&lease_some(&place, worker).await), [then], "the order is kept");
    assert_eq!(place.state(most).await, JobState::Pending);
    sound(&place).await;
    place.end().await;
}

/// The lane check stays until the lock is released.
#[tokio::test]
async fn a_job_locked_during_a_lane_check_is_found_later() {
    let (place, worker) = place_with_worker().await;
    let only = put(&place, "a").await;
    for slots in [1, 3] {
        let room = KindSpec { key_concurrency: slots, ..KindSpec::new("k", "Q") };
        place.store.sync_registry(&[], &[room], None).await.unwrap();
        let held = hold(&place, "ready where id = $1", only.0).await;
        let ask = place.claim(worker, 5);
        assert!(within(place.store.claim(&ask)).await.is_empty());
        held.rollback().await.unwrap();
        sound(&place).await;
    }
    assert_eq!(ids(&lease_some(&place, worker).await), [only]);
    sound(&place).await;
    place.end().await;
}

/// The job's row changes before the claim, and then the settlement, gets to it.
#[tokio::test]
async fn a_blocked_job_that_changes_meanwhile_still_gets_its_slot() {
    let (place, worker) = place_with_worker().await;
    let other = place.other().await;
    let urgent = Change { priority: Some(1), run_at: None };
    for round in 0..ROUNDS {
        let key = format!("key {round}");
        let first = put(&place, &key).await;
        let held = hold(&place, "kinds where id = $1", i64::from(place.kind.0)).await;
        let ask = place.claim(worker, 1);
        let (leased, changed) = tokio::join!(place.store.claim(&ask), async {
            place.wait_for_blocked_session().await;
            let changed = other.change(first, &urgent, None).await;
            held.rollback().await.unwrap();
            changed
        });
        assert!(changed.unwrap());
        sound(&place).await;
        let mut running = leased.unwrap();
        if running.is_empty() {
            running = place.lease(worker, 5).await;
        }
        assert_eq!(ids(&running), [first], "round {round}");

        let next = put(&place, &key).await;
        let batch = [settlement(&running[0], done())];
        let held = hold(&place, "claims where token = $1", running[0].token.0).await;
        let (settled, changed) = tokio::join!(place.store.settle(&batch), async {
            place.wait_for_blocked_session().await;
            let changed = other.change(next, &urgent, None).await;
            held.rollback().await.unwrap();
            changed
        });
        assert_eq!((settled.unwrap(), changed.unwrap()), (vec![Settled::Accepted], true));
        sound(&place).await;
        let running = place.lease(worker, 5).await;
        assert_eq!(ids(&running), [next], "round {round}");
        place.store.settle(&[settlement(&running[0], done())]).await.unwrap();
    }
    sound(&place).await;
    end(place, other).await;
}

/// A handler that settles its job in its own transaction.
#[tokio::test]
async fn settling_in_an_open_transaction_locks_no_blocked_job() {
    let (place, worker) = place_with_worker().await;
    let first = put(&place, "a").await;
    let running = place.lease(worker, 1).await;
    assert_eq!(ids(&running), [first]);
    let (next, last) = (put(&place, "a").await, put(&place, "a").await);
    let mut handler = place.store.begin().await.unwrap();
    place.store.settle_in(handler.tx(), &settlement(&running[0], done())).await.unwrap();
    let filter = JobFilter { ids: vec![next], ..JobFilter::default() };
    assert_eq!(within(place.store.act(&filter, Action::Cancel, 1, None)).await.done, 1);
    handler.commit().await.unwrap();
    assert_eq!(ids(&place.lease(worker, 5).await), [last]);
    sound(&place).await;
    place.end().await;
}

/// Retries until a job is leased: a lane whose next job was locked is checked again a moment later.
async fn lease_some(place: &Place, worker: WorkerId) -> Vec<LeasedJob> {
    let some = |jobs: &Vec<LeasedJob>| !jobs.is_empty();
    wait_until("a job to lease", Duration::from_secs(5), || async {
        Seen::when(place.lease(worker, 5).await, some)
    })
    .await
}

pub(crate) async fn place_with_worker() -> (Place, windlass_core::WorkerId) {
    let place = Place::new().await;
    let worker = place.worker().await;
    (place, worker)
}

async fn within<T, E: std::fmt::Debug>(call: impl Future<Output = Result<T, E>>) -> T {
    tokio::time::timeout(Duration::from_secs(5), call)
        .await
        .unwrap_or_else(|_| panic!("the call waits for the open transaction"))
        .unwrap()
}

/// Each problem of lanes that `doctor` can report, and its remedy.
#[tokio::test]
async fn doctor_reports_inconsistent_lanes() {
    let (place, worker) = place_with_worker().await;
    put(&place, "a").await;
    let running = place.lease(worker, 1).await;
    sound(&place).await;
    let check_finding = async |wrong: &str, right: &str, said: &str| {
        place.sql(wrong).await;
        let findings = place.store.examine().await.unwrap();
        let lanes = findings.into_iter().find(|finding| finding.name == "lanes").unwrap();
        assert!(!lanes.ok && lanes.finding.contains(said), "{said}: {}", lanes.finding);
        place.sql(right).await;
        sound(&place).await;
        lanes.remedy.unwrap()
    };
    let moved = ["update windlass.lane_slots set slot = 2", "update windlass.lane_slots set slot = 1"];
    check_finding(moved[0], moved[1], "1 slots without a job, 1 jobs without a slot").await;
    place.store.settle(&[settlement(&running[0], done())]).await.unwrap();
    let blocked = put(&place, "b").await;
    let remedy = check_finding(
        "delete from windlass.lane_checks",
        "insert into windlass.lane_checks (kind, at, lane, freed)
         select kind, run_at, lane, false from windlass.ready",
        "1 jobs blocked for ever",
    )
    .await;
    assert!(remedy.contains(&format!("windlass jobs set {blocked} --priority 5")), "{remedy}");
    place.end().await;
}
