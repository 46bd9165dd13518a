//! Ticks: advancing a schedule and enqueuing its jobs is one transaction, and one process wins.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::schedule::{Misfire, ScheduleSpec};
use windlass_core::store::{JobFilter, Page, StoreError, Tick, Wake};
use windlass_core::{JobState, NewJob, OnConflict, Time};

use super::Harness;
use super::schedule_fixture::{HOUR, spec};
use crate::signal::{Seen, wait_until};

const DEADLINE: Duration = Duration::from_secs(20);

async fn jobs(h: &Harness) -> u64 {
    h.store.count(&JobFilter::default()).await.unwrap()
}

pub async fn due_schedules_are_ordered_and_limited(h: Harness) {
    let later = h.schedule(&spec("later", "every 90m")).await;
    for (name, every) in [("c", "every 30m"), ("a", "every 20m"), ("b", "every 10m")] {
        h.schedule(&spec(name, every)).await;
    }
    assert!(h.due(10).await.due.is_empty());
    assert_eq!(h.due(10).await.next_at, h.read("b").await.next_at);
    h.advance(HOUR);
    let names = async |limit| {
        let due = h.due(limit).await;
        assert_eq!(due.next_at, later.next_at, "the first that is not due");
        due.due.into_iter().map(|record| record.name).collect::<Vec<_>>()
    };
    assert_eq!(names(10).await, ["b", "a", "c"]);
    assert_eq!(names(2).await, ["b", "a"]);
    assert_eq!(h.due(10).await.due[0], h.read("b").await);
}

pub async fn a_tick_advances_the_schedule_and_enqueues(h: Harness) {
    let all = ScheduleSpec { misfire: Misfire::All, catch_up: Some(3), ..spec("s", "* * * * *") };
    let made = h.schedule(&all).await;
    h.advance(HOUR);
    let turn = h.tick_of(&made, h.now().await);
    assert_eq!((turn.jobs.len(), turn.missed), (3, 57), "{turn:?}");
    assert_eq!(h.store.tick(std::slice::from_ref(&turn)).await.unwrap(), [true]);
    let record = h.read("s").await;
    assert_eq!((record.last_tick, record.next_at, record.missed), (turn.last_tick, turn.next_at, 57));
    assert_eq!((record.ticked(), record.revision), (Some(turn.last_tick), made.revision));
    assert!(h.due(10).await.due.is_empty());
    let page = Page { before: None, limit: 10, excerpt: None };
    let filter = JobFilter { tag: Some("schedule:s".to_owned()), ..JobFilter::default() };
    let mut found: Vec<Vec<String>> =
        h.store.list(&filter, &page).await.unwrap().into_iter().map(|job| job.tags).collect();
    found.reverse();
    assert_eq!(found, turn.jobs.iter().map(|job| job.tags.clone()).collect::<Vec<_>>());
    assert_eq!(h.count(JobState::Pending).await, 3);
    h.advance(HOUR);
    let turn = h.tick_of(&record, h.now().await);
    assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
    assert_eq!(h.read("s").await.missed, 57 + 57, "what was missed adds up");
}

pub async fn a_stale_tick_enqueues_nothing_and_blocks_no_other(h: Harness) {
    let mut turns: Vec<Tick> = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        h.schedule(&spec(name, "* * * * *")).await;
    }
    h.advance(HOUR);
    let now = h.now().await;
    for record in h.due(10).await.due {
        turns.push(h.tick_of(&record, now));
    }
    turns.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(h.store.tick(&turns[..1]).await.unwrap(), [true]);
    h.store.put_schedule(&spec("b", "*/2 * * * *"), None).await.unwrap();
    h.store.pause_schedule("c", true, None).await.unwrap();
    for paused in [true, false] {
        h.store.pause_schedule("d", paused, None).await.unwrap();
    }
    h.store.delete_schedule("e", None).await.unwrap();
    let before = (h.read("b").await, h.read("c").await, h.read("d").await);
    assert_eq!(h.store.tick(&turns).await.unwrap(), [false, false, false, false, false, true]);
    assert_eq!(jobs(&h).await, 2, "one of a, one of f");
    assert_eq!((h.read("b").await, h.read("c").await, h.read("d").await), before);
    assert!(h.store.tick(&[]).await.unwrap().is_empty());
}

pub async fn processes_tick_the_same_schedules_at_once(h: Harness) {
    let [a, b, c] = [h.open().await, h.open().await, h.open().await];
    for n in 0..30 {
        h.schedule(&spec(&format!("s{n}"), "* * * * *")).await;
    }
    for round in 1..=5 {
        h.advance(HOUR);
        let now = h.now().await;
        let turns: Vec<Tick> = h.due(100).await.due.iter().map(|record| h.tick_of(record, now)).collect();
        assert_eq!(turns.len(), 30);
        let answers = tokio::join!(a.tick(&turns), b.tick(&turns), c.tick(&turns));
        let answers = [answers.0.unwrap(), answers.1.unwrap(), answers.2.unwrap()];
        for n in 0..turns.len() {
            let winners = answers.iter().filter(|answer| answer[n]).count();
            assert!(winners <= 1, "round {round}: {winners} won {}", turns[n].name);
        }
        // A process skips a schedule that another one has locked, so some schedules may be left for this tick.
        let left: Vec<Tick> = h.due(100).await.due.iter().map(|record| h.tick_of(record, now)).collect();
        assert!(h.store.tick(&left).await.unwrap().iter().all(|moved| *moved));
        assert_eq!(jobs(&h).await, round * 30, "one job of each schedule in each round");
    }
}

pub async fn a_refused_job_rolls_back_its_tick(h: Harness) {
    h.put(h.unique("taken", OnConflict::Keep)).await;
    h.schedule(&spec("a", "* * * * *")).await;
    h.schedule(&spec("b", "* * * * *")).await;
    h.advance(HOUR);
    let (now, due) = (h.now().await, h.due(10).await.due);
    let mut turns: Vec<Tick> = due.iter().map(|record| h.tick_of(record, now)).collect();
    turns[1].jobs = vec![h.unique("taken", OnConflict::Reject)];
    assert!(matches!(h.store.tick(&turns).await, Err(StoreError::UniqueRejected { .. })));
    assert_eq!(h.due(10).await.due, due, "all or nothing");
    assert_eq!(jobs(&h).await, 1);
}

pub async fn a_unique_key_keeps_the_waiting_job(h: Harness) {
    h.schedule(&spec("s", "* * * * *")).await;
    for round in 1..=3 {
        h.advance(HOUR);
        let record = h.read("s").await;
        let turn = Tick { jobs: vec![h.unique("s", OnConflict::Keep)], ..h.tick_of(&record, h.now().await) };
        assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
        assert_eq!(jobs(&h).await, 1, "round {round}");
        assert!(h.read("s").await.last_tick > record.last_tick);
    }
}

pub async fn many_schedules_in_one_call(h: Harness) {
    let specs: Vec<ScheduleSpec> = (0..600).map(|n| spec(&format!("s{n:03}"), "* * * * *")).collect();
    for spec in &specs {
        h.store.put_schedule(spec, None).await.unwrap();
    }
    h.advance(HOUR);
    let (now, due) = (h.now().await, h.due(1_000).await.due);
    let mut turns: Vec<Tick> = due.iter().map(|record| h.tick_of(record, now)).collect();
    assert_eq!(turns.len(), 600);
    for turn in turns.iter_mut().step_by(3) {
        turn.from = Time(turn.from.0 + 1);
    }
    let answers = h.store.tick(&turns).await.unwrap();
    assert!(answers.iter().enumerate().all(|(n, moved)| *moved == (n % 3 != 0)), "{answers:?}");
    assert_eq!(jobs(&h).await, 400);
    assert_eq!(h.due(1_000).await.due.len(), 200);
}

pub async fn a_schedule_without_a_next_tick_is_never_due(h: Harness) {
    let made = h.schedule(&spec("s", "* * * * *")).await;
    h.advance(HOUR);
    let last = Tick { next_at: None, ..h.tick_of(&made, h.now().await) };
    assert_eq!(h.store.tick(&[last]).await.unwrap(), [true]);
    assert_eq!(h.read("s").await.next_at, None);
    h.advance(24 * HOUR);
    assert!(h.due(10).await.due.is_empty());
    assert_eq!(h.poll(h.worker().await).await.next_tick, None);
}

pub async fn the_poll_reports_the_next_tick(h: Harness) {
    let worker = h.worker().await;
    let next_tick = async || h.poll(worker).await.next_tick;
    assert_eq!(next_tick().await, None);
    let slow = h.schedule(&spec("slow", "every 2h")).await;
    assert_eq!(next_tick().await, slow.next_at);
    let quick = h.schedule(&spec("quick", "every 1h")).await;
    assert_eq!(next_tick().await, quick.next_at);
    // A poll without queues reads only cancel requests and the next tick.
    assert_eq!(h.store.poll(worker, &[]).await.unwrap().next_tick, quick.next_at);
    h.store.pause_schedule("quick", true, None).await.unwrap();
    assert_eq!(next_tick().await, slow.next_at);
    h.store.pause_schedule("quick", false, None).await.unwrap();
    h.advance(2 * HOUR);
    assert_eq!(next_tick().await, quick.next_at, "also when it is past");
    h.store.delete_schedule("quick", None).await.unwrap();
    assert_eq!(next_tick().await, slow.next_at);
}

/// Jobs of a tick and a new schedule wake every handle. A wake-up may be lost, so the test repeats it.
pub async fn ticks_and_changes_wake_every_handle(h: Harness) {
    let second = h.open().await;
    let wakes: [Arc<Mutex<Vec<Wake>>>; 2] = Default::default();
    for (store, wakes) in [&h.store, &second].into_iter().zip(&wakes) {
        let wakes = wakes.clone();
        store.on_wake(Box::new(move |wake| {
            wakes.lock().unwrap().push(wake);
            true
        }));
    }
    let mut n = 0;
    for wakes in &wakes {
        wait_until("a wake by a new schedule", DEADLINE, || {
            n += 1;
            let spec = spec(&format!("s{n}"), "* * * * *");
            let h = &h;
            async move {
                h.schedule(&spec).await;
                Seen::when(wakes.lock().unwrap().clone(), |all| all.contains(&Wake::Any))
            }
        })
        .await;
    }
    for wakes in &wakes {
        wait_until("a wake by a tick's job", DEADLINE, || async {
            h.advance(HOUR);
            wakes.lock().unwrap().clear();
            let record = h.read("s1").await;
            let jobs = vec![NewJob { tags: vec!["x".to_owned()], ..h.job() }];
            let turn = Tick { jobs, ..h.tick_of(&record, h.now().await) };
            assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
            wait_until("any wake", DEADLINE, || async {
                Seen::when(wakes.lock().unwrap().clone(), |all| all.iter().any(|wake| wake.concerns(h.queue)))
            })
            .await;
            Seen::Yes(())
        })
        .await;
    }
}
