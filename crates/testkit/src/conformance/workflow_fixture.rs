//! The start of every workflow case: a workflow with named jobs, and methods that run them.

use std::collections::BTreeMap;

use windlass_core::store::{Settled, WorkflowDetail};
use windlass_core::workflow::{NewMember, NewWorkflow, OnFailure, Undo, WorkflowState, check};
use windlass_core::{JobId, JobState, LeasedJob, NewJob, Outcome, WorkerId, WorkflowId};

use super::{Harness, settlement};

/// a → b, c → d.
pub(super) const DIAMOND: &[(&str, &[&str])] =
    &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])];

/// A workflow in which each job has an undo job of the second kind. The payload of both is the name of the job.
pub(super) fn plan(h: &Harness, on_failure: OnFailure, jobs: &[(&str, &[&str])]) -> NewWorkflow {
    let named: Vec<(&str, Vec<&str>)> = jobs.iter().map(|(name, after)| (*name, after.to_vec())).collect();
    let placed = check(&named).unwrap();
    let undo = |name: &str| NewJob { kind: h.second_kind, payload: said(name), ..h.job() };
    let member = |(n, parents): (usize, Vec<usize>)| NewMember {
        name: named[n].0.to_owned(),
        job: NewJob { payload: said(named[n].0), ..h.job() },
        parents,
        goes_on: on_failure == OnFailure::Continue,
        undo: Some(Undo::of(undo(named[n].0))),
    };
    NewWorkflow { name: None, on_failure, members: placed.into_iter().map(member).collect() }
}

pub(super) fn said(name: &str) -> Vec<u8> {
    format!("\"{name}\"").into_bytes()
}

/// A running workflow and a worker for its jobs.
pub(super) struct WorkflowFixture<'h> {
    pub(super) h: &'h Harness,
    pub(super) id: WorkflowId,
    pub(super) worker: WorkerId,
    jobs: BTreeMap<String, JobId>,
}

impl<'h> WorkflowFixture<'h> {
    pub(super) async fn start(h: &'h Harness, workflow: &NewWorkflow) -> WorkflowFixture<'h> {
        let started = h.store.enqueue_workflow(workflow).await.unwrap();
        assert!(started.jobs.is_sorted(), "ids grow in the order of members");
        let names = workflow.members.iter().map(|member| member.name.clone());
        let jobs = names.zip(started.jobs).collect();
        WorkflowFixture { h, id: started.id, worker: h.worker().await, jobs }
    }

    pub(super) async fn diamond(h: &'h Harness, on_failure: OnFailure) -> WorkflowFixture<'h> {
        WorkflowFixture::start(h, &plan(h, on_failure, DIAMOND)).await
    }

    pub(super) fn job(&self, name: &str) -> JobId {
        self.jobs[name]
    }

    pub(super) async fn detail(&self) -> WorkflowDetail {
        self.h.store.workflow(self.id).await.unwrap().expect("the workflow is there")
    }

    pub(super) async fn state(&self) -> WorkflowState {
        self.detail().await.workflow.state
    }

    /// Leases all due jobs, which must have these names, and returns them in the order of `names`.
    pub(super) async fn take(&self, names: &[&str]) -> Vec<LeasedJob> {
        let leased = self.h.claim(self.worker, 100).await;
        let mut found: Vec<String> = leased.iter().map(name).collect();
        found.sort_unstable();
        let mut wanted = names.to_vec();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "leased");
        let by_name = |wanted: &&str| leased.iter().find(|job| name(job) == **wanted).cloned().unwrap();
        names.iter().map(by_name).collect()
    }

    /// Leases and completes all due jobs.
    pub(super) async fn run(&self, names: &[&str]) {
        for job in self.take(names).await {
            self.h.done(&job).await;
        }
    }

    pub(super) async fn fail(&self, job: &LeasedJob) {
        let outcome = Outcome::Fail { error: "no".to_owned() };
        assert_eq!(self.h.settle(job, outcome).await, Settled::Accepted);
    }

    /// Every job as `name:state` or `name:waits`, in order. Checks the members against the job records.
    pub(super) async fn shown(&self) -> String {
        let mut out = Vec::new();
        for member in self.detail().await.members {
            let own = self.h.detail(member.job).await.job;
            assert_eq!(own.state, member.state, "{}", member.name);
            assert_eq!(own.workflow, Some(self.id));
            if member.waits {
                assert_eq!((own.state, own.run_at), (JobState::Scheduled, None), "{}", member.name);
            }
            let how = if member.waits { "waits" } else { member.state.name() };
            out.push(format!("{}:{how}", member.name));
        }
        out.join(" ")
    }
}

/// The name in the payload of a job.
pub(super) fn name(job: &LeasedJob) -> String {
    String::from_utf8_lossy(&job.payload).trim_matches('"').to_owned()
}

pub(super) fn done(job: &LeasedJob) -> windlass_core::Settlement {
    settlement(job, Outcome::Done { result: None })
}
