//! The tick: whoever moves the last tick on enqueues, once, in the same transaction.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::schedule::{Misfire, ScheduleSpec};
use windlass_core::store::{JobFilter, Page, StoreError, Tick, Wake};
use windlass_core::{JobState, NewJob, OnConflict, Time};

use super::Harness;
use super::timetable::{HOUR, spec};
use crate::signal::{Seen, wait_until};

const SOON: Duration = Duration::from_secs(20);

async fn jobs(h: &Harness) -> u64 {
    h.store.count(&JobFilter::default()).await.unwrap()
}

pub async fn due_in_order_and_no_further_than_asked(h: Harness) {
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

pub async fn a_tick_moves_on_and_enqueues(h: Harness) {
    let all = ScheduleSpec { misfire: Misfire::All, catch_up: Some(3), ..spec("s", "* * * * *") };
    let made = h.schedule(&all).await;
    h.advance(HOUR);
    let turn = h.turn(&made, h.now().await);
    assert_eq!((turn.jobs.len(), turn.missed), (3, 57), "{turn:?}");
    assert_eq!(h.store.tick(std::slice::from_ref(&turn)).await.unwrap(), [true]);
    let record = h.read("s").await;
    assert_eq!((record.last_tick, record.next_at, record.missed), (turn.last_tick, turn.next_at, 57));
    assert_eq!((record.ticked(), record.revision), (Some(turn.last_tick), made.revision));
    assert!(h.due(10).await.due.is_empty());
    let page = Page { before: None, limit: 10 };
    let filter = JobFilter { tag: Some("schedule:s".to_owned()), ..JobFilter::default() };
    let mut found: Vec<Vec<String>> =
        h.store.list(&filter, &page).await.unwrap().into_iter().map(|job| job.tags).collect();
    found.reverse();
    assert_eq!(found, turn.jobs.iter().map(|job| job.tags.clone()).collect::<Vec<_>>());
    assert_eq!(h.count(JobState::Pending).await, 3);
    h.advance(HOUR);
    let turn = h.turn(&record, h.now().await);
    assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
    assert_eq!(h.read("s").await.missed, 57 + 57, "what was missed adds up");
}

pub async fn one_that_lost_enqueues_nothing_and_holds_nobody_up(h: Harness) {
    let mut turns: Vec<Tick> = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        h.schedule(&spec(name, "* * * * *")).await;
    }
    h.advance(HOUR);
    let now = h.now().await;
    for record in h.due(10).await.due {
        turns.push(h.turn(&record, now));
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

pub async fn many_tick_the_same_at_once(h: Harness) {
    let [a, b, c] = [h.open().await, h.open().await, h.open().await];
    for n in 0..30 {
        h.schedule(&spec(&format!("s{n}"), "* * * * *")).await;
    }
    for round in 1..=5 {
        h.advance(HOUR);
        let now = h.now().await;
        let turns: Vec<Tick> = h.due(100).await.due.iter().map(|record| h.turn(record, now)).collect();
        assert_eq!(turns.len(), 30);
        let answers = tokio::join!(a.tick(&turns), b.tick(&turns), c.tick(&turns));
        let answers = [answers.0.unwrap(), answers.1.unwrap(), answers.2.unwrap()];
        for n in 0..turns.len() {
            let winners = answers.iter().filter(|answer| answer[n]).count();
            assert!(winners <= 1, "round {round}: {winners} won {}", turns[n].name);
        }
        // One that somebody else was holding is left to it, so a loser's turn may have been nobody's.
        let left: Vec<Tick> = h.due(100).await.due.iter().map(|record| h.turn(record, now)).collect();
        assert!(h.store.tick(&left).await.unwrap().iter().all(|moved| *moved));
        assert_eq!(jobs(&h).await, round * 30, "one job of each schedule in each round");
    }
}

pub async fn a_refused_job_moves_nothing(h: Harness) {
    h.put(h.unique("taken", OnConflict::Keep)).await;
    h.schedule(&spec("a", "* * * * *")).await;
    h.schedule(&spec("b", "* * * * *")).await;
    h.advance(HOUR);
    let (now, due) = (h.now().await, h.due(10).await.due);
    let mut turns: Vec<Tick> = due.iter().map(|record| h.turn(record, now)).collect();
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
        let turn = Tick { jobs: vec![h.unique("s", OnConflict::Keep)], ..h.turn(&record, h.now().await) };
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
    let mut turns: Vec<Tick> = due.iter().map(|record| h.turn(record, now)).collect();
    assert_eq!(turns.len(), 600);
    for turn in turns.iter_mut().step_by(3) {
        turn.from = Time(turn.from.0 + 1);
    }
    let answers = h.store.tick(&turns).await.unwrap();
    assert!(answers.iter().enumerate().all(|(n, moved)| *moved == (n % 3 != 0)), "{answers:?}");
    assert_eq!(jobs(&h).await, 400);
    assert_eq!(h.due(1_000).await.due.len(), 200);
}

pub async fn one_that_never_ticks_again(h: Harness) {
    let made = h.schedule(&spec("s", "* * * * *")).await;
    h.advance(HOUR);
    let last = Tick { next_at: None, ..h.turn(&made, h.now().await) };
    assert_eq!(h.store.tick(&[last]).await.unwrap(), [true]);
    assert_eq!(h.read("s").await.next_at, None);
    h.advance(24 * HOUR);
    assert!(h.due(10).await.due.is_empty());
    assert_eq!(h.poll(h.worker().await).await.next_tick, None);
}

pub async fn the_poll_tells_the_next_tick(h: Harness) {
    let worker = h.worker().await;
    let next_tick = async || h.poll(worker).await.next_tick;
    assert_eq!(next_tick().await, None);
    let slow = h.schedule(&spec("slow", "every 2h")).await;
    assert_eq!(next_tick().await, slow.next_at);
    let quick = h.schedule(&spec("quick", "every 1h")).await;
    assert_eq!(next_tick().await, quick.next_at);
    // Without queues a poll looks for cancels only, and for this.
    assert_eq!(h.store.poll(worker, &[]).await.unwrap().next_tick, quick.next_at);
    h.store.pause_schedule("quick", true, None).await.unwrap();
    assert_eq!(next_tick().await, slow.next_at);
    h.store.pause_schedule("quick", false, None).await.unwrap();
    h.advance(2 * HOUR);
    assert_eq!(next_tick().await, quick.next_at, "also when it is past");
    h.store.delete_schedule("quick", None).await.unwrap();
    assert_eq!(next_tick().await, slow.next_at);
}

/// A tick's jobs and a new schedule are both told to every handle; a hint may be lost, so it is asked for again.
pub async fn ticks_and_changes_wake_every_handle(h: Harness) {
    let second = h.open().await;
    let told: [Arc<Mutex<Vec<Wake>>>; 2] = Default::default();
    for (store, told) in [&h.store, &second].into_iter().zip(&told) {
        let told = told.clone();
        store.on_wake(Box::new(move |wake| {
            told.lock().unwrap().push(wake);
            true
        }));
    }
    let mut n = 0;
    for told in &told {
        wait_until("a wake by a new schedule", SOON, || {
            n += 1;
            let spec = spec(&format!("s{n}"), "* * * * *");
            let h = &h;
            async move {
                h.schedule(&spec).await;
                Seen::when(told.lock().unwrap().clone(), |all| all.contains(&Wake::Any))
            }
        })
        .await;
    }
    for told in &told {
        wait_until("a wake by a tick's job", SOON, || async {
            h.advance(HOUR);
            told.lock().unwrap().clear();
            let record = h.read("s1").await;
            let jobs = vec![NewJob { tags: vec!["x".to_owned()], ..h.job() }];
            let turn = Tick { jobs, ..h.turn(&record, h.now().await) };
            assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
            wait_until("any wake", SOON, || async {
                Seen::when(told.lock().unwrap().clone(), |all| all.iter().any(|wake| wake.concerns(h.queue)))
            })
            .await;
            Seen::Yes(())
        })
        .await;
    }
}
