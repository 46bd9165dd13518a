//! Effects of a failure, a cancel or a retry of one job on its workflow.

use windlass_core::store::{Action, Bulk, Settled};
use windlass_core::sweep::DEADLY_LEVEL;
use windlass_core::workflow::{OnFailure, WorkflowState};
use windlass_core::{JobState, Outcome};

use super::Harness;
use super::workflow_fixture::{WorkflowFixture, name, plan};

pub async fn stop_cancels_descendants(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    flow.run(&["a"]).await;
    let both = flow.take(&["b", "c"]).await;
    flow.fail(&both[0]).await;
    assert_eq!(flow.shown().await, "a:completed b:failed c:running d:cancelled");
    assert_eq!(flow.state().await, WorkflowState::Running, "the rest goes on");
    h.done(&both[1]).await;
    assert_eq!(flow.shown().await, "a:completed b:failed c:completed d:cancelled");
    let ended = flow.detail().await.workflow;
    assert_eq!((ended.state, ended.ended_at.is_some()), (WorkflowState::Failed, true));
    assert!(h.claim(flow.worker, 10).await.is_empty());
}

/// Ends without success: attempts ran out, too many crashes, an operator's cancel.
pub async fn every_end_without_success_stops(h: Harness) {
    for how in ["attempts", "crashes", "waiting", "running", "lost", "retired"] {
        let mut workflow = plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"])]);
        workflow.members[0].job.max_attempts = if how == "attempts" { 1 } else { 9 };
        let flow = WorkflowFixture::start(&h, &workflow).await;
        let a = flow.job("a");
        let wanted = match how {
            "attempts" => {
                let job = flow.take(&["a"]).await.remove(0);
                let outcome = Outcome::Retry { after: None, error: "no".to_owned() };
                assert_eq!(h.settle(&job, outcome).await, Settled::Accepted);
                JobState::DeadLetter
            }
            "crashes" => {
                flow.take(&["a"]).await;
                h.lose(flow.worker).await;
                for _ in 1..DEADLY_LEVEL {
                    assert!(flow.shown().await.ends_with(" b:waits"));
                    h.suspect_dies().await;
                }
                JobState::DeadLetter
            }
            "waiting" => {
                assert_eq!(h.act(&[a], Action::Cancel).await, Bulk { done: 1, ..Bulk::default() });
                JobState::Cancelled
            }
            how => {
                let job = flow.take(&["a"]).await.remove(0);
                assert_eq!(h.act(&[a], Action::Cancel).await, Bulk { requested: 1, ..Bulk::default() });
                assert_eq!(flow.shown().await, "a:running b:waits");
                match how {
                    "running" => assert_eq!(h.settle(&job, Outcome::HandBack).await, Settled::Cancelled),
                    "lost" => assert_eq!(h.lose(flow.worker).await.cancelled, 1),
                    _ => h.store.retire_worker(flow.worker).await.unwrap(),
                }
                JobState::Cancelled
            }
        };
        assert_eq!(flow.shown().await, format!("a:{wanted} b:cancelled"), "{how}");
        let state = match wanted {
            JobState::DeadLetter => WorkflowState::Failed,
            _ => WorkflowState::Cancelled,
        };
        assert_eq!(flow.state().await, state, "{how}");
    }
}

pub async fn continue_runs_the_children_with_the_failure(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Continue).await;
    flow.run(&["a"]).await;
    let both = flow.take(&["b", "c"]).await;
    flow.fail(&both[0]).await;
    assert_eq!(flow.shown().await, "a:completed b:failed c:running d:waits");
    h.done(&both[1]).await;
    let d = flow.take(&["d"]).await.remove(0);
    let told: Vec<(String, JobState)> =
        h.store.parents(d.id).await.unwrap().into_iter().map(|p| (p.name, p.state)).collect();
    assert_eq!(told, [("b".to_owned(), JobState::Failed), ("c".to_owned(), JobState::Completed)]);
    h.done(&d).await;
    assert_eq!(flow.state().await, WorkflowState::Completed, "failures are ignored under `continue`");
}

/// The failure of one job may be ignored in a workflow that stops.
pub async fn one_job_may_override_stop(h: Harness) {
    let mut workflow = plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    workflow.members[0].goes_on = true;
    let flow = WorkflowFixture::start(&h, &workflow).await;
    let a = flow.take(&["a"]).await.remove(0);
    flow.fail(&a).await;
    let b = flow.take(&["b"]).await.remove(0);
    flow.fail(&b).await;
    assert_eq!(flow.shown().await, "a:failed b:failed c:cancelled");
    assert_eq!(flow.state().await, WorkflowState::Failed);
}

pub async fn compensate_undoes_in_reverse_order(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Compensate).await;
    flow.run(&["a"]).await;
    let both = flow.take(&["b", "c"]).await;
    let result = Some(b"\"receipt\"".to_vec());
    flow.fail(&both[1]).await;
    assert_eq!(flow.shown().await, "a:completed b:running c:failed d:cancelled");
    assert!(h.claim(flow.worker, 10).await.is_empty(), "nothing is undone while something runs");
    assert_eq!(h.settle(&both[0], Outcome::Done { result: result.clone() }).await, Settled::Accepted);
    assert_eq!(flow.state().await, WorkflowState::Compensating);
    let undo = flow.take(&["b"]).await.remove(0);
    assert_eq!(undo.kind, h.second_kind);
    let of = h.store.parents(undo.id).await.unwrap();
    assert_eq!((of[0].job, &of[0].result), (flow.job("b"), &result), "it is told what to take back");
    assert!(h.claim(flow.worker, 10).await.is_empty(), "one after another");
    h.done(&undo).await;
    flow.run(&["a"]).await;
    let shown = "a:completed b:completed c:failed d:cancelled undo:b:completed undo:a:completed";
    assert_eq!(flow.shown().await, shown);
    assert_eq!(flow.state().await, WorkflowState::Compensated);
    let retried = h.store.retry_workflow(flow.id, None).await.unwrap().unwrap();
    assert_eq!(retried, Bulk { skipped: 6, ..Bulk::default() }, "what was taken back cannot be built on");
    assert_eq!(h.act(&[flow.job("c")], Action::Retry).await, Bulk { skipped: 1, ..Bulk::default() });
}

pub async fn a_failed_undo_can_be_retried(h: Harness) {
    let flow = WorkflowFixture::start(
        &h,
        &plan(&h, OnFailure::Compensate, &[("a", &[]), ("b", &["a"]), ("c", &["b"])]),
    )
    .await;
    flow.run(&["a"]).await;
    flow.run(&["b"]).await;
    let c = flow.take(&["c"]).await.remove(0);
    flow.fail(&c).await;
    let undo = flow.take(&["b"]).await.remove(0);
    flow.fail(&undo).await;
    assert_eq!(flow.state().await, WorkflowState::Failed);
    assert!(h.claim(flow.worker, 10).await.is_empty());
    assert_eq!(h.act(&[undo.id], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    assert_eq!(flow.state().await, WorkflowState::Compensating);
    flow.run(&["b"]).await;
    flow.run(&["a"]).await;
    assert_eq!(flow.state().await, WorkflowState::Compensated);
}

pub async fn retrying_a_job_revives_its_cancelled_descendants(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    flow.run(&["a"]).await;
    let both = flow.take(&["b", "c"]).await;
    flow.fail(&both[0]).await;
    h.done(&both[1]).await;
    let d = flow.job("d");
    let skipped = Bulk { skipped: 1, ..Bulk::default() };
    assert_eq!(h.act(&[d], Action::Retry).await, skipped, "its parent failed, so it cannot run");
    assert_eq!(h.act(&[flow.job("b")], Action::Retry).await, Bulk { done: 1, ..Bulk::default() });
    assert_eq!(flow.shown().await, "a:completed b:pending c:completed d:waits");
    let running = flow.detail().await.workflow;
    assert_eq!((running.state, running.ended_at), (WorkflowState::Running, None));
    let b = flow.take(&["b"]).await.remove(0);
    assert_eq!(b.attempt, 1, "with fresh attempts");
    h.done(&b).await;
    flow.run(&["d"]).await;
    assert_eq!(flow.state().await, WorkflowState::Completed);
    let runs: Vec<String> = h.detail(b.id).await.attempts.into_iter().map(|run| run.outcome).collect();
    assert_eq!(runs, ["failed", "completed"]);
}

pub async fn a_whole_workflow_can_be_cancelled_and_retried(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    flow.run(&["a"]).await;
    let b = h.claim_one(flow.worker).await;
    let cancelled = h.store.cancel_workflow(flow.id, None).await.unwrap().unwrap();
    assert_eq!(cancelled, Bulk { done: 2, requested: 1, skipped: 1, superseded: 0 });
    assert_eq!(flow.state().await, WorkflowState::Running, "until the running job has stopped");
    assert_eq!(h.settle(&b, Outcome::Cancelled).await, Settled::Accepted);
    assert_eq!(flow.shown().await, "a:completed b:cancelled c:cancelled d:cancelled");
    assert_eq!(flow.state().await, WorkflowState::Cancelled);
    let again = h.store.cancel_workflow(flow.id, None).await.unwrap().unwrap();
    assert_eq!(again, Bulk { skipped: 4, ..Bulk::default() });
    let retried = h.store.retry_workflow(flow.id, None).await.unwrap().unwrap();
    assert_eq!(retried, Bulk { done: 3, skipped: 1, ..Bulk::default() });
    assert_eq!(flow.shown().await, "a:completed b:pending c:pending d:waits");
    let both = flow.take(&["b", "c"]).await;
    assert_eq!(both.iter().map(name).collect::<Vec<_>>(), ["b", "c"]);
    for job in &both {
        h.done(job).await;
    }
    flow.run(&["d"]).await;
    assert_eq!(flow.state().await, WorkflowState::Completed);
    let nobody = windlass_core::WorkflowId(1);
    assert_eq!(h.store.cancel_workflow(nobody, None).await.unwrap(), None);
    assert_eq!(h.store.retry_workflow(nobody, None).await.unwrap(), None);
}

/// The end of a deleted job is still known.
pub async fn a_deleted_parent_counts_as_ended(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    flow.run(&["a"]).await;
    assert_eq!(h.act(&[flow.job("a")], Action::Delete).await, Bulk { done: 1, ..Bulk::default() });
    flow.run(&["b", "c"]).await;
    assert_eq!(h.act(&[flow.job("b")], Action::Delete).await.done, 1);
    let d = flow.take(&["d"]).await.remove(0);
    let told = h.store.parents(d.id).await.unwrap();
    assert!(told.iter().all(|parent| parent.state == JobState::Completed && parent.result.is_none()));
    flow.fail(&d).await;
    assert_eq!(h.act(&[d.id], Action::Delete).await.done, 1);
    let retried = h.store.retry_workflow(flow.id, None).await.unwrap().unwrap();
    assert_eq!(retried, Bulk { skipped: 4, ..Bulk::default() });
    assert_eq!(flow.state().await, WorkflowState::Failed);
}
