//! Workflows on Postgres: concurrent ends in several transactions, and the cost for plain jobs.

use windlass_core::workflow::{NewMember, NewWorkflow, OnFailure};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, Store, TxRef};

use crate::place::{Place, done, ended, settlement};

fn fan_in(place: &Place, parents: usize) -> NewWorkflow {
    let member = |n: usize, parents: Vec<usize>| NewMember {
        name: format!("j{n}"),
        job: NewJob { tags: vec![format!("j{n}")], ..place.job() },
        parents,
        goes_on: false,
        undo: None,
    };
    let mut members: Vec<NewMember> = (0..parents).map(|n| member(n, Vec::new())).collect();
    members.push(member(parents, (0..parents).collect()));
    NewWorkflow { name: None, on_failure: OnFailure::Stop, members }
}

async fn two_leased(place: &Place) -> (JobId, LeasedJob, LeasedJob) {
    let started =
        windlass_core::store::WorkflowStore::enqueue_workflow(&place.store, &fan_in(place, 2)).await.unwrap();
    let worker = place.worker().await;
    let mut leased = place.lease(worker, 1).await;
    leased.extend(place.lease(worker, 1).await);
    (started.jobs[2], leased.remove(0), leased.remove(0))
}

/// The second end begins before the first is committed, and has to see it.
#[tokio::test]
async fn the_second_of_two_concurrent_parent_ends_releases_the_child() {
    let place = Place::new().await;
    let (child, one, two) = two_leased(&place).await;
    let other = place.other().await;
    let mut tx = place.pool.begin().await.unwrap();
    place.store.settle_in(TxRef::new(&mut *tx), &settlement(&one, done())).await.unwrap();
    let second = tokio::spawn(async move {
        let answer = other.settle(&[settlement(&two, done())]).await;
        other.close().await;
        answer
    });
    place.wait_for_blocked_session().await;
    assert_eq!(place.state(child).await, JobState::Scheduled);
    tx.commit().await.unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(place.state(child).await, JobState::Pending, "the child was not released");
    place.end().await;
}

/// The first is rolled back, or the second fails.
#[tokio::test]
async fn a_parent_whose_end_is_rolled_back_has_not_ended() {
    let place = Place::new().await;
    let (child, one, two) = two_leased(&place).await;
    let other = place.other().await;
    let mut tx = place.pool.begin().await.unwrap();
    place.store.settle_in(TxRef::new(&mut *tx), &settlement(&one, done())).await.unwrap();
    let second = tokio::spawn(async move {
        let answer = other.settle(&[settlement(&two, done())]).await;
        other.close().await;
        answer
    });
    place.wait_for_blocked_session().await;
    tx.rollback().await.unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(place.state(child).await, JobState::Scheduled, "one parent still runs");
    place.store.settle(&[settlement(&one, ended(JobState::Failed, "no"))]).await.unwrap();
    assert_eq!(place.state(child).await, JobState::Cancelled);
    place.end().await;
}

/// The tables are locked against any read: a job without a workflow is leased and settled without reading them.
#[tokio::test]
async fn a_job_without_a_workflow_reads_no_workflow_tables() {
    let place = Place::new().await;
    let ids = place.put(2).await;
    let worker = place.worker().await;
    let mut tx = place.pool.begin().await.unwrap();
    let lock = format!("lock table {0}.workflows, {0}.workflow_jobs in access exclusive mode", place.schema);
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *tx).await.unwrap();
    let leased = place.lease(worker, 10).await;
    let batch = [settlement(&leased[0], done()), settlement(&leased[1], ended(JobState::Failed, "no"))];
    let settled = tokio::time::timeout(std::time::Duration::from_secs(10), place.store.settle(&batch)).await;
    settled.expect("a plain job's end read the workflow tables").unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(place.state(ids[0]).await, JobState::Completed);
    place.end().await;
}
