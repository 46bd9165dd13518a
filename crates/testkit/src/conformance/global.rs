//! Global concurrency: no more jobs of a queue are leased than its limit, over all workers.

use std::sync::{Arc, Mutex};

use windlass_core::store::{Claim, Live, QueueUpdate, Settled};
use windlass_core::{JobState, NewJob, Outcome, QueueSpec, Store};

use super::lane::{check_lanes, ids, put_keyed};
use super::{Harness, QUEUE, settlement};

async fn limit(h: &Harness, most: Option<u32>) {
    let update = QueueUpdate { global_concurrency: Some(Live::Set(most)), ..QueueUpdate::default() };
    assert!(h.store.update_queue(h.queue, &update).await.unwrap());
}

pub async fn never_more_than_the_limit(h: Harness) {
    limit(&h, Some(3)).await;
    let put = h.put_plain(5).await;
    let (one, two) = (h.worker().await, h.worker().await);
    let second = h.open().await;
    let first = h.claim(one, 2).await;
    assert_eq!(ids(&first), put[..2]);
    let third = second.claim(&h.ask(two, 10)).await.unwrap();
    assert_eq!(ids(&third), put[2..3], "one is left of three");
    assert!(h.claim(one, 10).await.is_empty());
    h.done(&first[1]).await;
    assert_eq!(ids(&h.claim(two, 10).await), put[3..4]);
    assert!(second.claim(&h.ask(one, 10)).await.unwrap().is_empty());
}

pub async fn other_queues_are_not_limited(h: Harness) {
    limit(&h, Some(1)).await;
    h.put_plain(2).await;
    let other = NewJob { kind: h.other_kind, queue: h.other_queue, ..h.job() };
    h.store.enqueue(&vec![other; 3]).await.unwrap();
    let worker = h.worker().await;
    assert_eq!(h.claim(worker, 10).await.len(), 1);
    let ask = Claim { queue: h.other_queue, kinds: vec![h.other_kind], ..h.ask(worker, 10) };
    assert_eq!(h.store.claim(&ask).await.unwrap().len(), 3);
}

pub async fn the_limit_can_be_changed_live(h: Harness) {
    let put = h.put_plain(8).await;
    let worker = h.worker().await;
    let mut leased = h.claim(worker, 2).await;
    limit(&h, Some(4)).await;
    leased.extend(h.claim(worker, 10).await);
    assert_eq!(ids(&leased), put[..4], "what was leased before counts");
    limit(&h, Some(2)).await;
    for job in &leased[..2] {
        h.done(job).await;
        assert!(h.claim(worker, 10).await.is_empty(), "as many run as may");
    }
    h.done(&leased[2]).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[4..5]);
    limit(&h, None).await;
    assert_eq!(ids(&h.claim(worker, 10).await), put[5..], "lifted");
}

pub async fn a_live_limit_overrides_the_configuration(h: Harness) {
    let configure = async |most| {
        let spec = QueueSpec { global_concurrency: most, ..QueueSpec::named(QUEUE) };
        h.store.sync_registry(&[spec], &[], None).await.unwrap();
        let queues = h.store.queues().await.unwrap();
        queues.into_iter().find(|q| q.id == h.queue).unwrap().spec.global_concurrency
    };
    assert_eq!(configure(Some(2)).await, Some(2));
    h.put_plain(4).await;
    let worker = h.worker().await;
    assert_eq!(h.claim(worker, 10).await.len(), 2);
    limit(&h, Some(3)).await;
    assert_eq!(configure(Some(1)).await, Some(3));
    limit(&h, None).await;
    assert_eq!(configure(Some(1)).await, None, "a lifted limit stays lifted");
    assert_eq!(h.claim(worker, 10).await.len(), 2);
}

pub async fn the_poll_reports_the_limit(h: Harness) {
    let worker = h.worker().await;
    let reported_limit =
        async || h.poll(worker).await.queues.iter().find(|q| q.queue == h.queue).unwrap().global_concurrency;
    assert_eq!(reported_limit().await, None);
    limit(&h, Some(7)).await;
    assert_eq!(reported_limit().await, Some(7));
}

pub async fn every_end_of_a_lease_frees_a_slot(h: Harness) {
    limit(&h, Some(1)).await;
    h.put_plain(6).await;
    let worker = h.worker().await;
    let retry = Outcome::Retry { after: None, error: "no".to_owned() };
    for outcome in [retry, Outcome::HandBack, Outcome::Fail { error: "no".to_owned() }] {
        let leased = h.claim_one(worker).await;
        assert!(h.claim(worker, 10).await.is_empty());
        assert_eq!(h.settle(&leased, outcome).await, Settled::Accepted);
    }
    let inside = h.claim_one(worker).await;
    let mut tx = h.store.begin().await.unwrap();
    let done = settlement(&inside, Outcome::Done { result: None });
    assert_eq!(h.store.settle_in(tx.tx(), &done).await.unwrap(), Settled::Accepted);
    tx.commit().await.unwrap();
    let left = h.claim_one(worker).await;
    h.store.retire_worker(worker).await.unwrap();
    assert_eq!(h.claim_one(h.worker().await).await.id, left.id);
}

pub async fn a_leased_suspect_counts(h: Harness) {
    h.put_plain(2).await;
    let dead = h.worker().await;
    h.claim(dead, 1).await;
    h.lose(dead).await;
    limit(&h, Some(1)).await;
    let worker = h.worker().await;
    let leased = h.claim_suspect(worker).await.unwrap();
    assert!(h.claim(worker, 10).await.is_empty(), "one is leased");
    h.done(&leased).await;
    assert_eq!(h.claim(worker, 10).await.len(), 1);
}

pub async fn lanes_keep_their_own_limit(h: Harness) {
    limit(&h, Some(2)).await;
    let a = put_keyed(&h, "a", 2).await;
    let b = put_keyed(&h, "b", 2).await;
    let c = put_keyed(&h, "c", 1).await;
    let worker = h.worker().await;
    let leased = h.claim(worker, 10).await;
    assert_eq!(ids(&leased), [a[0], b[0]]);
    h.done(&leased[0]).await;
    assert_eq!(
        ids(&h.claim(worker, 10).await),
        c,
        "a ready job comes before a job that was blocked by its lane"
    );
    h.done(&leased[1]).await;
    assert_eq!(ids(&h.claim(worker, 10).await), a[1..]);
    check_lanes(&h).await;
}

/// Jobs that run now and that have ended.
#[derive(Default)]
struct RunCount {
    running: usize,
    ended: usize,
    most: usize,
}

async fn drain(store: Arc<dyn Store>, ask: Claim, jobs: usize, tally: Arc<Mutex<RunCount>>) {
    loop {
        let leased = store.claim(&ask).await.unwrap();
        {
            let mut tally = tally.lock().unwrap();
            if tally.ended == jobs {
                return;
            }
            tally.running += leased.len();
            tally.most = tally.most.max(tally.running);
        }
        if leased.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        tally.lock().unwrap().running -= leased.len();
        let batch: Vec<_> =
            leased.iter().map(|job| settlement(job, Outcome::Done { result: None })).collect();
        store.settle(&batch).await.unwrap();
        tally.lock().unwrap().ended += leased.len();
    }
}

pub async fn eight_claimers_never_lease_more(h: Harness) {
    const JOBS: usize = 240;
    limit(&h, Some(3)).await;
    h.put_plain(JOBS).await;
    let second = h.open().await;
    let tally = Arc::<Mutex<RunCount>>::default();
    let mut claimers = Vec::new();
    for n in 0..8 {
        let store = if n % 2 == 0 { h.store.clone() } else { second.clone() };
        let ask = h.ask(h.worker().await, 2);
        claimers.push(tokio::spawn(drain(store, ask, JOBS, tally.clone())));
    }
    for claimer in claimers {
        claimer.await.unwrap();
    }
    let most = tally.lock().unwrap().most;
    assert!(most <= 3, "{most} were leased at once");
    assert_eq!(h.count(JobState::Completed).await, JOBS as u64);
}
