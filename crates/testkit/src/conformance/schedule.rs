//! Schedules: create, change, pause, delete.

use windlass_core::schedule::{CalendarSpec, Misfire, Phase, RuleSpec, ScheduleSpec};
use windlass_core::store::{JobFilter, Put, ScheduleRecord};
use windlass_core::{JobState, Time};

use super::Harness;
use super::schedule_fixture::{HOUR, spec};

pub async fn a_new_schedule_starts_now(h: Harness) {
    let before = h.now().await;
    let record = h.schedule(&spec("hourly", "0 * * * *")).await;
    assert!(record.created_at >= before && record.created_at <= h.now().await, "{record:?}");
    assert_eq!((record.last_tick, record.updated_at), (record.created_at, record.created_at));
    assert_eq!(record.ticked(), None, "it has not ticked yet");
    assert_eq!((record.paused, record.missed), (false, 0));
    let hour = 3_600_000_000;
    assert_eq!(record.next_at, Some(Time(record.created_at.0 / hour * hour + hour)));
    assert_eq!(h.read("hourly").await, record);
    assert!(h.due(10).await.due.is_empty());
}

pub async fn every_field_is_stored_and_read(h: Harness) {
    let mut said = spec("full", "*/5 * * * *");
    said.rules = vec![
        RuleSpec {
            expr: "*/5 9-17 * * MON-FRI".to_owned(),
            zone: Some("Asia/Tokyo".to_owned()),
            calendar: Some("tokyo".to_owned()),
            during: vec![Phase::Open, Phase::AfterHours],
        },
        RuleSpec { expr: "every 90s".to_owned(), ..RuleSpec::default() },
    ];
    said.calendars = vec![CalendarSpec {
        name: "tokyo".to_owned(),
        zone: "Asia/Tokyo".to_owned(),
        sessions: [("mon-fri".to_owned(), vec!["09:00-11:30".to_owned()])].into(),
        closed: vec!["01-01".to_owned()],
        half_days: [("2026-12-30".to_owned(), vec!["09:00-10:00".to_owned()])].into(),
    }];
    said.payload = "{ \"é\": [1.50, null] }\n".into();
    (said.priority, said.max_attempts, said.timeout) = (Some(3), Some(2), Some(HOUR));
    (said.unique_key, said.concurrency_key) = (Some("ü".to_owned()), Some("c".to_owned()));
    (said.tags, said.zone) = (vec!["t".to_owned()], Some("Europe/Berlin".to_owned()));
    (said.misfire, said.catch_up) = (Misfire::All, Some(7));
    let record = h.schedule(&said).await;
    assert_eq!(record.spec().unwrap(), said);
    assert_eq!(h.read("full").await.payload, said.payload, "byte for byte");
}

pub async fn putting_the_same_schedule_writes_nothing(h: Harness) {
    let record = h.schedule(&spec("same", "@daily")).await;
    h.advance(HOUR);
    let again = h.open().await.put_schedule(&spec("same", "@daily"), None).await.unwrap();
    assert_eq!((again.what, &again.record), (Put::Same, &record));
    assert_eq!(h.read("same").await, record);
    let other = ScheduleSpec { payload: b"{\"n\":2}".to_vec(), ..spec("same", "@daily") };
    let other = h.store.put_schedule(&other, None).await.unwrap();
    assert_eq!((other.what, other.record.revision), (Put::Changed, record.revision + 1));
}

pub async fn a_changed_schedule_keeps_its_last_tick(h: Harness) {
    let minutely = ScheduleSpec { misfire: Misfire::Skip, ..spec("s", "* * * * *") };
    let made = h.schedule(&minutely).await;
    h.advance(HOUR);
    let turn = h.tick_of(&made, h.now().await);
    assert!(turn.missed >= 58);
    assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
    h.store.pause_schedule("s", true, None).await.unwrap();
    let ticked = h.read("s").await;
    h.advance(2 * HOUR);
    let changed = h.store.put_schedule(&spec("s", "every 10m"), None).await.unwrap();
    assert_eq!(changed.what, Put::Changed);
    let expected = ScheduleRecord {
        kept: spec("s", "every 10m").to_kept(),
        revision: ticked.revision + 1,
        // The period counts from the creation of the schedule; the next tick after the last one is long past.
        next_at: spec("s", "every 10m").plan(made.created_at).unwrap().next(ticked.last_tick),
        updated_at: changed.record.updated_at,
        ..ticked.clone()
    };
    assert_eq!(changed.record, expected);
    assert!(expected.next_at.unwrap() < h.now().await && expected.paused);
    assert_eq!(h.read("s").await, expected);
}

pub async fn listed_by_the_bytes_of_the_name(h: Harness) {
    let mut names: Vec<String> =
        ["b", "B", "a", "a-b", "a.b", "a_b", "ab", "Z", "0"].map(str::to_owned).into();
    for name in &names {
        h.schedule(&spec(name, "@daily")).await;
    }
    names.sort_unstable();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let page = h.store.schedules(listed.last().map(String::as_str), 4).await.unwrap();
        assert!(page.len() <= 4);
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|record| record.name));
    }
    assert_eq!(listed, names);
    assert_eq!(h.store.schedules(None, 100).await.unwrap()[3], h.read(&names[3]).await);
}

pub async fn deleting_a_schedule_keeps_its_jobs(h: Harness) {
    let made = h.schedule(&spec("s", "* * * * *")).await;
    h.advance(HOUR);
    assert_eq!(h.store.tick(&[h.tick_of(&made, h.now().await)]).await.unwrap(), [true]);
    assert!(h.store.delete_schedule("s", None).await.unwrap());
    assert!(!h.store.delete_schedule("s", None).await.unwrap());
    assert!(h.store.schedule("s").await.unwrap().is_none());
    assert_eq!(h.count(JobState::Pending).await, 1);
    let again = h.schedule(&spec("s", "* * * * *")).await;
    assert!(again.last_tick >= made.last_tick.plus(HOUR), "a new one starts now");
}

pub async fn a_paused_schedule_is_not_due_until_resumed(h: Harness) {
    let made = h.schedule(&spec("s", "0 * * * *")).await;
    let paused = h.store.pause_schedule("s", true, None).await.unwrap().unwrap();
    assert!(paused.paused && paused.revision > made.revision);
    assert_eq!(
        h.store.pause_schedule("s", true, None).await.unwrap().unwrap(),
        paused,
        "twice changes nothing"
    );
    h.advance(3 * HOUR);
    let due = h.due(10).await;
    assert!(due.due.is_empty() && due.next_at.is_none(), "{due:?}");
    let worker = h.worker().await;
    assert_eq!(h.poll(worker).await.next_tick, None);
    let resumed = h.store.pause_schedule("s", false, None).await.unwrap().unwrap();
    assert_eq!((resumed.paused, resumed.last_tick, resumed.next_at), (false, made.last_tick, made.next_at));
    assert_eq!(h.due(10).await.due, [resumed], "it resumes at its last tick");
}

pub async fn unknown_names(h: Harness) {
    for name in ["nobody", "", "a\0b", "naïve 日本"] {
        assert!(h.store.schedule(name).await.unwrap().is_none());
        assert!(!h.store.delete_schedule(name, None).await.unwrap());
        assert!(h.store.pause_schedule(name, true, None).await.unwrap().is_none());
        assert!(h.store.schedules(Some(name), 10).await.unwrap().is_empty());
    }
}

/// As all processes of a deployment do when they start.
pub async fn processes_put_the_same_schedule_at_once(h: Harness) {
    let [a, b, c] = [h.open().await, h.open().await, h.open().await];
    for round in 0..10 {
        let spec = spec(&format!("s{round}"), "0 3 * * *");
        let puts = tokio::join!(
            a.put_schedule(&spec, None),
            b.put_schedule(&spec, None),
            c.put_schedule(&spec, None)
        );
        let puts = [puts.0.unwrap(), puts.1.unwrap(), puts.2.unwrap()];
        let created = puts.iter().filter(|put| put.what == Put::Created).count();
        assert_eq!(created, 1, "{puts:?}");
        assert!(puts.iter().all(|put| put.record.revision == 1), "{puts:?}");
    }
    assert_eq!(h.store.schedules(None, 100).await.unwrap().len(), 10);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 0);
}
