//! Limits, step by step: nothing is claimed without its permit and its token, and nothing else is held up by that.

use std::time::{Duration, Instant};

use windlass_core::scale::Bounds;
use windlass_core::store::{JobFilter, KindUpdate, Live, QueueUpdate, ResourceUse, Wake, WorkerRow};
use windlass_core::{JobState, KindId, KindSpec, QueueSpec, Resource};

use super::super::WorkerOptions;
use super::super::dispatch::{Dispatcher, Event};
use super::super::wake::Hints;
use super::{Bench, NEVER, held, quiet};
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
    let queue = QueueSpec { cadence: NEVER, concurrency, ..QueueSpec::named("MAIN") };
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

    async fn running(&self, kind: &str) -> u64 {
        self.count_of(kind, JobState::Running).await
    }

    fn wake(&mut self) {
        self.dispatcher.woken(Hints { queues: vec![self.dispatcher.queues[0].id], ..Hints::default() });
    }

    /// A look at the queues, as after an operator's change.
    async fn look(&mut self) {
        self.dispatcher.woken(Hints { any: true, ..Hints::default() });
        self.until(|d| d.polling).await;
        self.until(quiet).await;
    }

    async fn set(&self, kind: &str, update: KindUpdate) {
        assert!(self.client.store().update_kind(self.id(kind), &update).await.unwrap());
    }

    async fn worker(&self) -> WorkerRow {
        self.client.store().workers().await.unwrap().remove(0)
    }
}

fn running(dispatcher: &Dispatcher) -> u32 {
    dispatcher.queues[0].running()
}

fn group(dispatcher: &Dispatcher, kind: KindId) -> &super::super::group::Group {
    dispatcher.queues[0].groups.iter().find(|group| group.kinds.contains(&kind)).unwrap()
}

fn used(permits: u32, in_use: u64) -> Vec<ResourceUse> {
    vec![ResourceUse { resource: "browser".to_owned(), permits, in_use }]
}

#[tokio::test]
async fn nothing_is_claimed_without_a_permit() {
    let mut bench = bench(10, &[needs("SHOOT", 2)]).await;
    bench.put_of("SHOOT", 6, "Done").await;
    bench.until(|d| running(d) == 2 && quiet(d)).await;
    for seconds in [0, 1, 60] {
        bench.wake();
        bench.dispatcher.tick(Instant::now() + Duration::from_secs(seconds));
        assert_eq!(bench.dispatcher.claims_under_way, 0, "a claim without a permit after {seconds} s");
    }
    assert_eq!((held(&bench.dispatcher), bench.running("SHOOT").await), ((2, 0), 2));
    assert_eq!(bench.worker().await.resources, used(2, 2));
    for completed in 1..=6 {
        bench.gate.add_permits(1);
        let expected = (6 - completed).min(2);
        bench
            .until(|d| d.next_run == (2 + completed).min(6) && running(d) as u64 == expected && quiet(d))
            .await;
        assert_eq!(bench.running("SHOOT").await, expected);
    }
    assert_eq!(bench.worker().await.resources, used(2, 0));
}

/// The job is leased until it is settled, and holds its permit as long: so what is shown in use equals the leases.
#[tokio::test]
async fn a_permit_is_held_until_the_job_is_settled() {
    let mut bench = bench(10, &[needs("SHOOT", 1)]).await;
    bench.put_of("SHOOT", 2, "Done").await;
    bench.until(|d| running(d) == 1 && quiet(d)).await;
    bench.gate.add_permits(1);
    let ran = bench.event().await;
    bench.dispatcher.handle(ran).await.unwrap();
    bench.dispatcher.tick(Instant::now());
    assert_eq!(
        (running(&bench.dispatcher), bench.dispatcher.claims_under_way),
        (0, 0),
        "its settlement is under way"
    );
    bench.until(|d| d.next_run == 2 && running(d) == 1).await;
    assert_eq!(bench.running("SHOOT").await, 1);
}

#[tokio::test]
async fn kinds_share_the_permits_of_their_resource() {
    let mut bench = bench(10, &[needs("PRINT", 3), needs("SHOOT", 3), kind("SAY")]).await;
    for kind in ["PRINT", "SHOOT", "SAY"] {
        bench.put_of(kind, 5, "Done").await;
    }
    bench.until(|d| running(d) == 8 && quiet(d)).await;
    let (print, shoot) = (bench.running("PRINT").await, bench.running("SHOOT").await);
    assert_eq!((print + shoot, bench.running("SAY").await), (3, 5), "{print} and {shoot}");
    assert_eq!(bench.worker().await.resources, used(3, 3));
}

#[tokio::test]
async fn nothing_is_claimed_without_a_token() {
    let mut bench = bench(10, &[kind("SAY"), rated("SEND", "1/h")]).await;
    bench.put_of("SEND", 5, "Done").await;
    bench.put(4, "Done").await;
    bench.until(|d| running(d) == 5 && quiet(d)).await;
    assert_eq!((bench.running("SEND").await, bench.running("SAY").await), (1, 4));
    bench.gate.add_permits(5);
    bench.until(|d| running(d) == 0 && d.unsettled.is_empty() && quiet(d)).await;
    let send = bench.id("SEND");
    for _ in 0..3 {
        bench.wake();
        bench.until(|d| quiet(d) && d.queues[0].groups.iter().all(|g| !g.due || g.kinds == [send])).await;
    }
    assert!(group(&bench.dispatcher, send).due, "what waits for its token is not forgotten");
    assert_eq!(bench.count_of("SEND", JobState::Pending).await, 4);
    assert_eq!(bench.client.store().lease_tokens(send, 1, 0).await.unwrap().granted, 0, "it was spent");
}

/// A limited kind is leased for what it has tokens for and no further, however short its jobs are.
#[tokio::test]
async fn a_limited_kind_is_not_leased_ahead_of_its_tokens() {
    let mut bench = bench(2, &[rated("SEND", "1/h")]).await;
    bench.put_of("SEND", 20, "Done").await;
    bench.hurry();
    bench.until(|d| running(d) == 1 && quiet(d)).await;
    bench.hurry();
    bench.wake();
    bench.dispatcher.tick(Instant::now());
    assert_eq!((held(&bench.dispatcher), bench.dispatcher.claims_under_way), ((1, 0), 0));
}

#[tokio::test]
async fn a_token_nobody_needed_is_given_back_within_a_second() {
    let mut bench = bench(2, &[rated("SEND", "1/d")]).await;
    bench.until(|d| d.clock.is_some() && quiet(d)).await;
    let send = bench.id("SEND");
    bench.wake();
    bench.until(|d| !group(d, send).due && quiet(d)).await;
    let store = bench.client.store().clone();
    assert_eq!(store.lease_tokens(send, 1, 0).await.unwrap().granted, 0, "this worker holds it");
    bench.dispatcher.tick(Instant::now() + Duration::from_secs(1));
    let back = bench.event().await;
    bench.dispatcher.handle(back).await.unwrap();
    assert_eq!(store.lease_tokens(send, 1, 0).await.unwrap().granted, 1);
}

/// Whoever has the slots, the next ones are shared.
#[tokio::test]
async fn no_group_shuts_the_others_out() {
    let mut bench = bench(4, &[kind("SAY"), needs("SHOOT", 9), rated("SEND", "1000/s")]).await;
    bench.put(20, "Done").await;
    bench.until(|d| running(d) == 4 && quiet(d)).await;
    assert_eq!(bench.running("SAY").await, 4, "alone it has them all");
    bench.put_of("SHOOT", 20, "Done").await;
    bench.put_of("SEND", 20, "Done").await;
    bench.wake();
    bench.until(quiet).await;
    for started in 5..=12 {
        bench.gate.add_permits(1);
        bench.until(|d| d.next_run == started && running(d) == 4 && quiet(d)).await;
    }
    let all = [bench.running("SAY").await, bench.running("SHOOT").await, bench.running("SEND").await];
    assert!(all.iter().sum::<u64>() == 4 && all.iter().all(|running| (1..=2).contains(running)), "{all:?}");
}

#[tokio::test]
async fn one_slot_goes_round() {
    let mut bench = bench(1, &[kind("SAY"), needs("SHOOT", 9)]).await;
    bench.put(9, "Done").await;
    bench.put_of("SHOOT", 9, "Done").await;
    bench.until(|d| running(d) == 1 && quiet(d)).await;
    for started in 2..=9 {
        bench.gate.add_permits(1);
        bench.until(|d| d.next_run == started && running(d) == 1 && quiet(d)).await;
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
    bench.until(|d| running(d) == 1 && quiet(d)).await;
    bench.set("SHOOT", KindUpdate { permits: Some(Live::Set(4)), ..KindUpdate::default() }).await;
    bench.look().await;
    bench.until(|d| running(d) == 4 && quiet(d)).await;
    assert_eq!(bench.worker().await.resources, used(4, 4));
    bench.set("SHOOT", KindUpdate { permits: Some(Live::Set(2)), ..KindUpdate::default() }).await;
    bench.look().await;
    bench.gate.add_permits(2);
    bench.until(|d| running(d) == 2 && d.unsettled.is_empty() && quiet(d)).await;
    assert_eq!(bench.running("SHOOT").await, 2, "nothing new before two are free");
}

#[tokio::test]
async fn a_rate_is_followed_live() {
    let mut bench = bench(10, &[kind("SAY"), rated("SEND", "1/h")]).await;
    bench.put_of("SEND", 9, "Done").await;
    bench.until(|d| running(d) == 1 && quiet(d)).await;
    let rate = |rate: Option<&str>| KindUpdate {
        rate: Some(Live::Set(rate.map(|r| r.parse().unwrap()))),
        ..KindUpdate::default()
    };
    bench.set("SEND", rate(Some("1000/s"))).await;
    bench.look().await;
    bench.until(|d| running(d) == 9 && quiet(d)).await;
    assert_eq!(bench.dispatcher.queues[0].groups.len(), 2);
    bench.set("SEND", rate(None)).await;
    bench.look().await;
    assert_eq!(bench.dispatcher.queues[0].groups.len(), 1, "claimed with the others again");
    assert_eq!(held(&bench.dispatcher), (9, 0), "what runs is counted on");
    bench.set("SEND", rate(Some("1/h"))).await;
    bench.look().await;
    let send = bench.id("SEND");
    assert_eq!(group(&bench.dispatcher, send).running, 9);
    bench.gate.add_permits(9);
    bench.until(|d| running(d) == 0 && d.unsettled.is_empty() && quiet(d)).await;
}

/// Leased while its kind needed nothing, it counts against the permits its kind needs now.
#[tokio::test]
async fn a_kind_that_becomes_limited_takes_its_jobs_along() {
    let mut bench = bench(2, &[kind("SAY")]).await;
    bench.hurry();
    bench.put(9, "Done").await;
    bench.until(|d| held(d) == (2, 7) && quiet(d)).await;
    bench.client.store().sync_registry(&[], &[needs("SAY", 3)], None).await.unwrap();
    bench.look().await;
    assert_eq!(held(&bench.dispatcher), (2, 7));
    bench.put(3, "Done").await;
    bench.gate.add_permits(6);
    bench.until(|d| held(d) == (2, 1) && d.unsettled.is_empty() && quiet(d)).await;
    assert_eq!(bench.running("SAY").await, 3, "nothing new before there is a permit");
    bench.gate.add_permits(6);
    bench.until(|d| d.next_run == 12 && running(d) == 0 && d.unsettled.is_empty() && quiet(d)).await;
}

#[tokio::test]
async fn a_concurrency_with_bounds_follows_the_backlog() {
    let bounds = Some(Bounds { min: 1, max: 8 });
    let queue = QueueSpec { cadence: NEVER, concurrency: 2, bounds, ..QueueSpec::named("MAIN") };
    let options = WorkerOptions { prefetch: 0, ..WorkerOptions::default() };
    let mut bench = Bench::of(options, queue, &[kind("SAY")]).await;
    bench.put(40, "Done").await;
    bench.until(|d| running(d) == 2 && quiet(d)).await;
    let concurrency = |bench: &Bench| bench.dispatcher.queues[0].concurrency;
    let mut now = Instant::now();
    let mut step = async |bench: &mut Bench| {
        now += Duration::from_secs(5);
        bench.dispatcher.tick(now);
        bench.until(|d| quiet(d) && d.tune_at > now).await;
        let measured = bench.event().await;
        bench.dispatcher.handle(measured).await.unwrap();
        bench.until(quiet).await;
        concurrency(bench)
    };
    assert_eq!(step(&mut bench).await, 3, "nothing ends, and 38 wait");
    assert_eq!(running(&bench.dispatcher), 3);
    let queue = bench.dispatcher.queues[0].id;
    assert_eq!(bench.worker().await.concurrency, [(queue, 3)], "others see it");
    bench.gate.add_permits(40);
    bench.until(|d| running(d) == 0 && d.unsettled.is_empty() && quiet(d)).await;
    for _ in 0..5 {
        step(&mut bench).await;
    }
    assert_eq!(concurrency(&bench), 1, "idle");
    let update =
        QueueUpdate { bounds: Some(Live::Set(Some(Bounds { min: 5, max: 5 }))), ..QueueUpdate::default() };
    bench.client.store().update_queue(queue, &update).await.unwrap();
    bench.look().await;
    assert_eq!(concurrency(&bench), 5, "as the operator says");
}

/// Beside a limited kind the others are claimed together, and nobody is asked about permits or tokens for them.
#[tokio::test]
async fn kinds_without_a_limit_pay_nothing() {
    let mut bench = bench(10, &[kind("SAY"), kind("TELL"), rated("SEND", "1/h"), needs("SHOOT", 1)]).await;
    bench.put_of("TELL", 10, "Done").await;
    bench.put(10, "Done").await;
    bench.gate.add_permits(20);
    let deadline = Instant::now() + super::SOON;
    while bench.dispatcher.next_run < 20 || running(&bench.dispatcher) > 0 {
        assert!(Instant::now() < deadline, "they do not end");
        bench.dispatcher.tick(Instant::now());
        let event = bench.event().await;
        assert!(!matches!(event, Event::Granted { .. }), "tokens were asked for");
        bench.dispatcher.handle(event).await.unwrap();
    }
    let of = group(&bench.dispatcher, bench.id("SAY"));
    assert_eq!(of.kinds.len(), 2, "one claim serves both");
    assert!(of.pool.is_none() && of.tokens.is_none());
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

/// A job due for two minutes at the bottom of the order: nobody's turn with the configured ten, served in the reserved share once
/// an operator says one.
#[tokio::test]
async fn patience_with_late_jobs_follows_an_operator() {
    let mut bench = bench(4, &[kind("PLAIN")]).await;
    let request =
        |priority| JobRequest { priority: Some(priority), ..JobRequest::new("PLAIN", b"\"Done\"".to_vec()) };
    let low = bench.client.enqueue(request(10)).await.unwrap().id;
    bench.client.store().set_clock_offset(120_000_000);
    bench.client.enqueue_many(vec![request(0); 40]).await.unwrap();
    let state = async |bench: &Bench| bench.client.store().job(low).await.unwrap().unwrap().job.state;
    bench.until(|d| running(d) == 4 && quiet(d)).await;
    for round in 1..=4 {
        bench.gate.add_permits(4);
        bench.until(|d| d.next_run == 4 + 4 * round && quiet(d)).await;
    }
    assert_eq!(state(&bench).await, JobState::Pending);
    let update =
        QueueUpdate { boost_after: Some(Live::Set(Some(Duration::from_secs(60)))), ..QueueUpdate::default() };
    assert!(bench.client.store().update_queue(bench.dispatcher.queues[0].id, &update).await.unwrap());
    bench.look().await;
    for round in 5..=6 {
        // The look for late jobs is made ten times a second at most.
        tokio::time::sleep(Duration::from_millis(120)).await;
        bench.gate.add_permits(4);
        bench.until(|d| d.next_run == 4 + 4 * round && quiet(d)).await;
    }
    assert_ne!(state(&bench).await, JobState::Pending, "the late job got its share");
}

/// Of four asked for a queue with one slot in all gives one, which says nothing about who waits: late jobs get every fourth,
/// and no more than that.
#[tokio::test]
async fn late_jobs_get_their_share_of_a_global_concurrency() {
    let queue = QueueSpec {
        cadence: NEVER,
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
    bench.client.store().set_clock_offset(120_000_000);
    bench.client.enqueue_many(vec![request("HIGH", 0); 40]).await.unwrap();
    bench.until(|d| running(d) == 1 && quiet(d)).await;
    for started in 2..=21 {
        bench.dispatcher.queues[0].late.look_at = Instant::now();
        bench.wake();
        bench.until(|d| quiet(d) && !d.queues[0].groups[0].due).await;
        let owed = bench.dispatcher.queues[0].late.look_at <= Instant::now();
        assert!(owed, "a claim that found no room used up the look for late jobs");
        bench.gate.add_permits(1);
        bench.until_woken(|d| d.next_run == started && running(d) == 1 && quiet(d)).await;
    }
    let (low, high) =
        (bench.count_of("LOW", JobState::Completed).await, bench.count_of("HIGH", JobState::Completed).await);
    assert_eq!((low, high), (4, 16), "a quarter of the slots, after the first four");
}
