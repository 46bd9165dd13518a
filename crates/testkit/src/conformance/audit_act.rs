//! What operators do to jobs leaves its line, with before and after as they were in force, and nothing else leaves one.

use std::time::Duration;

use serde_json::json;
use windlass_core::store::{ActFilter, Action, Bulk, Change, JobFilter};
use windlass_core::{JobId, JobState, NewJob, OnConflict, Outcome};

use super::witness::me;
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

pub async fn one_job_s_line_says_how_it_stood(h: Harness) {
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
        h.told().await,
        [
            json!(["job.retry", subject, { "state": { "from": "dead_letter", "to": "pending" } }]),
            json!(["job.cancel", subject, { "state": { "from": "pending", "to": "cancelled" } }]),
            json!(["job.delete", subject, gone]),
        ]
    );
}

pub async fn a_dead_letter_s_line_has_its_own_word(h: Harness) {
    let (one, other) = (dead(&h).await, dead(&h).await);
    let dead = |id| JobFilter { states: vec![JobState::Failed, JobState::DeadLetter], ..only(id) };
    act(&h, &dead(one), Action::Retry).await;
    act(&h, &dead(other), Action::Delete).await;
    let told = h.told().await;
    assert_eq!((&told[0][0], &told[0][1]), (&json!("dead_letter.replay"), &json!(format!("job/{one}"))));
    assert_eq!((&told[1][0], &told[1][1]), (&json!("dead_letter.delete"), &json!(format!("job/{other}"))));
}

pub async fn a_running_job_s_cancel_is_told_once(h: Harness) {
    let id = h.put(h.job()).await;
    h.claim_one(h.worker().await).await;
    for _ in 0..2 {
        assert_eq!(act(&h, &only(id), Action::Cancel).await.requested, 1);
    }
    let asked = json!({ "cancel_requested": { "from": null, "to": true } });
    assert_eq!(h.told().await, [json!(["job.cancel", format!("job/{id}"), asked])]);
}

pub async fn a_hurried_job_s_line_has_its_times(h: Harness) {
    let id = h.put(h.delayed(Duration::from_secs(60))).await;
    let due = h.detail(id).await.job.run_at.unwrap();
    act(&h, &only(id), Action::Retry).await;
    let now = h.detail(id).await.job.run_at.unwrap();
    let detail = json!({
        "state": { "from": "scheduled", "to": "pending" },
        "run_at": { "from": due.to_string(), "to": now.to_string() },
    });
    assert_eq!(h.told().await, [json!(["job.retry", format!("job/{id}"), detail])]);
}

pub async fn a_replay_that_meets_its_twin_is_told_as_it_ended(h: Harness) {
    let id = h.put(NewJob { max_attempts: 1, ..h.unique("u", OnConflict::Keep) }).await;
    let job = h.claim_one(h.worker().await).await;
    h.settle(&job, Outcome::Retry { after: None, error: "no".to_owned() }).await;
    h.put(h.unique("u", OnConflict::Keep)).await;
    assert_eq!(act(&h, &only(id), Action::Retry).await.superseded, 1);
    let ended = json!({ "state": { "from": "dead_letter", "to": "superseded" } });
    assert_eq!(h.told().await, [json!(["job.retry", format!("job/{id}"), ended])]);
}

pub async fn an_act_on_many_tells_the_filter_and_the_counts(h: Harness) {
    let ids = h.put_plain(4).await;
    h.claim_one(h.worker().await).await;
    let waiting = JobFilter {
        states: vec![JobState::Pending],
        queue: Some(h.queue),
        kind: Some(h.kind),
        ..JobFilter::default()
    };
    act(&h, &waiting, Action::Cancel).await;
    let told = h.told().await;
    let meant = json!({ "state": ["pending"], "queue": QUEUE, "kind": KIND });
    assert_eq!(told, [json!(["jobs.cancel", "jobs", { "filter": { "from": meant }, "done": { "to": 3 } }])]);
    // Whoever names each gets a line of each that was there to be deleted.
    let all = JobFilter { ids: ids.clone(), ..JobFilter::default() };
    act(&h, &all, Action::Delete).await;
    let mut told = h.told().await.split_off(1);
    told.sort_by_key(|line| line[1].to_string());
    let subjects: Vec<_> = ids[1..].iter().map(|id| json!(["job.delete", format!("job/{id}")])).collect();
    assert_eq!(told.iter().map(|line| json!([line[0], line[1]])).collect::<Vec<_>>(), subjects);
    let gone = told.iter().all(|line| line[2]["state"] == json!({ "from": "cancelled", "to": null }));
    assert!(gone, "{told:?}");
}

/// A dead letter is replayed by one word, alone or with others; too many named ones are told together.
pub async fn dead_letters_have_one_word_and_many_names_one_line(h: Harness) {
    for _ in 0..2 {
        h.put(NewJob { max_attempts: 1, ..h.job() }).await;
        let job = h.claim_one(h.worker().await).await;
        h.settle(&job, Outcome::Retry { after: None, error: "no".to_owned() }).await;
    }
    let dead = JobFilter { states: vec![JobState::Failed, JobState::DeadLetter], ..JobFilter::default() };
    assert_eq!(act(&h, &dead, Action::Retry).await.done, 2);
    let told = h.told().await;
    assert_eq!((told.len(), &told[0][0], &told[0][1]), (1, &json!("dead_letter.replay"), &json!("jobs")));
    let ids = h.put_plain(101).await;
    let most = JobFilter { ids: ids[1..].to_vec(), ..JobFilter::default() };
    act(&h, &most, Action::Cancel).await;
    let lines = async || h.store.audit(&ActFilter::newest(1_000)).await.unwrap();
    assert_eq!(lines().await.len(), 101, "100 lines more");
    let more = JobFilter { ids, ..JobFilter::default() };
    act(&h, &more, Action::Cancel).await;
    let lines = lines().await;
    assert_eq!((lines.len(), lines[0].act.as_str(), lines[0].subject.as_str()), (102, "jobs.cancel", "jobs"));
}

/// However many transactions it takes, the lines together say what was done.
pub async fn the_lines_of_a_large_act_add_up(h: Harness) {
    h.put_plain(600).await;
    let waiting = JobFilter { states: vec![JobState::Pending], ..JobFilter::default() };
    assert_eq!(act(&h, &waiting, Action::Cancel).await.done, 600);
    let told = h.told().await;
    assert!(told.iter().all(|line| line[0] == "jobs.cancel" && line[1] == "jobs"), "{told:?}");
    assert_eq!(told.iter().map(|line| line[2]["done"]["to"].as_u64().unwrap()).sum::<u64>(), 600);
}

pub async fn a_changed_job_s_line_has_what_differs(h: Harness) {
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
        h.told().await,
        [
            json!(["job.change", subject, { "priority": { "from": 5, "to": 1 } }]),
            json!(["job.change", subject, later]),
        ]
    );
}

pub async fn what_changes_nothing_or_has_no_actor_leaves_no_line(h: Harness) {
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
    assert_eq!(h.told().await, Vec::<serde_json::Value>::new());
}
