//! Limits, step by step: nothing is claimed without its permit and its token, and nothing else is held up by that.

use std::time::Duration;

use windlass_core::scale::Bounds;
use windlass_core::store::{JobFilter, KindUpdate, Live, QueueUpdate, ResourceUse, Wake, WorkerRow};
use windlass_core::{JobState, KindId, KindSpec, QueueSpec, Resource};

use super::super::WorkerOptions;
use super::super::late::LOOK_EVERY;
use super::super::wake::Hints;
use super::{Bench, HOUR, SECOND, only};
use crate::JobRequest;

fn kind(name: &str) -> KindSpec {
    KindSpec::new(name, "MAIN")
}

fn needs(name: &str, permits: u32) -> KindSpec {
    KindSpec { resource: Some(Resource::new("browser", permits)), ..kind(name) }
}

fn rated(name: &str, rate: &str) -> KindSpec {
    KindSpec { rate: Some(rate.parse().unwrap()), ..kind(name) }
}

async fn bench(concurrency: u32, kinds: &[KindSpec]) -> Bench {
    let queue = QueueSpec { cadence: HOUR, concurrency, ..QueueSpec::named("MAIN") };
    let options = WorkerOptions { prefetch: 0, ..WorkerOptions::default() };
    Bench::of(options, queue, kinds).await
}

impl Bench {
    fn id(&self, kind: &str) -> KindId {
        self.client.catalog().kind_named(kind).unwrap().id
    }

    async fn count_of(&self, kind: &str, state: JobState) -> u64 {
        let filter = JobFilter { states: vec![state], kind: Some(self.id(kind)), ..JobFilter::default() };
        self.client.store().count(&filter).await.unwrap()
    }

    async fn leased(&self, kind: &str) -> u64 {
        self.count_of(kind, JobState::Running).await
    }

    /// A poll, as after an operator's change, and what follows from it. Returns the poll as the store was asked it.
    async fn look(&mut self) -> Vec<String> {
        self.dispatcher.woken(Hints { any: true, ..Hints::default() }, self.now);
        self.asked.clear();
        self.rest().await;
        only(&self.asked, "poll")
    }

    async fn set(&self, kind: &str, update: KindUpdate) {
        assert!(self.client.store().update_kind(self.id(kind), &update).await.unwrap());
    }

    async fn worker(&self) -> WorkerRow {
        self.client.store().workers().await.unwrap().remove(0)
    }
}

fn used(permits: u32, in_use: u64) -> Vec<ResourceUse> {
    vec![ResourceUse { resource: "browser".to_owned(), permits, in_use }]
}

#[tokio::test]
async fn nothing_is_claimed_without_a_permit() {
    let mut bench = bench(10, &[needs("SHOOT", 2)]).await;
    bench.put_of("SHOOT", 6, "Done").await;
    bench.until(|seen| seen.running == 2).await;
    for seconds in [0, 1, 60] {
        bench.hint();
        bench.pass(SECOND * seconds);
        assert!(only(&bench.round().await, "claim").is_empty(), "a claim without a permit after {seconds} s");
    }
    assert_eq!(bench.leased("SHOOT").await, 2);
    assert_eq!(bench.worker().await.resources, used(2, 2));
    for completed in 1..=6 {
        bench.gate.add_permits(1);
        let running = (6 - completed).min(2);
        let seen = bench.until(|seen| seen.completed == completed && seen.running as u64 == running).await;
        assert_eq!(seen.leased, running);
    }
    assert_eq!(bench.worker().await.resources, used(2, 0));
}

/// A job is leased until it is settled, and holds its permit as long: so the permits shown in use equal the leases.
#[tokio::test]
async fn a_permit_is_held_until_the_job_is_settled() {
    let mut bench = bench(10, &[needs("SHOOT", 1)]).await;
    bench.put_of("SHOOT", 2, "Done").await;
    bench.until(|seen| seen.running == 1).await;
    bench.one_ends().await;
    assert_eq!(bench.round().await, ["settle 1"], "no claim beside it");
    let seen = bench.until(|seen| seen.running == 1).await;
    assert_eq!((seen.started, seen.leased), (2, 1));
}

#[tokio::test]
async fn kinds_share_the_permits_of_their_resource() {
    let mut bench = bench(10, &[needs("PRINT", 3), needs("SHOOT", 3), kind("SAY")]).await;
    for kind in ["PRINT", "SHOOT", "SAY"] {
        bench.put_of(kind, 5, "Done").await;
    }
    bench.until(|seen| seen.running == 8).await;
    let (print, shoot) = (bench.leased("PRINT").await, bench.leased("SHOOT").await);
    assert_eq!((print + shoot, bench.leased("SAY").await), (3, 5), "{print} and {shoot}");
    assert_eq!(bench.worker().await.resources, used(3, 3));
}

#[tokio::test]
async fn nothing_is_claimed_without_a_token() {
    let mut bench = bench(10, &[kind("SAY"), rated("SEND", "1/h")]).await;
    bench.put_of("SEND", 5, "Done").await;
    bench.put(4, "Done").await;
    bench.until(|seen| seen.running == 5).await;
    assert_eq!((bench.leased("SEND").await, bench.leased("SAY").await), (1, 4));
    bench.gate.add_permits(5);
    bench.until(|seen| seen.completed == 5).await;
    for _ in 0..3 {
        bench.hint();
        bench.rest().await;
    }
    bench.pass(SECOND * 2);
    assert_eq!(only(&bench.round().await, "tokens"), ["tokens"], "what waits for its token is not forgotten");
    assert_eq!(bench.count_of("SEND", JobState::Pending).await, 4);
    let send = bench.id("SEND");
    assert_eq!(bench.client.store().lease_tokens(send, 1, 0).await.unwrap().granted, 0, "it was spent");
}

/// A limited kind is leased for what it has tokens for and no further, however short its jobs are.
#[tokio::test]
async fn a_limited_kind_is_not_leased_ahead_of_its_tokens() {
    let mut bench = bench(2, &[rated("SEND", "1/h")]).await;
    bench.put_of("SEND", 20, "Done").await;
    bench.hurry();
    bench.until(|seen| seen.running == 1).await;
    bench.hurry();
    bench.hint();
    assert!(only(&bench.round().await, "claim").is_empty());
    assert_eq!(bench.leased("SEND").await, 1);
}

#[tokio::test]
async fn an_unspent_token_is_given_back_within_a_second() {
    let mut bench = bench(2, &[rated("SEND", "1/d")]).await;
    bench.rest().await;
    bench.hint();
    bench.rest().await;
    let (store, send) = (bench.client.store().clone(), bench.id("SEND"));
    assert_eq!(store.lease_tokens(send, 1, 0).await.unwrap().granted, 0, "this worker holds it");
    bench.pass(SECOND);
    assert_eq!(only(&bench.round().await, "tokens"), ["tokens"]);
    assert_eq!(store.lease_tokens(send, 1, 0).await.unwrap().granted, 1);
}

/// Whichever group has the slots, the next ones are shared.
#[tokio::test]
async fn no_group_starves_the_others() {
    let mut bench = bench(4, &[kind("SAY"), needs("SHOOT", 9), rated("SEND", "1000/s")]).await;
    bench.put(20, "Done").await;
    bench.until(|seen| seen.running == 4).await;
    assert_eq!(bench.leased("SAY").await, 4, "alone it has them all");
    bench.put_of("SHOOT", 20, "Done").await;
    bench.put_of("SEND", 20, "Done").await;
    bench.hint();
    bench.rest().await;
    for started in 5..=12 {
        bench.gate.add_permits(1);
        bench.until(|seen| seen.started == started && seen.running == 4 && seen.leased == 4).await;
    }
    let all = [bench.leased("SAY").await, bench.leased("SHOOT").await, bench.leased("SEND").await];
    assert!(all.iter().sum::<u64>() == 4 && all.iter().all(|leased| (1..=2).contains(leased)), "{all:?}");
}

#[tokio::test]
async fn one_slot_goes_round() {
    let mut bench = bench(1, &[kind("SAY"), needs("SHOOT", 9)]).await;
    bench.put(9, "Done").await;
    bench.put_of("SHOOT", 9, "Done").await;
    bench.until(|seen| seen.running == 1).await;
    for started in 2..=9 {
        bench.gate.add_permits(1);
        bench.until(|seen| seen.started == started && seen.completed == started as u64 - 1).await;
    }
    let (said, shot) = (
        bench.count_of("SAY", JobState::Completed).await,
        bench.count_of("SHOOT", JobState::Completed).await,
    );
    assert_eq!(said + shot, 8);
    assert!(said.abs_diff(shot) <= 1, "{said} and {shot}");
}

#[tokio::test]
async fn permits_are_followed_live() {
    let mut bench = bench(10, &[needs("SHOOT", 1)]).await;
    bench.put_of("SHOOT", 9, "Done").await;
    bench.until(|seen| seen.running == 1).await;
    bench.set("SHOOT", KindUpdate { permits: Some(Live::Set(4)), ..KindUpdate::default() }).await;
    bench.look().await;
    bench.until(|seen| seen.running == 4).await;
    assert_eq!(bench.worker().await.resources, used(4, 4));
    bench.set("SHOOT", KindUpdate { permits: Some(Live::Set(2)), ..KindUpdate::default() }).await;
    bench.look().await;
    bench.gate.add_permits(2);
    let seen = bench.until(|seen| seen.completed == 2).await;
    assert_eq!((seen.running, seen.leased), (2, 2), "nothing new before two are free");
}

#[tokio::test]
async fn a_rate_is_followed_live() {
    let mut bench = bench(10, &[kind("SAY"), rated("SEND", "1/h")]).await;
    bench.put_of("SEND", 9, "Done").await;
    bench.until(|seen| seen.running == 1).await;
    let rate = |rate: Option<&str>| KindUpdate {
        rate: Some(Live::Set(rate.map(|r| r.parse().unwrap()))),
        ..KindUpdate::default()
    };
    bench.set("SEND", rate(Some("1000/s"))).await;
    assert_eq!(bench.look().await, ["poll 2"], "two groups");
    bench.until(|seen| seen.running == 9).await;
    bench.set("SEND", rate(None)).await;
    bench.look().await;
    assert_eq!(bench.look().await, ["poll 1"], "claimed with the others again");
    bench.put(3, "Done").await;
    bench.hint();
    bench.rest().await;
    assert_eq!(bench.seen().await.leased, 10, "what runs counts on");
    bench.set("SEND", rate(Some("1/h"))).await;
    bench.look().await;
    assert_eq!(bench.look().await, ["poll 2"]);
    bench.gate.add_permits(1);
    let seen = bench.until(|seen| seen.completed == 1).await;
    assert_eq!((seen.running, seen.leased), (10, 10), "one ended, one came");
    bench.gate.add_permits(11);
    bench.until(|seen| seen.completed == 12).await;
}

/// Leased while its kind needed nothing, a job counts against the permits that its kind needs now.
#[tokio::test]
async fn a_kind_that_becomes_limited_takes_its_jobs_along() {
    let mut bench = bench(2, &[kind("SAY")]).await;
    bench.hurry();
    bench.put(9, "Done").await;
    bench.until(|seen| (seen.running, seen.leased) == (2, 9)).await;
    bench.client.store().sync_registry(&[], &[needs("SAY", 3)], None).await.unwrap();
    bench.look().await;
    assert_eq!(bench.leased("SAY").await, 9);
    bench.put(3, "Done").await;
    bench.gate.add_permits(6);
    let seen = bench.until(|seen| seen.completed == 6).await;
    assert_eq!((seen.running, seen.leased), (2, 3), "nothing new before there is a permit");
    bench.gate.add_permits(6);
    bench.until(|seen| seen.completed == 12).await;
}

#[tokio::test]
async fn a_concurrency_with_bounds_follows_the_backlog() {
    let bounds = Some(Bounds { min: 1, max: 8 });
    let queue = QueueSpec { cadence: HOUR, concurrency: 2, bounds, ..QueueSpec::named("MAIN") };
    let options = WorkerOptions { prefetch: 0, ..WorkerOptions::default() };
    let mut bench = Bench::of(options, queue, &[kind("SAY")]).await;
    bench.put(40, "Done").await;
    bench.until(|seen| seen.running == 2).await;
    let queue = bench.queue();
    let concurrency = async |bench: &Bench| {
        let worker = bench.worker().await;
        assert_eq!(worker.concurrency[0].0, queue);
        worker.concurrency[0].1
    };
    let step = async |bench: &mut Bench| {
        bench.pass(SECOND * 5);
        bench.rest().await;
    };
    step(&mut bench).await;
    assert_eq!(concurrency(&bench).await, 3, "nothing ends, and 38 wait");
    assert_eq!(bench.seen().await.running, 3);
    bench.gate.add_permits(40);
    bench.until(|seen| seen.completed == 40).await;
    for _ in 0..5 {
        step(&mut bench).await;
    }
    assert_eq!(concurrency(&bench).await, 1, "idle");
    let update =
        QueueUpdate { bounds: Some(Live::Set(Some(Bounds { min: 5, max: 5 }))), ..QueueUpdate::default() };
    bench.client.store().update_queue(queue, &update).await.unwrap();
    bench.look().await;
    assert_eq!(concurrency(&bench).await, 5, "as the operator says");
}

/// Beside limited kinds the others are claimed together, and no permits or tokens are asked for them.
#[tokio::test]
async fn kinds_without_a_limit_pay_nothing() {
    let mut bench = bench(10, &[kind("SAY"), kind("TELL"), rated("SEND", "1/h"), needs("SHOOT", 1)]).await;
    bench.put_of("TELL", 10, "Done").await;
    bench.put(10, "Done").await;
    bench.gate.add_permits(20);
    bench.until(|seen| seen.completed == 20).await;
    assert_eq!(only(&bench.asked, "poll"), ["poll 3"], "one group of the two, one of each limited kind");
    assert!(only(&bench.asked, "tokens").is_empty(), "{:?}", bench.asked);
}

/// An operator's change wakes every worker: none waits for its poll.
#[tokio::test]
async fn a_change_wakes_the_workers() {
    let bench = bench(1, &[kind("SAY")]).await;
    let (told, heard) = std::sync::mpsc::channel();
    bench.client.store().on_wake(Box::new(move |wake| told.send(wake).is_ok()));
    bench.set("SAY", KindUpdate { rate: Some(Live::Set(None)), ..KindUpdate::default() }).await;
    assert_eq!(heard.recv_timeout(Duration::from_secs(10)).unwrap(), Wake::Any);
}

/// A job of the lowest priority, due for two minutes: it waits with the configured ten, and gets its share of the slots
/// once an operator sets one.
#[tokio::test]
async fn when_a_job_is_late_follows_an_operator() {
    let mut bench = bench(4, &[kind("PLAIN")]).await;
    let request =
        |priority| JobRequest { priority: Some(priority), ..JobRequest::new("PLAIN", b"\"Done\"".to_vec()) };
    let low = bench.client.enqueue(request(10)).await.unwrap().id;
    bench.pass(SECOND * 120);
    bench.client.enqueue_many(vec![request(0); 40]).await.unwrap();
    let state = async |bench: &Bench| bench.client.store().job(low).await.unwrap().unwrap().job.state;
    bench.until(|seen| seen.running == 4).await;
    let more = async |bench: &mut Bench, rounds: usize| {
        for _ in 0..rounds {
            let started = bench.seen().await.started;
            bench.pass(LOOK_EVERY);
            bench.gate.add_permits(4);
            bench.until(|seen| seen.started == started + 4).await;
        }
    };
    more(&mut bench, 4).await;
    assert_eq!(state(&bench).await, JobState::Pending);
    let update =
        QueueUpdate { boost_after: Some(Live::Set(Some(Duration::from_secs(60)))), ..QueueUpdate::default() };
    assert!(bench.client.store().update_queue(bench.queue(), &update).await.unwrap());
    bench.look().await;
    more(&mut bench, 2).await;
    assert_ne!(state(&bench).await, JobState::Pending, "the late job got its share");
}

/// A claim for four slots of a queue with a global concurrency of one brings one job, which does not tell what waits.
/// Late jobs get every fourth slot, and no more than that. A claim that finds no slot does not count as their chance.
#[tokio::test]
async fn late_jobs_get_their_share_of_a_global_concurrency() {
    let queue = QueueSpec {
        cadence: HOUR,
        concurrency: 4,
        global_concurrency: Some(1),
        boost_after: Some(Duration::from_secs(60)),
        ..QueueSpec::named("MAIN")
    };
    let options = WorkerOptions { prefetch: 0, ..WorkerOptions::default() };
    let mut bench = Bench::of(options, queue, &[kind("LOW"), kind("HIGH")]).await;
    let request = |kind, priority| JobRequest {
        priority: Some(priority),
        ..JobRequest::new(kind, b"\"Done\"".to_vec())
    };
    bench.client.enqueue_many(vec![request("LOW", 10); 20]).await.unwrap();
    bench.pass(SECOND * 120);
    bench.client.enqueue_many(vec![request("HIGH", 0); 40]).await.unwrap();
    bench.until(|seen| seen.running == 1).await;
    for started in 2..=21 {
        bench.pass(LOOK_EVERY);
        bench.hint();
        bench.rest().await;
        bench.gate.add_permits(1);
        bench.until_woken(|seen| seen.started == started && seen.completed == started as u64 - 1).await;
    }
    let (low, high) =
        (bench.count_of("LOW", JobState::Completed).await, bench.count_of("HIGH", JobState::Completed).await);
    assert_eq!((low, high), (4, 16), "a quarter of the slots, after the first four");
}
