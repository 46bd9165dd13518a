//! Operator actions on jobs write one audit record with the values before and after; nothing else writes one.

use std::time::Duration;

use serde_json::json;
use windlass_core::store::{Action, AuditFilter, Bulk, Change, JobFilter};
use windlass_core::{JobId, JobState, NewJob, OnConflict, Outcome};

use super::audit_fixture::me;
use super::{Harness, KIND, QUEUE, only};

async fn act(h: &Harness, filter: &JobFilter, action: Action) -> Bulk {
    h.store.act(filter, action, u32::MAX, Some(&me())).await.unwrap()
}

async fn dead(h: &Harness) -> JobId {
    let id = h.put(NewJob { max_attempts: 1, ..h.job() }).await;
    let job = h.claim_one(h.worker().await).await;
    assert_eq!(job.id, id);
    h.settle(&job, Outcome::Retry { after: None, error: "no".to_owned() }).await;
    id
}

pub async fn a_record_of_one_job_has_its_states(h: Harness) {
    let id = dead(&h).await;
    act(&h, &only(id), Action::Retry).await;
    act(&h, &only(id), Action::Cancel).await;
    act(&h, &only(id), Action::Delete).await;
    let subject = format!("job/{id}");
    let gone = json!({
        "kind": { "from": KIND, "to": null },
        "state": { "from": "cancelled", "to": null },
        "priority": { "from": 5, "to": null },
    });
    assert_eq!(
        h.audit_lines().await,
        [
            json!(["job.retry", subject, { "state": { "from": "dead_letter", "to": "pending" } }]),
            json!(["job.cancel", subject, { "state": { "from": "pending", "to": "cancelled" } }]),
            json!(["job.delete", subject, gone]),
        ]
    );
}

pub async fn a_dead_letter_has_its_own_act(h: Harness) {
    let (one, other) = (dead(&h).await, dead(&h).await);
    let dead = |id| JobFilter { states: vec![JobState::Failed, JobState::DeadLetter], ..only(id) };
    act(&h, &dead(one), Action::Retry).await;
    act(&h, &dead(other), Action::Delete).await;
    let lines = h.audit_lines().await;
    assert_eq!((&lines[0][0], &lines[0][1]), (&json!("dead_letter.replay"), &json!(format!("job/{one}"))));
    assert_eq!((&lines[1][0], &lines[1][1]), (&json!("dead_letter.delete"), &json!(format!("job/{other}"))));
}

pub async fn a_cancel_of_a_running_job_is_recorded_once(h: Harness) {
    let id = h.put(h.job()).await;
    h.claim_one(h.worker().await).await;
    for _ in 0..2 {
        assert_eq!(act(&h, &only(id), Action::Cancel).await.requested, 1);
    }
    let asked = json!({ "cancel_requested": { "from": null, "to": true } });
    assert_eq!(h.audit_lines().await, [json!(["job.cancel", format!("job/{id}"), asked])]);
}

pub async fn a_record_of_run_now_has_both_times(h: Harness) {
    let id = h.put(h.delayed(Duration::from_secs(60))).await;
    let due = h.detail(id).await.job.run_at.unwrap();
    act(&h, &only(id), Action::Retry).await;
    let now = h.detail(id).await.job.run_at.unwrap();
    let detail = json!({
        "state": { "from": "scheduled", "to": "pending" },
        "run_at": { "from": due.to_string(), "to": now.to_string() },
    });
    assert_eq!(h.audit_lines().await, [json!(["job.retry", format!("job/{id}"), detail])]);
}

pub async fn a_replay_that_meets_a_duplicate_is_recorded_as_superseded(h: Harness) {
    let id = h.put(NewJob { max_attempts: 1, ..h.unique("u", OnConflict::Keep) }).await;
    let job = h.claim_one(h.worker().await).await;
    h.settle(&job, Outcome::Retry { after: None, error: "no".to_owned() }).await;
    h.put(h.unique("u", OnConflict::Keep)).await;
    assert_eq!(act(&h, &only(id), Action::Retry).await.superseded, 1);
    let ended = json!({ "state": { "from": "dead_letter", "to": "superseded" } });
    assert_eq!(h.audit_lines().await, [json!(["job.retry", format!("job/{id}"), ended])]);
}

pub async fn a_bulk_record_has_the_filter_and_the_counts(h: Harness) {
    let ids = h.put_plain(4).await;
    h.claim_one(h.worker().await).await;
    let waiting = JobFilter {
        states: vec![JobState::Pending],
        queue: Some(h.queue),
        kind: Some(h.kind),
        ..JobFilter::default()
    };
    act(&h, &waiting, Action::Cancel).await;
    let lines = h.audit_lines().await;
    let meant = json!({ "state": ["pending"], "queue": QUEUE, "kind": KIND });
    assert_eq!(lines, [json!(["jobs.cancel", "jobs", { "filter": { "from": meant }, "done": { "to": 3 } }])]);
    // An action on named jobs writes one record per deleted job.
    let all = JobFilter { ids: ids.clone(), ..JobFilter::default() };
    act(&h, &all, Action::Delete).await;
    let mut lines = h.audit_lines().await.split_off(1);
    lines.sort_by_key(|line| line[1].to_string());
    let subjects: Vec<_> = ids[1..].iter().map(|id| json!(["job.delete", format!("job/{id}")])).collect();
    assert_eq!(lines.iter().map(|line| json!([line[0], line[1]])).collect::<Vec<_>>(), subjects);
    let gone = lines.iter().all(|line| line[2]["state"] == json!({ "from": "cancelled", "to": null }));
    assert!(gone, "{lines:?}");
}

/// A replay of one or many dead letters has the same act. Many named jobs share one record.
pub async fn many_named_dead_letters_have_one_record(h: Harness) {
    for _ in 0..2 {
        h.put(NewJob { max_attempts: 1, ..h.job() }).await;
        let job = h.claim_one(h.worker().await).await;
        h.settle(&job, Outcome::Retry { after: None, error: "no".to_owned() }).await;
    }
    let dead = JobFilter { states: vec![JobState::Failed, JobState::DeadLetter], ..JobFilter::default() };
    assert_eq!(act(&h, &dead, Action::Retry).await.done, 2);
    let lines = h.audit_lines().await;
    assert_eq!((lines.len(), &lines[0][0], &lines[0][1]), (1, &json!("dead_letter.replay"), &json!("jobs")));
    let ids = h.put_plain(101).await;
    let most = JobFilter { ids: ids[1..].to_vec(), ..JobFilter::default() };
    act(&h, &most, Action::Cancel).await;
    let lines = async || h.store.audit(&AuditFilter::newest(1_000)).await.unwrap();
    assert_eq!(lines().await.len(), 101, "100 lines more");
    let more = JobFilter { ids, ..JobFilter::default() };
    act(&h, &more, Action::Cancel).await;
    let lines = lines().await;
    assert_eq!((lines.len(), lines[0].act.as_str(), lines[0].subject.as_str()), (102, "jobs.cancel", "jobs"));
}

/// A large action takes several transactions with a record each; the counts add up.
pub async fn the_records_of_a_large_act_add_up(h: Harness) {
    h.put_plain(600).await;
    let waiting = JobFilter { states: vec![JobState::Pending], ..JobFilter::default() };
    assert_eq!(act(&h, &waiting, Action::Cancel).await.done, 600);
    let lines = h.audit_lines().await;
    assert!(lines.iter().all(|line| line[0] == "jobs.cancel" && line[1] == "jobs"), "{lines:?}");
    assert_eq!(lines.iter().map(|line| line[2]["done"]["to"].as_u64().unwrap()).sum::<u64>(), 600);
}

pub async fn a_record_of_a_change_has_the_differences(h: Harness) {
    let id = h.put(h.job()).await;
    let was = h.detail(id).await.job.run_at.unwrap();
    let change = async |change: Change| h.store.change(id, &change, Some(&me())).await.unwrap();
    assert!(change(Change { priority: Some(1), run_at: None }).await);
    assert!(change(Change { priority: Some(1), run_at: None }).await, "it waits, though nothing changes");
    assert!(change(Change { priority: None, run_at: Some(was.plus(Duration::from_secs(90))) }).await);
    let is = h.detail(id).await.job.run_at.unwrap();
    let subject = format!("job/{id}");
    let later = json!({
        "state": { "from": "pending", "to": "scheduled" },
        "run_at": { "from": was.to_string(), "to": is.to_string() },
    });
    assert_eq!(
        h.audit_lines().await,
        [
            json!(["job.change", subject, { "priority": { "from": 5, "to": 1 } }]),
            json!(["job.change", subject, later]),
        ]
    );
}

pub async fn no_record_without_a_change_or_an_actor(h: Harness) {
    let id = h.put(h.job()).await;
    let gone = JobId(7);
    act(&h, &only(id), Action::Delete).await;
    act(&h, &only(id), Action::Retry).await;
    act(&h, &only(gone), Action::Cancel).await;
    act(&h, &JobFilter { states: vec![JobState::Failed], ..JobFilter::default() }, Action::Retry).await;
    let change = Change { priority: Some(1), run_at: None };
    assert!(!h.store.change(gone, &change, Some(&me())).await.unwrap());
    h.act(&[id], Action::Cancel).await;
    h.act(&[id], Action::Retry).await;
    assert!(h.store.change(id, &change, None).await.unwrap());
    assert_eq!(h.audit_lines().await, Vec::<serde_json::Value>::new());
}
