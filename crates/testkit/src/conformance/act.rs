//! Operator actions on jobs: retry, delete and cancel by filter, change; and which jobs they skip.

use std::time::Duration;

use windlass_core::store::{Action, Bulk, Change, JobFilter, Report, ReportBody};
use windlass_core::{JobId, JobState, NewJob, Outcome, RunAt};

use super::Harness;
use super::moves::one_in_each_state;

const MINUTE: Duration = Duration::from_secs(60);

async fn dead_letter(h: &Harness) -> JobId {
    let id = h.put(NewJob { max_attempts: 2, ..h.job() }).await;
    let worker = h.worker().await;
    for _ in 0..2 {
        let leased = h.claim_one(worker).await;
        let again = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
        h.settle(&leased, again).await;
    }
    assert_eq!(h.state(id).await, JobState::DeadLetter);
    id
}

pub async fn retry_gives_fresh_attempts(h: Harness) {
    let id = dead_letter(&h).await;
    assert_eq!(h.act(&[id], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    let detail = h.detail(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Pending, 0));
    assert!(detail.job.finished_at.is_none());
    assert_eq!(detail.attempts.len(), 2, "earlier attempts stay recorded");
    let worker = h.worker().await;
    for attempt in 1..=2 {
        let leased = h.claim_one(worker).await;
        assert_eq!((leased.id, leased.attempt), (id, attempt));
        let again = Outcome::Retry { after: Some(Duration::ZERO), error: "again".to_owned() };
        h.settle(&leased, again).await;
    }
    let detail = h.detail(id).await;
    assert_eq!(detail.job.state, JobState::DeadLetter);
    let outcomes: Vec<_> = detail.attempts.iter().map(|a| a.outcome.as_str()).collect();
    assert_eq!(outcomes, ["retry", "dead_letter", "retry", "dead_letter"]);
}

pub async fn retry_runs_a_scheduled_job_now(h: Harness) {
    let id = h.put(h.delayed(60 * MINUTE)).await;
    assert_eq!(h.act(&[id], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    assert_eq!(h.state(id).await, JobState::Pending);
    assert_eq!(h.claim_one(h.worker().await).await.id, id);
}

async fn on_each_state(h: &Harness, action: Action, expected: impl Fn(JobState) -> (Bulk, Option<JobState>)) {
    for (state, id) in one_in_each_state(h).await {
        let (bulk, next) = expected(state);
        assert_eq!(h.act(&[id], action).await, bulk, "{action:?} of a {state} job");
        let found = h.store.job(id).await.unwrap().map(|d| d.job.state);
        assert_eq!(found, next, "{action:?} of a {state} job");
    }
}

const DONE: Bulk = Bulk { done: 1, requested: 0, superseded: 0, skipped: 0 };
const SKIPPED: Bulk = Bulk { done: 0, requested: 0, superseded: 0, skipped: 1 };

pub async fn retry_of_each_state(h: Harness) {
    let mut pending = None;
    let each = one_in_each_state(&h).await;
    for (state, id) in each {
        let (bulk, next) = match state {
            JobState::Failed | JobState::DeadLetter | JobState::Cancelled | JobState::Scheduled => {
                (DONE, JobState::Pending)
            }
            // A pending job already runs as soon as possible, so a store may count it as done or as skipped.
            JobState::Pending => {
                pending = Some(id);
                continue;
            }
            other => (SKIPPED, other),
        };
        assert_eq!(h.act(&[id], Action::Retry).await, bulk, "{state}");
        assert_eq!(h.state(id).await, next, "{state}");
    }
    let pending = pending.unwrap();
    let bulk = h.act(&[pending], Action::Retry).await;
    assert!(bulk == DONE || bulk == SKIPPED, "{bulk:?}");
    assert_eq!(h.state(pending).await, JobState::Pending);
}

pub async fn cancel_of_each_state(h: Harness) {
    on_each_state(&h, Action::Cancel, |state| match state {
        JobState::Scheduled | JobState::Pending => (DONE, Some(JobState::Cancelled)),
        JobState::Running => (Bulk { requested: 1, ..Bulk::default() }, Some(state)),
        _ => (SKIPPED, Some(state)),
    })
    .await;
}

pub async fn delete_of_each_state(h: Harness) {
    on_each_state(&h, Action::Delete, |state| {
        if state.is_finished() { (DONE, None) } else { (SKIPPED, Some(state)) }
    })
    .await;
}

pub async fn delete_removes_everything(h: Harness) {
    let id = h.put(NewJob { tags: vec!["t".to_owned()], ..h.job() }).await;
    let leased = h.claim_one(h.worker().await).await;
    let body = ReportBody::Log { line: "secret".to_owned() };
    h.store.report(&[Report { id, token: leased.token, attempt: 1, body }]).await.unwrap();
    h.done(&leased).await;
    assert_eq!(h.act(&[id], Action::Delete).await, DONE);
    assert!(h.store.job(id).await.unwrap().is_none());
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 0);
    let tag = JobFilter { tag: Some("t".to_owned()), ..JobFilter::default() };
    assert_eq!(h.store.count(&tag).await.unwrap(), 0);
    assert_eq!(h.act(&[id], Action::Retry).await, Bulk::default(), "nothing matches any more");
}

pub async fn act_keeps_to_its_filter_and_limit(h: Harness) {
    let tagged = NewJob { tags: vec!["old".to_owned()], ..h.job() };
    let mine = h.store.enqueue(&vec![tagged; 5]).await.unwrap();
    let others = h.put_plain(2).await;
    let filter = JobFilter { tag: Some("old".to_owned()), ..JobFilter::default() };
    let got = h.store.act(&filter, Action::Cancel, 2, None).await.unwrap();
    assert_eq!(got, Bulk { done: 2, ..Bulk::default() }, "no more than the limit");
    let waiting = JobFilter { states: vec![JobState::Pending], ..filter.clone() };
    let got = h.store.act(&waiting, Action::Cancel, 100, None).await.unwrap();
    assert_eq!(got, Bulk { done: 3, ..Bulk::default() });
    for job in mine {
        assert_eq!(h.state(job.id).await, JobState::Cancelled);
    }
    for id in others {
        assert_eq!(h.state(id).await, JobState::Pending);
    }
}

pub async fn jobs_in_the_wrong_state_are_counted_as_skipped(h: Harness) {
    let each = one_in_each_state(&h).await;
    let ids: Vec<JobId> = each.iter().map(|(_, id)| *id).chain([JobId(3)]).collect();
    let got = h.act(&ids, Action::Cancel).await;
    assert_eq!(got, Bulk { done: 2, requested: 1, superseded: 0, skipped: 5 });
    let got = h.act(&ids, Action::Delete).await;
    assert_eq!(got, Bulk { done: 7, requested: 0, superseded: 0, skipped: 1 });
}

pub async fn change_reorders_waiting_jobs(h: Harness) {
    let put = h.put_plain(3).await;
    let urgent = Change { priority: Some(0), run_at: None };
    assert!(h.store.change(put[2], &urgent, None).await.unwrap());
    let later = h.now().await.plus(10 * MINUTE);
    assert!(h.store.change(put[0], &Change { priority: None, run_at: Some(later) }, None).await.unwrap());
    let job = h.detail(put[0]).await.job;
    assert_eq!((job.state, job.run_at, job.priority), (JobState::Scheduled, Some(later), 5));
    assert_eq!(h.detail(put[2]).await.job.priority, 0);
    let worker = h.worker().await;
    let order: Vec<_> = h.claim(worker, 10).await.iter().map(|j| (j.id, j.priority)).collect();
    assert_eq!(order, [(put[2], 0), (put[1], 5)]);
    h.advance(11 * MINUTE);
    let last = h.claim_one(worker).await;
    assert_eq!((last.id, last.run_at), (put[0], later));
}

pub async fn change_can_bring_a_job_forward(h: Harness) {
    let id = h.put(NewJob { run_at: RunAt::In(60 * MINUTE), ..h.job() }).await;
    let now = h.now().await;
    assert!(h.store.change(id, &Change { priority: None, run_at: Some(now) }, None).await.unwrap());
    assert_eq!(h.claim_one(h.worker().await).await.id, id);
}

pub async fn only_waiting_jobs_can_be_changed(h: Harness) {
    let change = Change { priority: Some(1), run_at: None };
    for (state, id) in one_in_each_state(&h).await {
        let waits = matches!(state, JobState::Scheduled | JobState::Pending);
        assert_eq!(h.store.change(id, &change, None).await.unwrap(), waits, "{state}");
        let job = h.detail(id).await.job;
        assert_eq!(job.state, state);
        assert_eq!(job.priority == 1, waits, "{state}");
    }
    assert!(!h.store.change(JobId(3), &change, None).await.unwrap());
}
