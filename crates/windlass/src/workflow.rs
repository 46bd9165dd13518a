//! Workflows of typed jobs.

use windlass_core::Invalid;
use windlass_core::workflow::OnFailure;
use windlass_engine::{EnqueueError, JobRequest, MemberRequest, WorkflowRequest};

use crate::{Job, Request};

/// Jobs with dependencies, enqueued together. A job starts when all its parents have ended, and reads their results
/// with [`Context::parent_results`](windlass_engine::Context::parent_results).
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Job, OnFailure, Workflow};
/// # #[derive(Serialize, Deserialize)] struct Fetch { part: u8 }
/// # impl Job for Fetch { const KIND: &'static str = "FETCH"; }
/// # #[derive(Serialize, Deserialize)] struct Report {}
/// # impl Job for Report { const KIND: &'static str = "REPORT"; }
/// let report = Workflow::new("report")
///     .on_failure(OnFailure::Stop)
///     .add("left", Fetch { part: 1 })
///     .add("right", Fetch { part: 2 })
///     .add("sum", Report {}.after(["left", "right"]));
/// ```
pub struct Workflow {
    name: String,
    on_failure: OnFailure,
    steps: Vec<(String, Step)>,
}

impl Workflow {
    /// The name is a label and need not be unique.
    pub fn new(name: impl Into<String>) -> Workflow {
        Workflow { name: name.into(), on_failure: OnFailure::default(), steps: Vec::new() }
    }

    /// What happens to the other jobs when one fails; the default is to stop.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Workflow {
        self.on_failure = on_failure;
        self
    }

    /// Adds a job under a name that is unique in the workflow.
    pub fn add(mut self, name: impl Into<String>, job: impl Into<Step>) -> Workflow {
        self.steps.push((name.into(), job.into()));
        self
    }

    pub(crate) fn into_request(self) -> Result<WorkflowRequest, EnqueueError> {
        let mut invalid = Invalid::default();
        let mut jobs = Vec::with_capacity(self.steps.len());
        for (n, (name, step)) in self.steps.into_iter().enumerate() {
            let mut written = |field: String, request: Request| match request.into_inner() {
                Ok(request) => request,
                Err(EnqueueError::Invalid(error)) => {
                    let problems = error.problems.into_iter();
                    problems
                        .for_each(|problem| invalid.add(format!("{field}.{}", problem.field), problem.rule));
                    JobRequest::default()
                }
                Err(error) => {
                    invalid.add(field, error.to_string());
                    JobRequest::default()
                }
            };
            jobs.push(MemberRequest {
                name,
                job: written(format!("jobs[{n}]"), step.request),
                after: step.after,
                on_failure: step.on_failure,
                compensate: step.compensate.map(|undo| written(format!("jobs[{n}].compensate"), undo)),
            });
        }
        invalid.into_result()?;
        Ok(WorkflowRequest { name: Some(self.name), on_failure: self.on_failure, jobs })
    }
}

/// One job of a [`Workflow`]. Every [`Job`] and [`Request`] converts into one.
pub struct Step {
    request: Request,
    after: Vec<String>,
    on_failure: Option<OnFailure>,
    compensate: Option<Request>,
}

impl<J: Job> From<J> for Step {
    fn from(job: J) -> Step {
        Step::from(Request::from(job))
    }
}

impl From<Request> for Step {
    fn from(request: Request) -> Step {
        Step { request, after: Vec::new(), on_failure: None, compensate: None }
    }
}

impl Step {
    /// Runs after the jobs with these names have ended.
    pub fn after<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Step {
        self.after.extend(names.into_iter().map(Into::into));
        self
    }

    /// Overrides the workflow's failure policy for this job: stop or continue.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Step {
        self.on_failure = Some(on_failure);
        self
    }

    /// The job that undoes this one if the workflow fails after it has completed, for workflows that compensate. It
    /// reads the result of this job as a child would.
    pub fn compensate(mut self, undo: impl Into<Request>) -> Step {
        self.compensate = Some(undo.into());
        self
    }
}
