//! Jobs of one workflow end in several processes at once: the last one releases the child.

use windlass_core::store::{Action, JobFilter, Settled};
use windlass_core::workflow::{OnFailure, WorkflowState};

use super::Harness;
use super::workflow_fixture::{WorkflowFixture, done, plan};

pub async fn the_last_of_two_racing_parents_releases_the_child(h: Harness) {
    let other = h.open().await;
    for round in 0..60 {
        let flow = WorkflowFixture::start(
            &h,
            &plan(&h, OnFailure::Stop, &[("a", &[]), ("b", &[]), ("c", &["a", "b"])]),
        )
        .await;
        let both = flow.take(&["a", "b"]).await;
        let (here, there) = ([done(&both[0])], [done(&both[1])]);
        let (here, there) = tokio::join!(h.store.settle(&here), other.settle(&there));
        assert_eq!((here.unwrap(), there.unwrap()), (vec![Settled::Accepted], vec![Settled::Accepted]));
        assert_eq!(flow.shown().await, "a:completed b:completed c:pending", "round {round}");
        flow.run(&["c"]).await;
        assert_eq!(flow.state().await, WorkflowState::Completed, "round {round}");
    }
}

/// Batches that share many workflows in opposite order.
pub async fn batches_that_share_workflows_do_not_deadlock(h: Harness) {
    let other = h.open().await;
    let parents: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["a", "b"])];
    let mut flows = Vec::new();
    for _ in 0..40 {
        flows.push(WorkflowFixture::start(&h, &plan(&h, OnFailure::Stop, parents)).await);
    }
    let leased = h.claim(flows[0].worker, 1_000).await;
    assert_eq!(leased.len(), 80);
    let here: Vec<_> = leased.iter().step_by(2).map(done).collect();
    let there: Vec<_> = leased.iter().skip(1).step_by(2).rev().map(done).collect();
    let (here, there) = tokio::join!(h.store.settle(&here), other.settle(&there));
    assert_eq!(here.unwrap().len() + there.unwrap().len(), 80);
    assert_eq!(h.claim(flows[0].worker, 1_000).await.len(), 40);
}

pub async fn ends_race_cancels_and_retries(h: Harness) {
    let (other, third) = (h.open().await, h.open().await);
    for round in 0..30 {
        let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
        flow.run(&["a"]).await;
        let both = flow.take(&["b", "c"]).await;
        let (ends, d) = ([done(&both[0])], JobFilter { ids: vec![flow.job("d")], ..JobFilter::default() });
        let c = [done(&both[1])];
        let (_, _, cancelled, _) = tokio::join!(
            h.store.settle(&ends),
            other.settle(&c),
            third.act(&d, Action::Cancel, 10, None),
            async {
                third.cancel_workflow(flow.id, None).await.unwrap();
                third.retry_workflow(flow.id, None).await.unwrap()
            },
        );
        cancelled.unwrap();
        h.store.retry_workflow(flow.id, None).await.unwrap();
        assert_eq!(flow.shown().await, "a:completed b:completed c:completed d:pending", "round {round}");
        flow.run(&["d"]).await;
        assert_eq!(flow.state().await, WorkflowState::Completed, "round {round}");
        assert_eq!(h.store.repair_workflows().await.unwrap(), 0);
    }
}
