//! Workflows as a caller describes them and as a handler sees them.
//!
//! Resolves names into a checked [`NewWorkflow`], and gives a job the results of its parents. What the end of a job
//! means for the others is decided by `core::workflow` and written by the store.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::store::{Parent, Started};
use windlass_core::workflow::{NewMember, NewWorkflow, OnFailure, Undo, check};
use windlass_core::{Invalid, JobState, NewJob, StoreError, TxRef};

use crate::{Catalog, Client, Context, EnqueueError, JobError, JobRequest};

/// Jobs that are written together, some of which run after others.
#[derive(Clone, Debug, Default)]
pub struct WorkflowRequest {
    /// Shown to people.
    pub name: Option<String>,
    pub on_failure: OnFailure,
    pub jobs: Vec<MemberRequest>,
}

/// One job of a workflow.
#[derive(Clone, Debug, Default)]
pub struct MemberRequest {
    /// Unique within the workflow.
    pub name: String,
    pub job: JobRequest,
    /// Names of its parents: the jobs it runs after.
    pub after: Vec<String>,
    /// Overrides what the workflow says about a failure: stop or continue.
    pub on_failure: Option<OnFailure>,
    /// The job that undoes it, if the workflow fails after it has completed.
    pub compensate: Option<JobRequest>,
}

impl WorkflowRequest {
    /// Checks every job at once and resolves kinds, queues and defaults.
    pub fn resolve(self, catalog: &Catalog) -> Result<NewWorkflow, Invalid> {
        let mut invalid = Invalid::default();
        if let Some(name) = &self.name {
            invalid.check_key("name", name);
        }
        let names: Vec<(&str, Vec<&str>)> = self
            .jobs
            .iter()
            .map(|job| (job.name.as_str(), job.after.iter().map(String::as_str).collect()))
            .collect();
        let placed = check(&names).unwrap_or_else(|error| {
            invalid.problems.extend(error.problems);
            Vec::new()
        });
        let on_failure = self.on_failure;
        let mut members: Vec<Option<NewMember>> = Vec::with_capacity(self.jobs.len());
        for (n, member) in self.jobs.into_iter().enumerate() {
            members.push(resolve_member(n, member, on_failure, catalog, &mut invalid));
        }
        invalid.into_result()?;
        let in_order = placed.into_iter().filter_map(|(n, parents)| {
            let member = members.get_mut(n)?.take()?;
            Some(NewMember { parents, ..member })
        });
        Ok(NewWorkflow { name: self.name, on_failure, members: in_order.collect() })
    }

    fn kinds(&self) -> impl Iterator<Item = &str> {
        let all = self.jobs.iter().flat_map(|member| [Some(&member.job), member.compensate.as_ref()]);
        all.flatten().map(|job| job.kind.as_str())
    }
}

fn resolve_member(
    n: usize,
    member: MemberRequest,
    on_failure: OnFailure,
    catalog: &Catalog,
    invalid: &mut Invalid,
) -> Option<NewMember> {
    let MemberRequest { name, job, after: _, on_failure: own, compensate } = member;
    let field = format!("jobs[{n}]");
    if own == Some(OnFailure::Compensate) {
        invalid.add(format!("{field}.on_failure"), "must be stop or continue; compensate is the workflow's");
    }
    if compensate.is_some() && on_failure != OnFailure::Compensate {
        invalid.add(
            format!("{field}.compensate"),
            "means something only where on_failure of the workflow is compensate",
        );
    }
    let job = resolve_job(&field, job, catalog, invalid);
    let undo = compensate.map(|undo| resolve_job(&format!("{field}.compensate"), undo, catalog, invalid));
    let undo = match undo {
        Some(undo) => Some(Undo::of(undo?)),
        None => None,
    };
    let goes_on = own.unwrap_or(on_failure) == OnFailure::Continue;
    Some(NewMember { name, job: job?, parents: Vec::new(), goes_on, undo })
}

/// Refuses keys by which another job could take this one's place.
fn resolve_job(field: &str, job: JobRequest, catalog: &Catalog, invalid: &mut Invalid) -> Option<NewJob> {
    for (key, given) in [("unique_key", &job.unique_key), ("idempotency_key", &job.idempotency_key)] {
        if given.is_some() {
            invalid.add(format!("{field}.{key}"), "cannot be given to a job of a workflow");
        }
    }
    match job.resolve(catalog) {
        Ok(job) => Some(job),
        Err(error) => {
            invalid.problems.extend(error.problems.into_iter().map(|mut problem| {
                problem.field = format!("{field}.{}", problem.field);
                problem
            }));
            None
        }
    }
}

impl Client {
    /// Returns once all jobs of the workflow are durable.
    pub async fn enqueue_workflow(&self, request: WorkflowRequest) -> Result<Started, EnqueueError> {
        let workflow = self.resolve_workflow(request).await?;
        self.watched(self.store().enqueue_workflow(&workflow).await)
    }

    /// Inside the caller's transaction: the workflow exists once it commits, and not at all if it rolls back.
    pub async fn enqueue_workflow_in(
        &self,
        tx: TxRef<'_>,
        request: WorkflowRequest,
    ) -> Result<Started, EnqueueError> {
        let workflow = self.resolve_workflow(request).await?;
        self.watched(self.store().enqueue_workflow_in(tx, &workflow).await)
    }

    /// Every rule that the workflow breaks.
    pub async fn check_workflow(&self, request: WorkflowRequest) -> Result<Invalid, StoreError> {
        let catalog = self.catalog_for(request.kinds()).await?;
        Ok(request.resolve(&catalog).err().unwrap_or_default())
    }

    async fn resolve_workflow(&self, request: WorkflowRequest) -> Result<NewWorkflow, EnqueueError> {
        let catalog = self.catalog_for(request.kinds()).await?;
        let workflow = request.resolve(&catalog)?;
        let jobs: Vec<NewJob> = workflow.members.iter().map(|member| member.job.clone()).collect();
        self.admit(&catalog, &jobs).await?;
        Ok(workflow)
    }
}

impl Context {
    /// The parents of this job, or the job that it undoes, in order; empty for a job without a workflow. Where the
    /// workflow continues after failures, some may have failed.
    pub async fn parents(&self) -> Result<Vec<Parent>, StoreError> {
        if self.job.workflow.is_none() {
            return Ok(Vec::new());
        }
        self.client().store().parents(self.job.id).await
    }

    /// Results of the completed ones of [`Context::parents`], by name; null for one without a result.
    pub async fn parent_results(&self) -> Result<BTreeMap<String, Value>, JobError> {
        let mut results = BTreeMap::new();
        for parent in self.parents().await?.into_iter().filter(|p| p.state == JobState::Completed) {
            let value = match parent.result {
                Some(result) => serde_json::from_slice(&result)?,
                None => Value::Null,
            };
            results.insert(parent.name, value);
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, after: &[&str]) -> MemberRequest {
        MemberRequest {
            name: name.to_owned(),
            job: JobRequest::new("k", b"{}".to_vec()),
            after: after.iter().map(|name| (*name).to_owned()).collect(),
            ..MemberRequest::default()
        }
    }

    #[test]
    fn every_broken_rule_is_named_with_its_field() {
        let mut jobs = vec![member("a", &["b"]), member("b", &["zz"])];
        jobs[0].job.unique_key = Some("u".to_owned());
        jobs[1].on_failure = Some(OnFailure::Compensate);
        jobs[1].compensate = Some(JobRequest::new("k", b"not json".to_vec()));
        let request = WorkflowRequest { jobs, ..WorkflowRequest::default() };
        let error = request.resolve(&Catalog::default()).unwrap_err().to_string();
        for part in [
            "jobs[1].after[0]: names no job of the workflow: `zz`",
            "jobs[0].unique_key: cannot be given to a job of a workflow",
            "jobs[0].kind: ",
            "jobs[1].on_failure: must be stop or continue",
            "jobs[1].compensate: means something only where",
            "jobs[1].compensate.payload: is not JSON",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }
}
