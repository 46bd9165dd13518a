//! Workflows: a child starts after all its parents, is never lost, and reads their results.

use std::time::Duration;

use windlass_core::store::{
    Action, Bulk, Change, Counts, JobFilter, Parent, Prune, PruneWhat, Settled, WorkflowFilter,
};
use windlass_core::workflow::{NewWorkflow, OnFailure, WorkflowState};
use windlass_core::{JobState, Outcome, RunAt, WorkflowId};

use super::workflow_fixture::{DIAMOND, WorkflowFixture, done, name, plan};
use super::{Harness, settlement};

const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);

pub async fn a_child_waits_for_all_its_parents(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    assert_eq!(flow.shown().await, "a:pending b:waits c:waits d:waits");
    assert_eq!(h.count(JobState::Scheduled).await, 3);
    let queued =
        JobFilter { states: vec![JobState::Scheduled], queue: Some(h.queue), ..JobFilter::default() };
    assert_eq!(h.store.count(&queued).await.unwrap(), 3, "found by the queue of their kind");
    assert_eq!(h.store.depth(h.queue, 100).await.unwrap(), 1, "and in none until then");
    flow.run(&["a"]).await;
    assert_eq!(flow.shown().await, "a:completed b:pending c:pending d:waits");
    let both = flow.take(&["b", "c"]).await;
    h.done(&both[0]).await;
    assert!(h.claim(flow.worker, 10).await.is_empty());
    assert_eq!(flow.shown().await, "a:completed b:completed c:running d:waits");
    h.done(&both[1]).await;
    assert_eq!(flow.state().await, WorkflowState::Running);
    flow.run(&["d"]).await;
    let ended = flow.detail().await.workflow;
    assert_eq!((ended.state, ended.counts.completed, ended.counts.total()), (WorkflowState::Completed, 4, 4));
    assert!(ended.ended_at.is_some());
}

/// One call ends all parents of a child, jobs of several workflows, and jobs of none.
pub async fn one_batch_ends_jobs_of_many_workflows(h: Harness) {
    let flows = [
        WorkflowFixture::diamond(&h, OnFailure::Stop).await,
        WorkflowFixture::diamond(&h, OnFailure::Stop).await,
    ];
    h.put_plain(2).await;
    let leased = h.claim(flows[0].worker, 10).await;
    assert_eq!(leased.len(), 4);
    h.store.settle(&leased.iter().map(done).collect::<Vec<_>>()).await.unwrap();
    let leased = h.claim(flows[0].worker, 10).await;
    assert_eq!(leased.len(), 4);
    h.store.settle(&leased.iter().map(done).collect::<Vec<_>>()).await.unwrap();
    let leased = h.claim(flows[0].worker, 10).await;
    assert_eq!(leased.iter().map(name).collect::<Vec<_>>(), ["d", "d"]);
    h.store.settle(&leased.iter().map(done).collect::<Vec<_>>()).await.unwrap();
    for flow in &flows {
        assert_eq!(flow.state().await, WorkflowState::Completed);
    }
}

/// A parent that returns to its queue has not ended.
pub async fn a_retry_of_a_parent_keeps_the_child_waiting(h: Harness) {
    let flow = WorkflowFixture::start(&h, &plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"])])).await;
    for outcome in [
        Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() },
        Outcome::snooze(Duration::ZERO),
        Outcome::HandBack,
    ] {
        let job = flow.take(&["a"]).await.remove(0);
        assert_eq!(h.settle(&job, outcome).await, Settled::Accepted);
        assert_eq!(flow.shown().await, "a:pending b:waits");
    }
    // A stale settlement is not an end.
    let job = flow.take(&["a"]).await.remove(0);
    assert_eq!(h.lose(flow.worker).await.returned, 1);
    assert_eq!(h.settle(&job, Outcome::Done { result: None }).await, Settled::Stale);
    assert_eq!(flow.shown().await, "a:pending b:waits");
    let worker = h.worker().await;
    let job = h.claim_suspect(worker).await.unwrap();
    h.done(&job).await;
    assert_eq!(flow.shown().await, "a:completed b:pending");
}

pub async fn results_reach_the_children(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    flow.run(&["a"]).await;
    for job in flow.take(&["b", "c"]).await {
        let result = (name(&job) == "b").then(|| b"{\"rows\":7}".to_vec());
        assert_eq!(h.settle(&job, Outcome::Done { result }).await, Settled::Accepted);
    }
    let parent = |name: &str, result: Option<&[u8]>| Parent {
        name: name.to_owned(),
        job: flow.job(name),
        state: JobState::Completed,
        result: result.map(<[u8]>::to_vec),
    };
    let found = h.store.parents(flow.job("d")).await.unwrap();
    assert_eq!(found, [parent("b", Some(b"{\"rows\":7}")), parent("c", None)]);
    assert_eq!(h.store.parents(flow.job("a")).await.unwrap(), []);
    let plain = h.put(h.job()).await;
    assert_eq!(h.store.parents(plain).await.unwrap(), []);
}

pub async fn a_blocked_child_cannot_be_run_now(h: Harness) {
    let flow = WorkflowFixture::start(&h, &plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"])])).await;
    let b = flow.job("b");
    assert_eq!(h.act(&[b], Action::Retry).await, Bulk { skipped: 1, ..Bulk::default() });
    let now = Change { priority: None, run_at: Some(h.now().await) };
    assert!(!h.store.change(b, &now, None).await.unwrap());
    assert_eq!(flow.shown().await, "a:pending b:waits");
    assert!(h.store.change(b, &Change { priority: Some(1), run_at: None }, None).await.unwrap());
    flow.run(&["a"]).await;
    assert_eq!(flow.take(&["b"]).await[0].priority, 1);
}

pub async fn a_delay_starts_at_the_release(h: Harness) {
    let mut workflow = plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"]), ("c", &[])]);
    workflow.members[1].job.run_at = RunAt::In(MINUTE);
    workflow.members[2].job.run_at = RunAt::At(h.now().await.plus(MINUTE * 3));
    let flow = WorkflowFixture::start(&h, &workflow).await;
    h.advance(MINUTE * 2);
    flow.run(&["a"]).await;
    assert_eq!(flow.shown().await, "a:completed b:scheduled c:scheduled");
    assert!(h.detail(flow.job("b")).await.job.run_at.is_some());
    h.advance(MINUTE * 2);
    flow.run(&["b", "c"]).await;
    assert_eq!(flow.state().await, WorkflowState::Completed);
}

/// Released children with one concurrency key respect its limit.
pub async fn a_released_job_joins_its_lane(h: Harness) {
    let mut workflow = plan(&h, OnFailure::Stop, DIAMOND);
    for member in &mut workflow.members[1..3] {
        member.job.concurrency_key = Some("key".to_owned());
    }
    let flow = WorkflowFixture::start(&h, &workflow).await;
    flow.run(&["a"]).await;
    assert_eq!(flow.shown().await, "a:completed b:pending c:pending d:waits");
    let b = flow.take(&["b"]).await.remove(0);
    assert!(h.claim(flow.worker, 10).await.is_empty(), "one of a key at a time");
    h.done(&b).await;
    let c = flow.take(&["c"]).await.remove(0);
    flow.fail(&c).await;
    assert_eq!(h.store.retry_workflow(flow.id, None).await.unwrap().unwrap().done, 2);
    flow.run(&["c"]).await;
    flow.run(&["d"]).await;
    assert_eq!(flow.state().await, WorkflowState::Completed);
    let sick: Vec<_> =
        h.store.examine().await.unwrap().into_iter().filter(|f| f.name == "lanes" && !f.ok).collect();
    assert!(sick.is_empty(), "{sick:?}");
}

pub async fn a_workflow_in_a_callers_transaction(h: Harness) {
    let workflow = plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"])]);
    let mut tx = h.store.begin().await.unwrap();
    let gone = h.store.enqueue_workflow_in(tx.tx(), &workflow).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(h.store.workflow(gone.id).await.unwrap(), None);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 0);
    let mut tx = h.store.begin().await.unwrap();
    h.store.enqueue_workflow_in(tx.tx(), &workflow).await.unwrap();
    tx.commit().await.unwrap();
    let worker = h.worker().await;
    let a = h.claim_one(worker).await;
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(h.store.settle_in(tx.tx(), &done(&a)).await.unwrap(), Settled::Accepted);
    tx.rollback().await.unwrap();
    assert!(h.claim(worker, 10).await.is_empty());
    let mut tx = h.store.begin().await.unwrap();
    assert_eq!(h.store.settle_in(tx.tx(), &done(&a)).await.unwrap(), Settled::Accepted);
    tx.commit().await.unwrap();
    assert_eq!(name(&h.claim_one(worker).await), "b");
}

pub async fn listed_newest_first_and_by_state(h: Harness) {
    let named = |name: &str| NewWorkflow {
        name: Some(name.to_owned()),
        ..plan(&h, OnFailure::Continue, &[("a", &[]), ("b", &["a"])])
    };
    let one = WorkflowFixture::start(&h, &named("one")).await;
    one.run(&["a"]).await;
    one.run(&["b"]).await;
    let two = WorkflowFixture::start(&h, &named("two")).await;
    let list = async |state, before| {
        let filter = WorkflowFilter { state, before, limit: 10 };
        let found = h.store.workflows(&filter).await.unwrap();
        found.into_iter().map(|record| record.id).collect::<Vec<WorkflowId>>()
    };
    assert_eq!(list(None, None).await, [two.id, one.id]);
    assert_eq!(list(None, Some(two.id)).await, [one.id]);
    assert_eq!(list(Some(WorkflowState::Completed), None).await, [one.id]);
    let found = h.store.workflows(&WorkflowFilter { limit: 1, ..WorkflowFilter::default() }).await.unwrap();
    let waiting = Counts { waiting: 1, live: 1, ..Counts::default() };
    assert_eq!((found[0].name.as_deref(), found[0].counts), (Some("two"), waiting));
    assert_eq!((found[0].on_failure, found[0].ended_at), (OnFailure::Continue, None));
    assert_eq!(h.store.workflow(WorkflowId(1)).await.unwrap(), None);
}

/// Results of parents are kept until the children have run; then all jobs are pruned.
pub async fn jobs_are_not_pruned_before_their_workflow_ends(h: Harness) {
    let flow = WorkflowFixture::start(&h, &plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"])])).await;
    let plain = h.put(h.job()).await;
    for job in h.claim(flow.worker, 10).await {
        let result = Some(b"1".to_vec());
        h.settle(&job, Outcome::Done { result }).await;
    }
    h.advance(DAY * 10);
    let prune = |what| Prune { what, older_than: DAY, dry_run: false };
    assert_eq!(h.store.prune(&prune(PruneWhat::Finished), None).await.unwrap(), 1);
    assert!(h.store.job(plain).await.unwrap().is_none());
    assert_eq!(h.store.parents(flow.job("b")).await.unwrap()[0].result.as_deref(), Some(&b"1"[..]));
    let worker = h.worker().await;
    let b = h.claim_one(worker).await;
    h.done(&b).await;
    assert_eq!(flow.state().await, WorkflowState::Completed);
    h.advance(DAY * 2);
    assert_eq!(h.store.prune(&prune(PruneWhat::Finished), None).await.unwrap(), 2);
    assert_eq!(h.store.workflow(flow.id).await.unwrap(), None);
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 0);
}

/// A job was ended by a process that does not know workflows.
pub async fn a_missed_end_is_repaired(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    assert_eq!(h.store.repair_workflows().await.unwrap(), 0);
    for names in [&["a"][..], &["b", "c"]] {
        for job in flow.take(names).await {
            let unaware = windlass_core::Settlement { workflow: None, ..done(&job) };
            assert_eq!(h.store.settle(&[unaware]).await.unwrap(), [Settled::Accepted]);
        }
        assert!(h.claim(flow.worker, 10).await.is_empty());
        let sick = |findings: Vec<windlass_core::store::Finding>| {
            findings.iter().any(|finding| finding.name == "workflows" && !finding.ok)
        };
        assert!(sick(h.store.examine().await.unwrap()));
        assert_eq!(h.store.repair_workflows().await.unwrap(), 1);
        assert_eq!(h.store.repair_workflows().await.unwrap(), 0);
        assert!(!sick(h.store.examine().await.unwrap()));
    }
    flow.run(&["d"]).await;
    assert_eq!(flow.state().await, WorkflowState::Completed);
}

/// A long chain, and a child with a thousand parents.
pub async fn the_largest_workflows_complete(h: Harness) {
    let names: Vec<String> = (0..999).map(|n| format!("p{n}")).collect();
    let mut jobs: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    jobs.push(("last", &all));
    let flow = WorkflowFixture::start(&h, &plan(&h, OnFailure::Stop, &jobs)).await;
    for some in h.claim(flow.worker, 1_000).await.chunks(300) {
        assert!(h.claim(flow.worker, 10).await.is_empty());
        let batch: Vec<_> = some.iter().map(|job| settlement(job, Outcome::Done { result: None })).collect();
        h.store.settle(&batch).await.unwrap();
    }
    flow.run(&["last"]).await;
    assert_eq!(flow.detail().await.workflow.counts.completed, 1_000);
    let chain: Vec<(&str, &[&str])> =
        (0..60).map(|n| (all[n], if n == 0 { &[][..] } else { &all[n - 1..n] })).collect();
    let flow = WorkflowFixture::start(&h, &plan(&h, OnFailure::Stop, &chain)).await;
    for name in &all[..60] {
        flow.run(&[name]).await;
    }
    assert_eq!(flow.state().await, WorkflowState::Completed);
}
