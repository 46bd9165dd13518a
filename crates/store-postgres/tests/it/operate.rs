//! Operator actions, listings, reports and roll-ups.

use std::time::Duration;

use windlass_core::store::{
    Action, Bulk, Change, JobFilter, Live, Page, QueueUpdate, Report, ReportBody, Rollup, Settled,
};
use windlass_core::{
    EntityRef, JobId, JobState, KindSpec, NewJob, QueueSpec, RunAt, Store, StoreError, Time, Token,
};

use crate::place::{Place, done, ended, settlement};

fn ids(ids: &[JobId]) -> JobFilter {
    JobFilter { ids: ids.to_vec(), ..JobFilter::default() }
}

fn states(states: &[JobState]) -> JobFilter {
    JobFilter { states: states.to_vec(), ..JobFilter::default() }
}

const ALL: Page = Page { before: None, limit: 100, excerpt: None };

#[tokio::test]
async fn every_filter_lists_and_counts_the_same() {
    let place = Place::new().await;
    let entity = EntityRef { entity_type: "doc".to_owned(), entity_id: "7".to_owned() };
    let tagged =
        NewJob { tags: vec!["a\"b".to_owned(), "c".to_owned()], entity: Some(entity.clone()), ..place.job() };
    let ahead = NewJob { run_at: RunAt::In(Duration::from_secs(99)), priority: 9, ..place.job() };
    let mut all = place.put(4).await;
    all.extend(place.store.enqueue(&[tagged, ahead]).await.unwrap().iter().map(|e| e.id));
    let worker = place.worker().await;
    let leased = place.lease(worker, 3).await;
    let batch = [settlement(&leased[0], done()), settlement(&leased[1], ended(JobState::DeadLetter, "x"))];
    place.store.settle(&batch).await.unwrap();
    for (filter, wanted) in [
        (JobFilter::default(), vec![5, 4, 3, 2, 1, 0]),
        (states(&[JobState::Completed]), vec![0]),
        (states(&[JobState::DeadLetter, JobState::Failed]), vec![1]),
        (states(&[JobState::Running]), vec![2]),
        (states(&[JobState::Pending]), vec![4, 3]),
        (states(&[JobState::Scheduled]), vec![5]),
        (states(&[JobState::Scheduled, JobState::Running, JobState::Completed]), vec![5, 2, 0]),
        (JobFilter { tag: Some("a\"b".to_owned()), ..JobFilter::default() }, vec![4]),
        (JobFilter { entity: Some(entity), ..JobFilter::default() }, vec![4]),
        (JobFilter { queue: Some(place.queue), kind: Some(place.kind), ..ids(&all[..2]) }, vec![1, 0]),
    ] {
        let wanted: Vec<JobId> = wanted.into_iter().map(|n: usize| all[n]).collect();
        let found: Vec<JobId> = place.store.list(&filter, &ALL).await.unwrap().iter().map(|j| j.id).collect();
        assert_eq!(found, wanted, "{filter:?}");
        assert_eq!(place.store.count(&filter).await.unwrap(), wanted.len() as u64, "{filter:?}");
    }
    let page = Page { before: Some(all[3]), limit: 2, excerpt: None };
    let found = place.store.list(&JobFilter::default(), &page).await.unwrap();
    assert_eq!(found.iter().map(|j| j.id).collect::<Vec<_>>(), [all[2], all[1]]);
    assert_eq!(found[0].worker, Some(worker));
    place.end().await;
}

#[tokio::test]
async fn cancel_ends_waiting_jobs_and_asks_running_ones_to_stop() {
    let place = Place::new().await;
    let all = place.put(3).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 2).await;
    place.store.settle(&[settlement(&leased[0], done())]).await.unwrap();
    let bulk = place.store.act(&ids(&all), Action::Cancel, 10, None).await.unwrap();
    assert_eq!(bulk, Bulk { done: 1, requested: 1, superseded: 0, skipped: 1 });
    assert_eq!(place.state(all[2]).await, JobState::Cancelled);
    assert!(place.store.job(all[1]).await.unwrap().unwrap().cancel_requested);
    assert_eq!(place.store.poll(worker, &place.served()).await.unwrap().cancel, [all[1]]);
    let back = windlass_core::outcome::decide(
        &leased[1],
        windlass_core::Outcome::snooze(Duration::from_secs(1)),
        &Default::default(),
        0.5,
    );
    assert_eq!(place.store.settle(&[settlement(&leased[1], back)]).await.unwrap(), [Settled::Cancelled]);
    assert_eq!(place.state(all[1]).await, JobState::Cancelled);
    assert_eq!(place.number("select count(*) from windlass.cancels").await, 0);
    place.end().await;
}

#[tokio::test]
async fn retry_keeps_the_history_and_delete_removes_everything() {
    let place = Place::new().await;
    let all = place.put(2).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 2).await;
    let batch = [settlement(&leased[0], ended(JobState::Failed, "bad")), settlement(&leased[1], done())];
    place.store.settle(&batch).await.unwrap();
    let bulk = place.store.act(&ids(&all), Action::Retry, 10, None).await.unwrap();
    assert_eq!((bulk.done, bulk.skipped), (1, 1));
    let detail = place.store.job(all[0]).await.unwrap().unwrap();
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Pending, 0));
    assert_eq!((detail.attempts.len(), detail.attempts[0].outcome.as_str()), (1, "failed"));
    assert_eq!(detail.job.last_error.as_deref(), Some("bad"));
    let bulk = place.store.act(&ids(&all), Action::Delete, 10, None).await.unwrap();
    assert_eq!((bulk.done, bulk.skipped), (1, 1));
    assert!(place.store.job(all[1]).await.unwrap().is_none());
    place.end().await;
}

#[tokio::test]
async fn change_applies_only_to_a_waiting_job() {
    let place = Place::new().await;
    let all = place.put(2).await;
    let change = Change { priority: Some(1), run_at: None };
    assert!(place.store.change(all[1], &change, None).await.unwrap());
    let worker = place.worker().await;
    assert_eq!(place.lease(worker, 1).await[0].id, all[1]);
    assert!(!place.store.change(all[1], &change, None).await.unwrap());
    place.end().await;
}

#[tokio::test]
async fn reports_of_a_lost_lease_are_dropped_and_logs_are_bounded() {
    let place = Place::new().await;
    let id = place.put(1).await[0];
    let worker = place.worker().await;
    let job = place.lease(worker, 1).await.remove(0);
    let report = |token: Token, body: ReportBody| Report { id, token, attempt: 1, body };
    let mut reports: Vec<Report> =
        (0..1_100).map(|n| report(job.token, ReportBody::Log { line: format!("line {n}\0") })).collect();
    reports.push(report(job.token, ReportBody::Progress { percent: 10.0, message: None }));
    reports.push(report(job.token, ReportBody::Progress { percent: 40.0, message: Some("m".to_owned()) }));
    reports.push(report(Token(job.token.0 + 1), ReportBody::Log { line: "stale".to_owned() }));
    assert_eq!(place.store.report(&reports).await.unwrap(), 1_102);
    let detail = place.store.job(id).await.unwrap().unwrap();
    assert_eq!(detail.logs.len(), 1_000);
    assert!(detail.logs[999].line.starts_with("line 1099"));
    assert_eq!(detail.job.progress.unwrap().percent, 40.0);
    place.end().await;
}

#[tokio::test]
async fn live_values_survive_configuration_and_a_kind_stays_in_its_queue() {
    let place = Place::new().await;
    let update = QueueUpdate {
        paused: Some(true),
        concurrency: Some(Live::Set(3)),
        depth_cap: Some(Live::Set(Some(8))),
        ..QueueUpdate::default()
    };
    assert!(place.store.update_queue(place.queue, &update).await.unwrap());
    let spec = QueueSpec { concurrency: 50, depth_cap: Some(1), ..QueueSpec::named("Q") };
    place.store.sync_registry(&[spec], &[KindSpec::new("k", "Q")], None).await.unwrap();
    let queue = place.store.queues().await.unwrap().remove(0);
    assert_eq!((queue.spec.concurrency, queue.spec.depth_cap, queue.paused), (3, Some(8), true));
    place.put(2).await;
    let worker = place.worker().await;
    assert!(place.lease(worker, 5).await.is_empty(), "paused");
    assert_eq!(place.store.depth(place.queue, 1).await.unwrap(), 1);
    let moved = place.store.sync_registry(&[], &[KindSpec::new("k", "Other")], None).await;
    assert!(matches!(moved, Err(StoreError::KindsMoved { moved }) if moved[0].stored == "Q"));
    place.end().await;
}

#[tokio::test]
async fn rollups_are_read_as_written() {
    let place = Place::new().await;
    let rollup = Rollup {
        minute: Time(1_800_000_000_000_000),
        queue: place.queue,
        kind: place.kind,
        completed: 5,
        retried: 1,
        dead: 0,
        latency: vec![0, 4, 1],
        run: Duration::from_millis(12),
    };
    place.store.record(&[rollup.clone(), rollup.clone()]).await.unwrap();
    assert_eq!(place.store.rollups(Time(0)).await.unwrap(), [rollup.clone(), rollup]);
    assert!(place.store.rollups(Time(1_800_000_000_000_001)).await.unwrap().is_empty());
    place.end().await;
}
