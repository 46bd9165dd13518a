//! Queries: one job with its history, lists, and counts that equal the lists.

use std::time::Duration;

use windlass_core::store::{Action, Claim, DeadCount, JobFilter, Page};
use windlass_core::{EntityRef, JobId, JobState, NewJob, Outcome};

use super::Harness;
use super::moves::one_in_each_state;

const ALL: Page = Page { before: None, limit: 1_000, excerpt: None };

async fn listed(h: &Harness, filter: &JobFilter) -> Vec<JobId> {
    let got: Vec<JobId> = h.store.list(filter, &ALL).await.unwrap().iter().map(|j| j.id).collect();
    let count = h.store.count(filter).await.unwrap();
    assert_eq!(count, got.len() as u64, "count and list disagree for {filter:?}");
    got
}

pub async fn an_unknown_job_is_none(h: Harness) {
    let id = h.put(h.job()).await;
    for other in [JobId(0), JobId(-1), JobId(id.0 + 1), JobId(i64::MAX)] {
        assert!(h.store.job(other).await.unwrap().is_none(), "{other}");
    }
}

pub async fn attempts_in_order(h: Harness) {
    let id = h.put(h.job()).await;
    let (one, two) = (h.worker().await, h.worker().await);
    let mut tokens = Vec::new();
    let endings = [
        (one, Outcome::Retry { after: Some(Duration::ZERO), error: "first".to_owned() }),
        (two, Outcome::snooze(Duration::ZERO)),
        (one, Outcome::Retry { after: Some(Duration::ZERO), error: "third".to_owned() }),
        (two, Outcome::Done { result: Some(b"r".to_vec()) }),
    ];
    for (worker, outcome) in endings {
        let leased = h.claim_one(worker).await;
        let running = h.detail(id).await.attempts;
        assert_eq!(running.len(), tokens.len() + 1, "the running attempt is the last");
        assert_eq!(running.last().unwrap().outcome, "running");
        tokens.push(leased.token);
        h.settle(&leased, outcome).await;
    }
    let detail = h.detail(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Completed, 3));
    let runs = detail.attempts;
    assert_eq!(runs.iter().map(|a| a.token).collect::<Vec<_>>(), tokens);
    assert_eq!(runs.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 2, 2, 3]);
    let outcomes: Vec<_> = runs.iter().map(|a| a.outcome.as_str()).collect();
    assert_eq!(outcomes, ["retry", "snooze", "retry", "completed"]);
    let errors: Vec<_> = runs.iter().map(|a| a.error.as_deref()).collect();
    assert_eq!(errors, [Some("first"), None, Some("third"), None]);
    assert_eq!(runs.iter().map(|a| a.worker.unwrap()).collect::<Vec<_>>(), [one, two, one, two]);
    for run in &runs {
        assert!(run.ended_at.unwrap() >= run.started_at, "{run:?}");
    }
}

pub async fn newest_first_with_a_cursor(h: Harness) {
    let put = h.put_plain(25).await;
    let mut before = None;
    let mut got = Vec::new();
    for size in [10, 10, 5, 0] {
        let page =
            h.store.list(&JobFilter::default(), &Page { before, limit: 10, excerpt: None }).await.unwrap();
        assert_eq!(page.len(), size);
        before = page.last().map(|j| j.id).or(before);
        got.extend(page.iter().map(|j| j.id));
    }
    assert_eq!(got, put.into_iter().rev().collect::<Vec<_>>());
}

/// A page with excerpts has the beginning of payloads and results, and the sizes of the whole ones.
pub async fn excerpts_with_whole_sizes(h: Harness) {
    let long = NewJob { payload: b"[1,2,3,4,5,6]".to_vec(), ..h.job() };
    let (long, short) = (h.put(long).await, h.put(h.job()).await);
    let worker = h.worker().await;
    let leased = h.claim_one(worker).await;
    h.settle(&leased, Outcome::Done { result: Some(b"\"a result\"".to_vec()) }).await;
    let page = Page { before: None, limit: 10, excerpt: Some(5) };
    let jobs = h.store.list(&JobFilter::default(), &page).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [short, long]);
    assert_eq!((jobs[1].payload.as_slice(), jobs[1].payload_bytes), (&b"[1,2,"[..], 13));
    assert_eq!((jobs[1].result.as_deref(), jobs[1].result_bytes), (Some(&b"\"a re"[..]), 10));
    assert_eq!((jobs[0].payload.len() as u64, jobs[0].result_bytes), (jobs[0].payload_bytes.min(5), 0));
    let whole = h.detail(long).await.job;
    assert_eq!((whole.payload.len() as u64, whole.payload_bytes), (13, 13));
}

/// A list over all states is ordered by id, although a store keeps states in different tables.
pub async fn one_list_over_all_states(h: Harness) {
    let each = one_in_each_state(&h).await;
    let mut expected: Vec<JobId> = each.iter().map(|(_, id)| *id).collect();
    expected.sort_unstable();
    expected.reverse();
    assert_eq!(listed(&h, &JobFilter::default()).await, expected);
    let mut paged = Vec::new();
    while let Some(job) = {
        let page = Page { before: paged.last().copied(), limit: 1, excerpt: None };
        h.store.list(&JobFilter::default(), &page).await.unwrap().pop()
    } {
        paged.push(job.id);
    }
    assert_eq!(paged, expected);
}

pub async fn by_state(h: Harness) {
    let each = one_in_each_state(&h).await;
    for (state, id) in &each {
        let filter = JobFilter { states: vec![*state], ..JobFilter::default() };
        assert_eq!(listed(&h, &filter).await, [*id], "{state}");
        let record = h.store.list(&filter, &ALL).await.unwrap().remove(0);
        let shown = h.detail(*id).await.job;
        assert_eq!(
            format!("{record:?}"),
            format!("{shown:?}"),
            "a list shows the same record as a single read"
        );
        assert_eq!(shown.finished_at.is_some(), state.is_finished(), "{state}");
    }
    for one in &each {
        for two in &each {
            let filter = JobFilter { states: vec![one.0, two.0], ..JobFilter::default() };
            let expected = if one.0 == two.0 { 1 } else { 2 };
            assert_eq!(listed(&h, &filter).await.len(), expected, "{} and {}", one.0, two.0);
        }
    }
    let filter = JobFilter { states: JobState::ALL.to_vec(), ..JobFilter::default() };
    assert_eq!(listed(&h, &filter).await.len(), each.len());
}

pub async fn every_filter_is_applied(h: Harness) {
    let entity = |id: &str| Some(EntityRef { entity_type: "Post".to_owned(), entity_id: id.to_owned() });
    let tags = |tags: &[&str]| tags.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let a = h.put(NewJob { tags: tags(&["red", "blue"]), entity: entity("1"), ..h.job() }).await;
    let b =
        h.put(NewJob { kind: h.second_kind, tags: tags(&["blue"]), entity: entity("2"), ..h.job() }).await;
    let c =
        h.put(NewJob { kind: h.other_kind, queue: h.other_queue, tags: tags(&["redder"]), ..h.job() }).await;
    let any = JobFilter::default;
    let tag = |tag: &str| JobFilter { tag: Some(tag.to_owned()), ..any() };
    let cases = [
        (JobFilter { ids: vec![a, c, JobId(5)], ..any() }, vec![c, a]),
        (JobFilter { queue: Some(h.queue), ..any() }, vec![b, a]),
        (JobFilter { queue: Some(h.other_queue), ..any() }, vec![c]),
        (JobFilter { kind: Some(h.kind), ..any() }, vec![a]),
        (JobFilter { kind: Some(h.second_kind), ..any() }, vec![b]),
        (JobFilter { entity: entity("2"), ..any() }, vec![b]),
        (JobFilter { entity: entity("3"), ..any() }, vec![]),
        (tag("red"), vec![a]),
        (tag("blue"), vec![b, a]),
        (tag("%"), vec![]),
        (JobFilter { kind: Some(h.kind), ..tag("blue") }, vec![a]),
        (JobFilter { states: vec![JobState::Running], ..tag("blue") }, vec![]),
        (JobFilter { states: vec![JobState::Pending], ids: vec![b], ..tag("blue") }, vec![b]),
        (any(), vec![c, b, a]),
    ];
    for (filter, expected) in &cases {
        assert_eq!(listed(&h, filter).await, *expected, "{filter:?}");
    }
    for job in h.claim(h.worker().await, 10).await {
        h.done(&job).await;
    }
    for (filter, expected) in cases.iter().filter(|(f, _)| f.states.is_empty()) {
        assert_eq!(listed(&h, filter).await, *expected, "when finished: {filter:?}");
    }
}

/// A filter with few matches among many jobs still fills its page.
pub async fn a_rare_match_is_found(h: Harness) {
    let rare = h.put(NewJob { tags: vec!["rare".to_owned()], ..h.job() }).await;
    h.put_plain(3_000).await;
    let filter = JobFilter { tag: Some("rare".to_owned()), ..JobFilter::default() };
    let page = h.store.list(&filter, &Page { before: None, limit: 1, excerpt: None }).await.unwrap();
    assert_eq!(page.iter().map(|j| j.id).collect::<Vec<_>>(), [rare]);
}

pub async fn examine_names_a_remedy(h: Harness) {
    let findings = h.store.examine().await.unwrap();
    assert!(!findings.is_empty());
    for finding in findings {
        assert!(!finding.name.is_empty() && !finding.finding.is_empty(), "{finding:?}");
        assert!(finding.ok || finding.remedy.is_some(), "{finding:?}");
    }
}

/// Counts up to the cap, newest first over all queues.
pub async fn dead_letters_are_counted_by_queue(h: Harness) {
    let counted = |cap| {
        let h = &h;
        async move { h.store.dead_letters(cap).await.unwrap() }
    };
    assert_eq!(counted(10).await, []);
    let worker = h.worker().await;
    let other = NewJob { kind: h.other_kind, queue: h.other_queue, ..h.job() };
    let once = NewJob { max_attempts: 1, ..h.job() };
    for job in [other, once, h.job(), h.job(), h.job()] {
        h.put(job).await;
    }
    let ask = Claim { queue: h.other_queue, kinds: vec![h.other_kind], ..h.ask(worker, 1) };
    let elsewhere = h.store.claim(&ask).await.unwrap().remove(0);
    let here = h.claim(worker, 10).await;
    let fail = || Outcome::Fail { error: "never".to_owned() };
    h.settle(&elsewhere, fail()).await;
    h.settle(&here[0], Outcome::Retry { after: None, error: "no".to_owned() }).await;
    h.settle(&here[1], fail()).await;
    h.settle(&here[2], fail()).await;
    h.done(&here[3]).await;
    let of = |queue, failed, dead_letter| DeadCount { queue, failed, dead_letter };
    assert_eq!(counted(10).await, [of(h.queue, 2, 1), of(h.other_queue, 1, 0)]);
    assert_eq!(counted(2).await, [of(h.queue, 2, 0)]);
    h.act(&[here[1].id], Action::Retry).await;
    h.act(&[elsewhere.id], Action::Delete).await;
    assert_eq!(counted(10).await, [of(h.queue, 1, 1)]);
}
