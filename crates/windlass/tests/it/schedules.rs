//! Schedules in an application, and with worker processes: workers are killed and clocks jump, and each tick enqueues
//! its job once.

use std::time::Duration;

use windlass::{JobRecord, Misfire, RuleSpec, Schedule, Time, Windlass};
use windlass_core::store::{JobFilter, Page, ScheduleRecord};
use windlass_core::time::micros;
use windlass_testkit::process::Process;
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{self, Append};
use crate::world::{World, wait_all_finished};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(1_000);
const HOUR: Duration = Duration::from_secs(3_600);
const DEADLINE: Duration = Duration::from_secs(60);
/// Most time between two kills.
const LONGEST_MS: u64 = 700;

on_both! {
    async fn each_tick_has_one_job_although_workers_are_killed(world: World) {
        let kills = count(15, 150);
        let windlass = world.windlass().await;
        let mut seed = Seed::from_environment();
        let names = ["second", "quick", "keen"];
        let all = |name: &str| Schedule::new(name, Append { ms: 0 }).misfire(Misfire::All).catch_up(1_000);
        windlass.put_schedule(all(names[0]).cron("* * * * * *")).await.unwrap();
        windlass.put_schedule(all(names[1]).every(Duration::from_millis(300))).await.unwrap();
        windlass.put_schedule(all(names[2]).every(Duration::from_millis(100))).await.unwrap();
        let mut workers: Vec<Process> = (0..3).map(|n| world.worker(&format!("worker-{n}"), LEASE)).collect();
        for kill in 0..kills {
            tokio::time::sleep(Duration::from_millis(seed.below(LONGEST_MS))).await;
            let n = seed.below(3) as usize;
            workers[n].kill().unwrap();
            workers[n] = world.worker(&format!("worker-{n}-{kill}"), LEASE);
        }
        let killed_at = windlass.client().store().now().await.unwrap();
        for name in names {
            wait_until("the schedule to catch up", DEADLINE, || async {
                Seen::when(record(&windlass, name).await, |record| record.last_tick >= killed_at)
            })
            .await;
            windlass.client().store().pause_schedule(name, true, None).await.unwrap();
        }
        wait_all_finished(&windlass, DEADLINE).await;
        let mut jobs = 0;
        for name in names {
            jobs += check_every_tick(&windlass, name).await;
        }
        println!("{kills} kills among three processes, {jobs} ticks of three schedules, each with one job");
        drop(workers);
        world.end().await;
    }

    async fn schedules_are_written_while_building(world: World) {
        let building = |schedule: Schedule| jobs::builder(&world.url, &world.ledger(), &world.effects()).schedule(schedule).build();
        let nightly = Schedule::new("nightly", Append { ms: 7 })
            .cron("30 2 * * MON-FRI")
            .rule(RuleSpec { expr: "@hourly".to_owned(), calendar: Some("NYSE".to_owned()), ..RuleSpec::default() })
            .zone("Europe/Berlin")
            .unique_key("nightly")
            .priority(3)
            .max_attempts(2)
            .timeout(HOUR)
            .tag("report");
        let windlass = building(nightly.clone()).await.unwrap();
        let made = record(&windlass, "nightly").await;
        let spec = made.spec().unwrap();
        assert_eq!((spec.kind.as_str(), spec.payload.as_slice(), spec.rules.len()), ("APPEND", &b"{\"ms\":7}"[..], 2));
        assert_eq!((spec.zone.as_deref(), spec.unique_key.as_deref()), (Some("Europe/Berlin"), Some("nightly")));
        // Every process of a deployment writes the same schedule when it starts.
        building(nightly.clone()).await.unwrap();
        assert_eq!(record(&windlass, "nightly").await, made);
        building(nightly.misfire(Misfire::Skip)).await.unwrap();
        assert_eq!(record(&windlass, "nightly").await.revision, made.revision + 1);
        let bad = Schedule::new("bad", Append { ms: 0 }).cron("61 * * * *").zone("Mars");
        let error = building(bad).await.err().expect("a bad schedule was accepted").to_string();
        for part in ["schedules.bad.zone: `Mars` is not a time zone", "schedules.bad.rules[0].minute: 61 is not 0–59"] {
            assert!(error.contains(part), "{error}");
        }
        world.end().await;
    }

    /// The clock of a running worker jumps by five and a half hours.
    async fn ticks_skipped_by_a_clock_jump_follow_the_misfire_policy(world: World) {
        let windlass = world.windlass().await;
        let workers = windlass.start().await.unwrap();
        let policies = [("skip", Misfire::Skip, 0, 5), ("once", Misfire::Once, 1, 4), ("all", Misfire::All, 3, 2)];
        for (name, misfire, ..) in policies {
            let hourly = Schedule::new(name, Append { ms: 0 }).every(HOUR);
            windlass.put_schedule(hourly.misfire(misfire).catch_up(3)).await.unwrap();
        }
        windlass.client().store().set_clock_offset(micros(HOUR * 5 + HOUR / 2));
        for (name, _, made, missed) in policies {
            let seen = wait_until("the ticks to be processed", DEADLINE, || async {
                Seen::when(record(&windlass, name).await, |record| record.ticked().is_some())
            })
            .await;
            assert_eq!(seen.last_tick, whole_seconds(seen.created_at).plus(HOUR * 5));
            assert_eq!((ticks(&windlass, name).await.len(), seen.missed), (made, missed), "{name}");
        }
        wait_all_finished(&windlass, DEADLINE).await;
        assert_eq!(world.entries().lines.len(), 4, "and their jobs ran");
        workers.shutdown().await.unwrap();
        world.end().await;
    }
}

async fn record(windlass: &Windlass, name: &str) -> ScheduleRecord {
    windlass.client().store().schedule(name).await.unwrap().expect("the schedule is there")
}

/// A period of whole seconds starts at a whole second.
fn whole_seconds(time: Time) -> Time {
    Time(time.0 - time.0.rem_euclid(1_000_000))
}

/// The ticks in the tags of a schedule's jobs, oldest first.
async fn ticks(windlass: &Windlass, name: &str) -> Vec<Time> {
    let filter = JobFilter { tag: Some(format!("schedule:{name}")), ..JobFilter::default() };
    let (mut all, mut before): (Vec<JobRecord>, _) = (Vec::new(), None);
    loop {
        let page = windlass
            .client()
            .store()
            .list(&filter, &Page { before, limit: 1_000, excerpt: None })
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        all.extend(page);
    }
    let tick = |job: JobRecord| {
        let tick = job.tags.iter().find_map(|tag| tag.strip_prefix("tick:").map(str::parse::<Time>));
        tick.expect("a tick").unwrap()
    };
    let mut ticks: Vec<Time> = all.into_iter().map(tick).collect();
    ticks.sort_unstable();
    ticks
}

/// Compares the jobs with the ticks of the rule, from the creation of the schedule to its last tick.
async fn check_every_tick(windlass: &Windlass, name: &str) -> usize {
    let record = record(windlass, name).await;
    let plan = record.spec().unwrap().plan(record.created_at).unwrap();
    let due = std::iter::successors(plan.next(record.created_at), |tick| plan.next(*tick));
    let due: Vec<Time> = due.take_while(|tick| *tick <= record.last_tick).collect();
    let found = ticks(windlass, name).await;
    let missing: Vec<&Time> = due.iter().filter(|tick| found.binary_search(tick).is_err()).collect();
    let twice: Vec<&Time> = found.windows(2).filter(|two| two[0] == two[1]).map(|two| &two[0]).collect();
    assert_eq!((missing.len(), twice.len()), (0, 0), "{name}: missing {missing:?}, twice {twice:?}");
    assert_eq!((found.len(), record.missed), (due.len(), 0), "{name}");
    found.len()
}
