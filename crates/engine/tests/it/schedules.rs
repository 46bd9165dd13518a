//! The ticker, step by step at times that the test sets, on both databases.

use std::time::Duration;

use serde_json::Value;
use windlass_core::schedule::{Misfire, RuleSpec, ScheduleSpec};
use windlass_core::store::{JobFilter, Page, Put, ScheduleRecord};
use windlass_core::{JobRecord, JobState, KindSpec, QueueSpec, Time};
use windlass_engine::{
    Client, Completion, EngineError, Handlers, Ticker, Waited, Worker, WorkerOptions, handler,
};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::place::{NEVER, Place};

const SOON: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);

fn handlers() -> Handlers {
    let mut handlers = Handlers::default();
    let done = handler(|_, _: Value| async { Ok(Completion::done()) });
    handlers.add(KindSpec::new("WORK", "MAIN"), done);
    handlers
}

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn spec(name: &str, expr: &str) -> ScheduleSpec {
    ScheduleSpec {
        name: name.to_owned(),
        kind: "WORK".to_owned(),
        payload: b"{}".to_vec(),
        rules: vec![RuleSpec { expr: expr.to_owned(), ..RuleSpec::default() }],
        ..ScheduleSpec::default()
    }
}

/// A client whose database clock is at `now`, and a ticker on it.
async fn at(place: &Place, now: &str) -> (Client, Ticker) {
    set_clock(place, time(now)).await;
    let client = place.client(&["MAIN"], &handlers()).await;
    (client.clone(), Ticker::new(client))
}

async fn set_clock(place: &Place, to: Time) {
    place.store.set_clock_offset(0);
    let real = place.store.now().await.unwrap();
    place.store.set_clock_offset(to.0 - real.0);
}

async fn record(client: &Client, name: &str) -> ScheduleRecord {
    client.store().schedule(name).await.unwrap().expect("the schedule is there")
}

/// The jobs of a schedule, oldest first.
async fn jobs(client: &Client, name: &str) -> Vec<JobRecord> {
    let filter = JobFilter { tag: Some(format!("schedule:{name}")), ..JobFilter::default() };
    let page = Page { before: None, limit: 1_000, excerpt: None };
    let mut jobs = client.store().list(&filter, &page).await.unwrap();
    jobs.reverse();
    jobs
}

/// The ticks in the tags of those jobs.
async fn ticks(client: &Client, name: &str) -> Vec<String> {
    let tick = |job: JobRecord| job.tags.iter().find_map(|tag| tag.strip_prefix("tick:").map(str::to_owned));
    jobs(client, name).await.into_iter().map(|job| tick(job).expect("a tick")).collect()
}

fn policies() -> [ScheduleSpec; 3] {
    let of = |name: &str, misfire| ScheduleSpec { misfire, catch_up: Some(3), ..spec(name, "0 * * * *") };
    [of("skip", Misfire::Skip), of("once", Misfire::Once), of("all", Misfire::All)]
}

/// The expected ticks after five missed hours.
async fn check_policies(client: &Client) {
    assert_eq!(ticks(client, "skip").await, [""; 0]);
    assert_eq!(ticks(client, "once").await, ["2026-05-01T15:00:00Z"]);
    let latest = ["2026-05-01T13:00:00Z", "2026-05-01T14:00:00Z", "2026-05-01T15:00:00Z"];
    assert_eq!(ticks(client, "all").await, latest);
    for (name, missed) in [("skip", 5), ("once", 4), ("all", 2)] {
        let record = record(client, name).await;
        assert_eq!((record.missed, record.last_tick), (missed, time("2026-05-01T15:00:00Z")), "{name}");
        assert_eq!(record.next_at, Some(time("2026-05-01T16:00:00Z")));
    }
}

on_both! {
    async fn a_tick_enqueues_and_returns_the_next_time(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:30Z").await;
        assert_eq!(ticker.tick(time("2026-05-01T10:00:30Z")).await.unwrap(), None);
        let own = ScheduleSpec {
            payload: b"{ \"n\" : 1.50 }".to_vec(),
            priority: Some(2),
            max_attempts: Some(7),
            timeout: Some(MINUTE),
            concurrency_key: Some("lane".to_owned()),
            tags: vec!["mine".to_owned()],
            ..spec("hourly", "0 * * * *")
        };
        assert_eq!(client.put_schedule(&own, None).await.unwrap().what, Put::Created);
        client.put_schedule(&spec("daily", "@daily"), None).await.unwrap();
        let eleven = time("2026-05-01T11:00:00Z");
        assert_eq!(ticker.tick(Time(eleven.0 - 1)).await.unwrap(), Some(eleven), "not a microsecond early");
        assert!(jobs(&client, "hourly").await.is_empty());
        assert_eq!(ticker.tick(eleven).await.unwrap(), Some(time("2026-05-01T12:00:00Z")));
        assert_eq!(ticker.tick(eleven).await.unwrap(), Some(time("2026-05-01T12:00:00Z")), "the tick was handled already");
        let made = jobs(&client, "hourly").await;
        assert_eq!(made.len(), 1);
        let job = &made[0];
        assert_eq!(job.tags, ["mine", "schedule:hourly", "tick:2026-05-01T11:00:00Z"]);
        assert_eq!(job.payload, own.payload, "untouched");
        assert_eq!((job.kind.as_str(), job.state, job.priority), ("WORK", JobState::Pending, 2));
        assert_eq!((job.max_attempts, job.timeout, job.concurrency_key.as_deref()), (7, Some(MINUTE), Some("lane")));
        assert_eq!(record(&client, "hourly").await.ticked(), Some(eleven));
        assert_eq!(ticker.tick(time("2026-05-01T23:59:59Z")).await.unwrap(), Some(time("2026-05-02T00:00:00Z")));
        assert_eq!(ticks(&client, "hourly").await.last().unwrap(), "2026-05-01T23:00:00Z");
    }

    async fn missed_ticks_follow_the_policy(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:30Z").await;
        for spec in policies() {
            client.put_schedule(&spec, None).await.unwrap();
        }
        ticker.tick(time("2026-05-01T15:30:00Z")).await.unwrap();
        check_policies(&client).await;
    }

    async fn ticks_during_a_pause_are_missed(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:30Z").await;
        for spec in policies() {
            client.put_schedule(&spec, None).await.unwrap();
            client.store().pause_schedule(&spec.name, true, None).await.unwrap();
        }
        for hour in 11..=15 {
            assert_eq!(ticker.tick(time(&format!("2026-05-01T{hour}:00:01Z"))).await.unwrap(), None);
        }
        for spec in policies() {
            assert!(jobs(&client, &spec.name).await.is_empty());
            client.store().pause_schedule(&spec.name, false, None).await.unwrap();
        }
        ticker.tick(time("2026-05-01T15:30:00Z")).await.unwrap();
        check_policies(&client).await;
    }

    /// 2:30 in New York does not exist on 8 March, but the schedule still runs once that night. On 1 November 1:30
    /// comes twice and runs once. A schedule of every half hour continues through both.
    async fn daylight_saving_changes(place: Place) {
        let zone = |name: &str, expr: &str| ScheduleSpec { zone: Some("America/New_York".to_owned()), ..spec(name, expr) };
        let half_hours = |from: &str, to: &str| {
            std::iter::successors(Some(time(from)), |at| Some(at.plus(MINUTE * 30))).take_while(|at| *at <= time(to)).collect::<Vec<_>>()
        };
        let (client, mut ticker) = at(place, "2026-03-07T00:00:00Z").await;
        client.put_schedule(&zone("night", "30 2 * * *"), None).await.unwrap();
        client.put_schedule(&zone("wall", "*/30 * * * *"), None).await.unwrap();
        for now in half_hours("2026-03-07T00:00:00Z", "2026-03-09T12:00:00Z") {
            ticker.tick(now).await.unwrap();
        }
        let nights = ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"];
        assert_eq!(ticks(&client, "night").await, nights);
        assert_eq!(ticks(&client, "wall").await.len(), half_hours("2026-03-07T00:30:00Z", "2026-03-09T12:00:00Z").len());
        set_clock(place, time("2026-10-31T00:00:00Z")).await;
        client.put_schedule(&zone("autumn", "30 1 * * *"), None).await.unwrap();
        client.put_schedule(&zone("turning", "*/30 * * * *"), None).await.unwrap();
        for now in half_hours("2026-10-31T00:00:00Z", "2026-11-02T12:00:00Z") {
            ticker.tick(now).await.unwrap();
        }
        let nights = ["2026-10-31T05:30:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"];
        assert_eq!(ticks(&client, "autumn").await, nights);
        assert_eq!(ticks(&client, "turning").await.len(), half_hours("2026-10-31T00:30:00Z", "2026-11-02T12:00:00Z").len());
    }

    async fn several_tickers_make_each_tick_once(place: Place) {
        let (client, mut one) = at(place, "2026-05-01T10:00:00Z").await;
        let (mut two, mut three) = (Ticker::new(client.clone()), Ticker::new(client.clone()));
        for n in 0..20 {
            client.put_schedule(&spec(&format!("s{n}"), "*/5 * * * * *"), None).await.unwrap();
        }
        let start = time("2026-05-01T10:00:00Z");
        for step in 1..=10 {
            let now = start.plus(Duration::from_secs(5 * step));
            let (a, b, c) = tokio::join!(one.tick(now), two.tick(now), three.tick(now));
            for next in [a, b, c] {
                next.unwrap();
            }
            // Each may have left a schedule to the other.
            one.tick(now).await.unwrap();
        }
        let expected: Vec<String> = (1..=10).map(|step| start.plus(Duration::from_secs(5 * step)).to_string()).collect();
        for n in 0..20 {
            assert_eq!(ticks(&client, &format!("s{n}")).await, expected);
        }
    }

    async fn a_changed_description_applies_at_once(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:00Z").await;
        client.put_schedule(&spec("s", "0 * * * *"), None).await.unwrap();
        ticker.tick(time("2026-05-01T11:00:00Z")).await.unwrap();
        let changed = ScheduleSpec { payload: b"{\"v\":2}".to_vec(), ..spec("s", "*/30 * * * *") };
        client.put_schedule(&changed, None).await.unwrap();
        ticker.tick(time("2026-05-01T11:30:00Z")).await.unwrap();
        assert_eq!(ticks(&client, "s").await, ["2026-05-01T11:00:00Z", "2026-05-01T11:30:00Z"]);
        assert_eq!(jobs(&client, "s").await[1].payload, changed.payload);
        client.store().delete_schedule("s", None).await.unwrap();
        assert_eq!(ticker.tick(time("2026-05-01T12:00:00Z")).await.unwrap(), None);
        set_clock(place, time("2026-05-01T12:10:00Z")).await;
        client.put_schedule(&spec("s", "@hourly"), None).await.unwrap();
        ticker.tick(time("2026-05-01T13:00:00Z")).await.unwrap();
        assert_eq!(jobs(&client, "s").await[2].payload, b"{}", "a new schedule of the same name");
    }

    /// Another process may know its kind, so its ticks are not lost, and no other schedule waits for it.
    async fn a_schedule_of_an_unknown_kind_is_left(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:00Z").await;
        let foreign = ScheduleSpec { kind: "FOREIGN".to_owned(), misfire: Misfire::All, ..spec("a", "* * * * *") };
        client.store().put_schedule(&foreign, None).await.unwrap();
        client.put_schedule(&spec("b", "* * * * *"), None).await.unwrap();
        for minute in ["10:01", "10:02"] {
            let next = ticker.tick(time(&format!("2026-05-01T{minute}:00Z"))).await.unwrap();
            assert_eq!(next, record(&client, "b").await.next_at);
        }
        assert_eq!((jobs(&client, "a").await.len(), jobs(&client, "b").await.len()), (0, 2));
        assert_eq!(record(&client, "a").await.missed, 0);
        let kinds = [KindSpec::new("FOREIGN", "MAIN")];
        client.store().sync_registry(&[QueueSpec::named("MAIN")], &kinds, None).await.unwrap();
        ticker.tick(time("2026-05-01T10:03:00Z")).await.unwrap();
        assert_eq!((jobs(&client, "a").await.len(), jobs(&client, "b").await.len()), (3, 3));
    }

    async fn more_than_one_batch_in_one_step(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:00Z").await;
        for n in 0..1_100 {
            client.store().put_schedule(&spec(&format!("s{n}"), "* * * * *"), None).await.unwrap();
        }
        let next = ticker.tick(time("2026-05-01T10:01:00Z")).await.unwrap();
        assert_eq!(next, Some(time("2026-05-01T10:02:00Z")));
        assert_eq!(client.store().count(&JobFilter::default()).await.unwrap(), 1_100);
    }

    async fn a_manual_run_does_not_affect_ticks(place: Place) {
        let (client, mut ticker) = at(place, "2026-05-01T10:00:00Z").await;
        let unique = ScheduleSpec { unique_key: Some("only".to_owned()), ..spec("s", "0 * * * *") };
        client.put_schedule(&unique, None).await.unwrap();
        let before = record(&client, "s").await;
        let run = client.run_schedule("s", None).await.unwrap().unwrap();
        assert_eq!(jobs(&client, "s").await[0].tags, ["schedule:s", "trigger:manual"]);
        assert_eq!(record(&client, "s").await, before);
        let again = client.run_schedule("s", None).await.unwrap().unwrap();
        assert_eq!((again.id, again.duplicate), (run.id, true), "one is already waiting");
        ticker.tick(time("2026-05-01T11:00:00Z")).await.unwrap();
        assert_eq!(jobs(&client, "s").await.len(), 1, "the tick found a duplicate too");
        assert_eq!(record(&client, "s").await.ticked(), Some(time("2026-05-01T11:00:00Z")));
        assert!(client.run_schedule("missing", None).await.unwrap().is_none());
    }

    async fn a_bad_description_is_refused_whole(place: Place) {
        let (client, _) = at(place, "2026-05-01T10:00:00Z").await;
        let bad = ScheduleSpec { kind: "NOBODY".to_owned(), ..spec("s", "61 * * * *") };
        let Err(EngineError::Invalid(invalid)) = client.put_schedule(&bad, None).await else { panic!("it was accepted") };
        let said = invalid.to_string();
        for part in ["rules[0].minute: 61 is not 0–59", "kind: `NOBODY` is not registered; known kinds: WORK"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(client.store().schedules(None, 10).await.unwrap().is_empty());
    }

    /// There is no poll: the worker relies on wake-ups and on the time of the next tick.
    async fn a_worker_ticks_by_itself(place: Place) {
        let handlers = handlers();
        let client = place.client(&["MAIN"], &handlers).await;
        let options = WorkerOptions { poll: NEVER, ..WorkerOptions::default() };
        let worker = Worker::start(client.clone(), &handlers, options).await.unwrap();
        wait_until("the worker to listen", SOON, || async {
            // A wake-up before it listens would be lost, and there is no poll to make up for it.
            let id = client.enqueue(windlass_engine::JobRequest::new("WORK", b"{}".to_vec())).await.unwrap().id;
            match client.wait(id, Duration::from_millis(500)).await.unwrap() {
                Waited::Finished(_) => Seen::Yes(()),
                other => Seen::NotYet(format!("{other:?}")),
            }
        })
        .await;
        client.put_schedule(&spec("quick", "every 200ms"), None).await.unwrap();
        wait_until("the jobs of five ticks to complete", SOON, || async {
            let done = jobs(&client, "quick").await.into_iter().filter(|job| job.state == JobState::Completed);
            Seen::when(done.count(), |done| *done >= 5)
        })
        .await;
        worker.shutdown().await.unwrap();
        let (record, made) = (record(&client, "quick").await, jobs(&client, "quick").await.len());
        let passed = (record.last_tick.0 - record.created_at.0) / 200_000;
        assert_eq!((made as i64, record.missed), (passed, 0), "every tick has its job");
    }
}

/// Postgres counts the scans of each index: one for every poll, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_checks_for_ticks_only_in_its_poll() {
    use sqlx::Connection;

    let place = Place::postgres().await;
    let handlers = handlers();
    // A second between two polls; the queue's cadence is longer.
    let kinds = handlers.specs();
    let client = Client::open(place.store.clone(), &[QueueSpec::named("MAIN")], &kinds).await.unwrap();
    client.put_schedule(&spec("yearly", "@yearly"), None).await.unwrap();
    let worker = Worker::start(client.clone(), &handlers, WorkerOptions::default()).await.unwrap();
    let url = std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned());
    let mut admin = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut scans = async || -> i64 {
        let sql = "select coalesce(sum(idx_scan), 0)::bigint from pg_stat_user_indexes
                     where schemaname = $1 and indexrelname = 'schedules_next'";
        sqlx::query_scalar(sql).bind(place.schema()).fetch_one(&mut admin).await.unwrap()
    };
    let begun = std::time::Instant::now();
    // Sessions report their counts up to a second late.
    let seen = loop {
        let seen = scans().await;
        if seen >= 6 || begun.elapsed() > SOON {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let most = begun.elapsed().as_secs() as i64 + 4;
    assert!((6..=most).contains(&seen), "{seen} scans in {:?}", begun.elapsed());
    worker.shutdown().await.unwrap();
    place.end().await;
}
