//! Turns: offers in the order of claims, served in part, taken back with the schema.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_core::store::{Action, JobFilter, QueueUpdate};
use windlass_core::{JobId, LeasedJob, NewJob, Store, WorkerId};

use crate::lanes::{hold, ids, keyed, put, sound, worked_place};
use crate::place::{Place, done, settlement};

const LEFT: &str = "select (select count(*) from windlass.turns) + (select count(*) from windlass.slots)
                         + (select count(*) from windlass.looks) + (select count(*) from windlass.ready)";
const OFFERS: &str = "select coalesce(sum(cardinality(ids)), 0)::bigint from windlass.turns";

async fn settle(place: &Place, jobs: &[LeasedJob]) {
    let batch: Vec<_> = jobs.iter().map(|job| settlement(job, done())).collect();
    place.store.settle(&batch).await.unwrap();
}

async fn lanes(place: &Place, lanes: usize) -> Vec<JobId> {
    let jobs: Vec<NewJob> = (0..lanes).map(|n| keyed(place, &format!("key {n}"))).collect();
    place.store.enqueue(&jobs).await.unwrap().iter().map(|put| put.id).collect()
}

/// One settlement of a hundred lanes, served seven at a time: what is left of a turn is not lost, and nobody is served twice.
#[tokio::test]
async fn a_turn_is_served_in_parts() {
    let (place, worker) = worked_place().await;
    for _ in 0..3 {
        lanes(&place, 100).await;
    }
    let first = place.lease(worker, 200).await;
    assert_eq!(first.len(), 100, "one of each lane");
    settle(&place, &first).await;
    assert_eq!(place.number(OFFERS).await, 100);
    sound(&place).await;
    let mut seen: HashSet<JobId> = ids(&first).into_iter().collect();
    let mut offered = 100;
    while offered > 0 {
        let leased = place.lease(worker, 7).await;
        assert_eq!(leased.len() as i64, offered.min(7));
        assert!(ids(&leased).into_iter().all(|id| seen.insert(id)), "served twice");
        offered -= leased.len() as i64;
        assert_eq!(place.number(OFFERS).await, offered);
        sound(&place).await;
    }
    drain(&place, worker, seen).await;
    place.end().await;
}

/// Reclaims what is leased, and runs the rest to the end.
async fn drain(place: &Place, worker: WorkerId, mut seen: HashSet<JobId>) {
    place.store.retire_worker(worker).await.unwrap();
    let worker = place.worker().await;
    loop {
        let leased = place.lease(worker, 30).await;
        if leased.is_empty() {
            break;
        }
        seen.extend(ids(&leased));
        settle(place, &leased).await;
        sound(place).await;
    }
    assert_eq!((seen.len(), place.number(LEFT).await), (300, 0));
}

/// An offer stands where the slot got free: behind what is more urgent or was there before, before what came later.
#[tokio::test]
async fn offers_stand_among_the_ready() {
    let (place, worker) = worked_place().await;
    put(&place, "a").await;
    let running = place.lease(worker, 1).await;
    let next = put(&place, "a").await;
    let before = place.put(1).await[0];
    settle(&place, &running).await;
    assert_eq!(place.number(OFFERS).await, 1);
    let after = place.put(1).await[0];
    let urgent = NewJob { priority: 0, ..place.job() };
    let urgent = place.store.enqueue(&[urgent]).await.unwrap()[0].id;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.extend(ids(&place.lease(worker, 1).await));
    }
    assert_eq!(order, [urgent, before, next, after]);
    place.end().await;
}

/// An urgent one among many that are not: each offer stands under the priority of who is offered.
#[tokio::test]
async fn an_offer_has_the_priority_of_its_job() {
    let (place, worker) = worked_place().await;
    lanes(&place, 3).await;
    let running = place.lease(worker, 5).await;
    let others = lanes(&place, 3).await;
    let urgent = NewJob { priority: 1, ..keyed(&place, "key 2") };
    let urgent = place.store.enqueue(&[urgent]).await.unwrap()[0].id;
    settle(&place, &running).await;
    assert_eq!(place.number(OFFERS).await, 3);
    assert_eq!(ids(&place.lease(worker, 1).await), [urgent]);
    let mut then = ids(&place.lease(worker, 5).await);
    then.sort_unstable();
    assert_eq!(then, others[..2]);
    sound(&place).await;
    place.end().await;
}

/// The slot of `key` is offered to the job that is returned, since an hour ago: below where hints are kept.
async fn offered(place: &Place, worker: WorkerId, key: &str) -> JobId {
    put(place, key).await;
    let running = place.lease(worker, 1).await;
    let next = put(place, key).await;
    settle(place, &running).await;
    place.sql("update windlass.turns set run_at = run_at - interval '1 hour'").await;
    from_the_bottom(place).await;
    next
}

/// Has the next claim start there, since nobody said what changed.
async fn from_the_bottom(place: &Place) {
    assert!(place.store.update_queue(place.queue, &QueueUpdate::default()).await.unwrap());
}

/// Somebody holds the row of who was offered a slot: others are served meanwhile, and he right after.
#[tokio::test]
async fn an_offer_to_one_who_is_held_stops_nobody() {
    let (place, worker) = worked_place().await;
    let next = offered(&place, worker, "a").await;
    let held = hold(&place, "ready where id = $1", next.0).await;
    let plain = place.put(3).await;
    for id in plain {
        assert_eq!(ids(&place.lease(worker, 1).await), [id]);
    }
    assert!(place.lease(worker, 1).await.is_empty());
    held.rollback().await.unwrap();
    assert_eq!(ids(&place.lease(worker, 1).await), [next]);
    sound(&place).await;
    place.end().await;
}

/// Another claimer has locked the turn, and dies.
#[tokio::test]
async fn a_turn_that_somebody_serves_is_not_forgotten() {
    let (place, worker) = worked_place().await;
    let next = offered(&place, worker, "a").await;
    let plain = place.put(2).await;
    let held = hold(&place, "turns where queue = $1", i64::from(place.queue.0)).await;
    assert_eq!(ids(&place.lease(worker, 1).await), plain[..1], "one claim that was full");
    assert_eq!(ids(&place.lease(worker, 5).await), plain[1..], "and one that was not");
    held.rollback().await.unwrap();
    assert_eq!(ids(&place.lease(worker, 1).await), [next]);
    place.end().await;
}

/// After a vacuum a row of the same job may stand where the one stood that was offered a slot.
#[tokio::test]
async fn an_offer_ends_with_its_jobs_time_or_priority() {
    let (place, worker) = worked_place().await;
    let next = offered(&place, worker, "a").await;
    for change in ["run_at = now() + interval '1 hour'", "run_at = now() - interval '1 hour', priority = 9"] {
        let again = format!(
            "update windlass.ready set {change} where id = {};
             delete from windlass.turns; delete from windlass.slots; delete from windlass.looks;
             insert into windlass.slots (lane, slot) select lane, 1 from windlass.ready;
             insert into windlass.looks (kind, at, lane, freed) select kind, run_at, lane, false from windlass.ready
             where run_at > now();
             insert into windlass.turns (queue, priority, run_at, kind, lanes, ids, addresses)
             select -queue, 5, now() - interval '1 hour', kind, array[lane], array[id], array[ctid]
             from windlass.ready",
            next.0
        );
        place.sql(&again).await;
        from_the_bottom(&place).await;
        let urgent = NewJob { priority: 7, ..place.job() };
        let urgent = place.store.enqueue(&[urgent]).await.unwrap()[0].id;
        assert_eq!(ids(&place.lease(worker, 1).await), [urgent], "{change}");
        assert_eq!(place.number(OFFERS).await, 0, "{change}");
        sound(&place).await;
    }
    assert_eq!(ids(&place.lease(worker, 1).await), [next], "due, behind what is more urgent");
    place.end().await;
}

/// While all that is offered is held there is nothing to come back for at once; the poll does, every second.
#[tokio::test]
async fn held_offers_call_nobody() {
    let (place, worker) = worked_place().await;
    for n in 0..12 {
        offered(&place, worker, &format!("key {n}")).await;
        let tail = "update windlass.turns set run_at = now() + interval '1 hour'";
        place.sql(tail).await;
    }
    place.sql("update windlass.turns set run_at = now()").await;
    let mut held = place.pool.begin().await.unwrap();
    let all = format!("select 1 from {}.ready where queue < 0 for update", place.schema);
    sqlx::query(sqlx::AssertSqlSafe(all)).execute(&mut *held).await.unwrap();
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    place.store.on_wake(Box::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        true
    }));
    assert!(place.lease(worker, 20).await.is_empty());
    assert_eq!(woken.load(Ordering::Relaxed), 0, "it would claim again at once, and again");
    held.rollback().await.unwrap();
    let mut served = 0;
    while woken.swap(0, Ordering::Relaxed) > 0 || served == 0 {
        served += place.lease(worker, 20).await.len();
    }
    assert_eq!(served, 12, "what one claim did not come to it calls for");
    place.end().await;
}

/// Among many offers that are more urgent, the one that is due longest.
#[tokio::test]
async fn a_late_offer_is_found_whatever_its_priority() {
    let (place, worker) = worked_place().await;
    let at = |key: &str, priority| NewJob { priority, ..keyed(&place, key) };
    place.store.enqueue(&[at("late", 9)]).await.unwrap();
    let running = place.lease(worker, 1).await;
    let late = place.store.enqueue(&[at("late", 9)]).await.unwrap()[0].id;
    settle(&place, &running).await;
    for _ in 0..2 {
        let urgent: Vec<NewJob> = (0..15).map(|n| at(&format!("key {n}"), 1)).collect();
        place.store.enqueue(&urgent).await.unwrap();
    }
    let running = place.lease(worker, 15).await;
    assert!(running.iter().all(|job| job.priority == 1));
    settle(&place, &running).await;
    assert_eq!(place.number(OFFERS).await, 16);
    let found = place.store.claim_late(&place.claim(worker, 1), Duration::ZERO).await.unwrap().jobs;
    assert_eq!(ids(&found), [late]);
    place.end().await;
}

/// He is gone from the line: whoever stands there now is looked for at once, not where he was to be served.
#[tokio::test]
async fn a_cancel_takes_back_the_offer() {
    let (place, worker) = worked_place().await;
    place.store.enqueue(&[keyed(&place, "a")]).await.unwrap();
    let running = place.lease(worker, 1).await;
    let last = NewJob { priority: 9, ..keyed(&place, "a") };
    let last = place.store.enqueue(&[last]).await.unwrap()[0].id;
    settle(&place, &running).await;
    let urgent = NewJob { priority: 0, ..keyed(&place, "a") };
    let urgent = place.store.enqueue(&[urgent]).await.unwrap()[0].id;
    place.put(2).await;
    let filter = JobFilter { ids: vec![last], ..JobFilter::default() };
    assert_eq!(place.store.act(&filter, Action::Cancel, 1, None).await.unwrap().done, 1);
    assert_eq!(place.number(OFFERS).await, 0);
    sound(&place).await;
    assert_eq!(ids(&place.lease(worker, 1).await), [urgent]);
    sound(&place).await;
    place.end().await;
}

/// Doctor counts each: an offer to another lane's job, the same job offered twice, a slot above the limit, a line nobody
/// will look at, for which it names what to do.
#[tokio::test]
async fn doctor_sees_what_is_astray() {
    let (place, worker) = worked_place().await;
    let next = offered(&place, worker, "a").await;
    sound(&place).await;
    let astray = async |wrong: &str, right: &str, said: &str| {
        place.sql(wrong).await;
        let findings = place.store.examine().await.unwrap();
        let lanes = findings.into_iter().find(|finding| finding.name == "lanes").unwrap();
        assert!(!lanes.ok && lanes.finding.contains(said), "{said}: {}", lanes.finding);
        place.sql(right).await;
        sound(&place).await;
        lanes.remedy.unwrap()
    };
    let other_lane =
        ["update windlass.ready set lane = lane + 1", "update windlass.ready set lane = lane - 1"];
    astray(other_lane[0], other_lane[1], "1 offers to another lane's job").await;
    let twice = [
        "update windlass.turns set lanes = lanes || 7::bigint, ids = ids || ids",
        "update windlass.turns set lanes = lanes[1:1], ids = ids[1:1]",
    ];
    astray(twice[0], twice[1], "2 offers to another lane's job").await;
    let served = place.lease(worker, 1).await;
    assert_eq!(ids(&served), [next]);
    let above = [
        "update windlass.slots set slot = 2; update windlass.claims set slots = '{2}'",
        "update windlass.slots set slot = 1; update windlass.claims set slots = '{1}'",
    ];
    astray(above[0], above[1], "1 above the limit").await;
    settle(&place, &served).await;
    let lined = put(&place, "b").await;
    let remedy = astray(
        "delete from windlass.looks",
        "insert into windlass.looks (kind, at, lane, freed)
        select kind, run_at, lane, false from windlass.ready",
        "1 in line for ever",
    )
    .await;
    assert!(remedy.contains(&format!("windlass jobs set {lined} --priority 5")), "{remedy}");
    place.end().await;
}

/// When every wake-up is lost, the poll alone finds them; another process that has claimed since looks no higher.
#[tokio::test]
async fn the_poll_sees_offers() {
    let (place, worker) = worked_place().await;
    let other = place.other().await;
    put(&place, "a").await;
    let running = place.lease(worker, 1).await;
    let next = put(&place, "a").await;
    assert!(other.claim(&place.claim(worker, 5)).await.unwrap().is_empty());
    settle(&place, &running).await;
    let poll = other.poll(worker, &place.served()).await.unwrap();
    let due = poll.queues[0].next_due.expect("an offer is due");
    assert!(due <= poll.now);
    assert_eq!(ids(&other.claim(&place.claim(worker, 5)).await.unwrap()), [next]);
    other.close().await;
    place.end().await;
}

/// What was offered is free after the schema went back, leases keep what they hold, and nobody is forgotten.
#[tokio::test]
async fn offers_and_leases_survive_the_way_back() {
    let (place, worker) = worked_place().await;
    for _ in 0..2 {
        lanes(&place, 3).await;
    }
    let mut running = place.lease(worker, 2).await;
    settle(&place, &running[..1]).await;
    running.remove(0);
    assert_eq!(place.number(OFFERS).await, 1);
    assert_eq!(place.store.migrate_down(18).await.unwrap(), [24, 23, 22, 21, 20, 19]);
    assert_eq!(place.store.migrate_up(None).await.unwrap(), [19, 20, 21, 22, 23, 24]);
    sound(&place).await;
    settle(&place, &running).await;
    let mut ran = 2;
    loop {
        let leased = place.lease(worker, 5).await;
        if leased.is_empty() {
            break;
        }
        ran += leased.len();
        settle(&place, &leased).await;
        sound(&place).await;
    }
    assert_eq!((ran, place.number(LEFT).await), (6, 0));
    place.end().await;
}
