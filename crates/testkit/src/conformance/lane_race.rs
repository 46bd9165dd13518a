//! Lanes under contention: the limit is never exceeded, and no job stays blocked while a slot is free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use windlass_core::store::{Action, Change, Claim, Settled};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, OnConflict, Outcome, Store, Unique};

use super::harness::unexplained;
use super::lane::{MINUTE, check_lanes, ids, keyed, limit, put_keyed};
use super::{Harness, settlement};

fn done(job: &LeasedJob) -> windlass_core::Settlement {
    settlement(job, Outcome::Done { result: None })
}

/// Running jobs by lane, and the number of ended jobs.
#[derive(Default)]
struct LaneCount {
    running: HashMap<usize, usize>,
    ended: usize,
}

/// Claims, checks and settles until every job has ended. It pauses between claim and settlement so that the others can
/// claim; otherwise two running jobs of a lane would go unnoticed.
async fn drain(
    store: Arc<dyn Store>,
    ask: Claim,
    lanes: Arc<HashMap<JobId, usize>>,
    tally: Arc<Mutex<LaneCount>>,
    at_once: usize,
) {
    loop {
        let leased = store.claim(&ask).await.unwrap();
        {
            let mut tally = tally.lock().unwrap();
            if tally.ended == lanes.len() {
                return;
            }
            for job in &leased {
                let running = tally.running.entry(lanes[&job.id]).or_default();
                *running += 1;
                assert!(*running <= at_once, "{running} of lane {} at once", lanes[&job.id]);
            }
        }
        if leased.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        store.depth(ask.queue, 1).await.unwrap();
        for job in &leased {
            *tally.lock().unwrap().running.entry(lanes[&job.id]).or_default() -= 1;
        }
        let batch: Vec<_> = leased.iter().map(done).collect();
        let answers = store.settle(&batch).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Settled::Accepted));
        tally.lock().unwrap().ended += leased.len();
    }
}

async fn drained_by_many(h: &Harness, keys: usize, jobs: usize, at_once: u16) {
    limit(h, at_once).await;
    let batch: Vec<NewJob> = (0..jobs).map(|n| keyed(h, &format!("key {}", n % keys))).collect();
    let put = h.store.enqueue(&batch).await.unwrap();
    let lanes: HashMap<JobId, usize> = put.iter().enumerate().map(|(n, e)| (e.id, n % keys)).collect();
    let (lanes, tally) = (Arc::new(lanes), Arc::<Mutex<LaneCount>>::default());
    let second = h.open().await;
    let mut claimers = Vec::new();
    for n in 0..8 {
        let store = if n % 2 == 0 { h.store.clone() } else { second.clone() };
        let ask = h.ask(h.worker().await, 7);
        let at_once = usize::from(at_once);
        claimers.push(tokio::spawn(drain(store, ask, lanes.clone(), tally.clone(), at_once)));
    }
    for claimer in claimers {
        claimer.await.unwrap();
    }
    assert_eq!(h.count(JobState::Completed).await, jobs as u64);
    check_lanes(h).await;
}

pub async fn eight_claimers_never_run_two_of_a_key(h: Harness) {
    drained_by_many(&h, 20, 400, 1).await;
}

pub async fn eight_claimers_never_run_more_than_three_of_a_key(h: Harness) {
    drained_by_many(&h, 4, 400, 3).await;
}

pub async fn many_lanes_at_once(h: Harness) {
    drained_by_many(&h, 1_000, 3_000, 1).await;
}

/// With limit 1 the jobs of a lane run in order, over all claimers.
pub async fn claimers_racing_keep_the_order(h: Harness) {
    let second = h.open().await;
    let put = put_keyed(&h, "a", 60).await;
    let (one, two) = (h.ask(h.worker().await, 3), h.ask(h.worker().await, 3));
    let mut order = Vec::new();
    while order.len() < put.len() {
        let (left, right) = tokio::join!(h.store.claim(&one), second.claim(&two));
        let leased = [left.unwrap(), right.unwrap()].concat();
        assert!(leased.len() <= 1, "{:?}", ids(&leased));
        for job in leased {
            order.push(job.id);
            h.done(&job).await;
        }
    }
    assert_eq!(order, put);
}

/// An enqueue that blocks its job races a settlement that frees a slot.
pub async fn blocking_races_freeing(h: Harness) {
    let second = h.open().await;
    let worker = h.worker().await;
    for round in 0..60 {
        let key = format!("key {}", round % 3);
        h.put(keyed(&h, &key)).await;
        let running = h.claim_one(worker).await;
        let (batch, job) = ([done(&running)], [keyed(&h, &key)]);
        let (settled, put, leased) =
            tokio::join!(h.store.settle(&batch), second.enqueue(&job), h.claim(worker, 1));
        assert_eq!(settled.unwrap(), [Settled::Accepted]);
        let id = put.unwrap()[0].id;
        let next = match leased.into_iter().next() {
            Some(next) => next,
            None => h.claim_one(worker).await,
        };
        assert_eq!(next.id, id, "round {round}");
        h.done(&next).await;
        check_lanes(&h).await;
    }
}

/// Two jobs of a lane end at once while two are blocked.
pub async fn freeing_races_freeing(h: Harness) {
    limit(&h, 2).await;
    let second = h.open().await;
    let worker = h.worker().await;
    for round in 0..30 {
        let put = put_keyed(&h, "a", 4).await;
        let running = h.claim(worker, 10).await;
        assert_eq!(ids(&running), put[..2], "round {round}");
        let (one, two) = ([done(&running[0])], [done(&running[1])]);
        let (ask, other) = (h.ask(worker, 10), h.ask(worker, 10));
        let (left, right, first, then) = tokio::join!(
            h.store.settle(&one),
            second.settle(&two),
            h.store.claim(&ask),
            second.claim(&other)
        );
        assert_eq!((left.unwrap(), right.unwrap()), (vec![Settled::Accepted], vec![Settled::Accepted]));
        let mut leased = [first.unwrap(), then.unwrap()].concat();
        leased.extend(h.claim(worker, 10).await);
        leased.sort_by_key(|job| job.id);
        assert_eq!(ids(&leased), put[2..], "round {round}");
        for job in &leased {
            h.done(job).await;
        }
        check_lanes(&h).await;
    }
}

/// Runs `what` on the next blocked job while a claim or a settlement gives it a slot. No job is lost.
async fn raced(h: &Harness, what: impl AsyncFn(&dyn Store, JobId)) {
    let second = h.open().await;
    let worker = h.worker().await;
    for round in 0..40 {
        let unique = Some(Unique::until_started(format!("u {round}"), OnConflict::Reject));
        let first = h.put(keyed(h, "a")).await;
        let target = h.put(NewJob { unique, ..keyed(h, "a") }).await;
        let last = h.put(keyed(h, "a")).await;
        let running = h.claim_one(worker).await;
        assert_eq!(running.id, first, "round {round}");
        let mut leased = Vec::new();
        if round % 2 == 0 {
            tokio::join!(h.done(&running), what(&*second, target));
        } else {
            h.done(&running).await;
            let ask = h.ask(worker, 1);
            let (claimed, ()) = tokio::join!(h.store.claim(&ask), what(&*second, target));
            leased = claimed.unwrap();
        }
        check_lanes(h).await;
        let mut ran = Vec::new();
        loop {
            for job in &leased {
                ran.push(job.id);
                assert_ne!(h.settle(job, Outcome::Done { result: None }).await, Settled::Stale);
            }
            if ran.contains(&last) {
                break;
            }
            leased = h.claim(worker, 1).await;
            assert!(!leased.is_empty(), "round {round}: {last} is parked, {ran:?} ran");
        }
        h.act(&[target], Action::Cancel).await;
        check_lanes(h).await;
    }
}

pub async fn cancelling_races_promoting(h: Harness) {
    raced(&h, async |store, target| {
        store.act(&super::only(target), Action::Cancel, 1, None).await.unwrap();
    })
    .await;
}

pub async fn changing_races_promoting(h: Harness) {
    let later = h.now().await.plus(100 * MINUTE);
    raced(&h, async |store, target| {
        store.change(target, &Change { priority: None, run_at: Some(later) }, None).await.unwrap();
    })
    .await;
}

pub async fn replacing_races_promoting(h: Harness) {
    let job = h.unique("", OnConflict::Replace);
    raced(&h, async |store, target| {
        let key = store.job(target).await.unwrap().unwrap().job.unique_key.unwrap();
        let unique = Some(Unique::until_started(key, OnConflict::Replace));
        let put = store.enqueue(&[NewJob { unique, ..job.clone() }]).await.unwrap();
        store.act(&super::only(put[0].id), Action::Cancel, 1, None).await.unwrap();
    })
    .await;
}

pub async fn a_sweep_races_settling(h: Harness) {
    let second = h.open().await;
    for round in 0..20 {
        let put = put_keyed(&h, "a", 2).await;
        let worker = h.worker().await;
        let running = h.claim_one(worker).await;
        let (batch, beat) = ([done(&running)], h.beat(worker).await);
        let death = unexplained(beat);
        let (settled, swept) = tokio::join!(h.store.settle(&batch), second.reclaim(&death));
        let settled = settled.unwrap()[0];
        swept.unwrap();
        check_lanes(&h).await;
        let worker = h.worker().await;
        if settled == Settled::Stale {
            let alone = h.claim_suspect(worker).await.expect("swept first");
            assert_eq!(alone.id, put[0], "round {round}");
            h.done(&alone).await;
        }
        let next = h.claim(worker, 10).await;
        assert_eq!(ids(&next), put[1..], "round {round}");
        h.done(&next[0]).await;
        check_lanes(&h).await;
    }
}
