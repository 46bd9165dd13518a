//! Parses the object of `POST /v1/workflows` or the file of `workflows run` into a request for the engine.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::workflow::{MAX_JOBS, OnFailure};
use windlass_core::{Invalid, Problem};
use windlass_engine::{JobRequest, MemberRequest, WorkflowRequest};
use windlass_pack::fields::{Fields, Unreadable};
use windlass_pack::{Schemas, Shape};

use crate::request::{Attempts, Moment, Priority, Span, read_job};

/// Reports all problems at once, including those of the jobs.
pub fn workflow_request(fields: Fields<'_>) -> Result<WorkflowRequest, Invalid> {
    let (request, invalid) = read_workflow(fields);
    invalid.into_result().map(|()| request)
}

/// What could be read, and the problems with the rest. An unreadable job keeps its index.
pub(crate) fn read_workflow(mut fields: Fields<'_>) -> (WorkflowRequest, Invalid) {
    let name = fields.text("name");
    let on_failure = fields.parsed("on_failure", str::parse::<OnFailure>).unwrap_or_default();
    let raw = fields.raw("jobs");
    let listed = raw.map(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()));
    let mut found: Vec<Problem> = Vec::new();
    let mut jobs = Vec::new();
    match listed {
        None => fields.refuse("jobs", "is required"),
        Some(Err(_)) => fields.refuse("jobs", "must be a list of objects"),
        Some(Ok(items)) if items.len() > MAX_JOBS => {
            fields.refuse("jobs", format!("has {} entries; a workflow has at most {MAX_JOBS}", items.len()));
        }
        Some(Ok(items)) => {
            for (n, item) in items.iter().enumerate() {
                let (member, invalid) = match object(item, &format!("jobs[{n}]")) {
                    Ok(fields) => member(fields),
                    Err(invalid) => (MemberRequest::default(), invalid),
                };
                jobs.push(member);
                found.extend(invalid.problems);
            }
        }
    }
    let mut invalid = fields.end().err().unwrap_or_default();
    invalid.problems.extend(found);
    (WorkflowRequest { name, on_failure, jobs }, invalid)
}

fn object<'a>(raw: &'a RawValue, field: &str) -> Result<Fields<'a>, Invalid> {
    Fields::read(raw.get().as_bytes(), format!("{field}.")).map_err(|error| match error {
        Unreadable::NotAnObject(sort) => Invalid::one(field, format!("must be an object, not {sort}")),
        Unreadable::Syntax(error) => Invalid::one(field, error.to_string()),
    })
}

fn member(mut fields: Fields<'_>) -> (MemberRequest, Invalid) {
    let name = fields.required_text("name");
    let after = fields.texts("after");
    let on_failure = fields.parsed("on_failure", str::parse::<OnFailure>);
    let undo = fields.raw("compensate").filter(|raw| raw.get() != "null");
    let within = fields.within().to_owned();
    let undo = undo.map(|raw| match object(raw, &format!("{within}compensate")) {
        Ok(fields) => read_job(fields),
        Err(invalid) => (JobRequest::default(), invalid),
    });
    let (job, mut invalid) = read_job(fields);
    let compensate = undo.map(|(undo, wrong)| {
        invalid.problems.extend(wrong.problems);
        undo
    });
    (MemberRequest { name, job, after, on_failure, compensate }, invalid)
}

/// The schema of what [`workflow_request`] reads.
pub(crate) struct NewWorkflow;

impl Shape for NewWorkflow {
    fn schema(schemas: &mut Schemas) -> Value {
        let about = "Jobs enqueued together, some of which run after others.";
        schemas.object("NewWorkflow", about, |workflow| {
            workflow.optional::<String>("name", "For people; need not be unique");
            workflow.optional::<Policy>(
                "on_failure",
                "What a job that ends without success means for the others; stop by default",
            );
            workflow.required::<Members>("jobs", "In any order");
        })
    }
}

struct Policy;

impl Shape for Policy {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": OnFailure::ALL.map(OnFailure::name) })
    }
}

struct OwnPolicy;

impl Shape for OwnPolicy {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "string", "enum": ["stop", "continue"] })
    }
}

struct Members;

impl Shape for Members {
    fn schema(schemas: &mut Schemas) -> Value {
        let one = Member::schema(schemas);
        json!({ "type": "array", "items": one, "minItems": 1, "maxItems": MAX_JOBS })
    }
}

struct Member;

impl Shape for Member {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("NewWorkflowJob", "A job and the jobs it runs after.", |job| {
            job.required::<String>("name", "Unique within the workflow");
            job.optional::<Vec<String>>("after", "Names of the jobs that end before it starts");
            job.optional::<OwnPolicy>("on_failure", "Overrides on_failure of the workflow for this job");
            job.optional::<Undo>(
                "compensate",
                "Undoes it if the workflow fails after it has completed; only with compensate",
            );
            plain_fields(job);
            job.optional::<Moment>("run_at", "Not before this time");
            job.optional::<Span>("delay", "Starts this long after the jobs it runs after have ended");
            job.optional::<String>("concurrency_key", "Jobs of a kind with the same key share a lane");
            job.optional::<Vec<String>>("tags", "Words to find the job by, at most 16");
        })
    }
}

struct Undo;

impl Shape for Undo {
    fn schema(schemas: &mut Schemas) -> Value {
        schemas.object("NewUndoJob", "A job that undoes another.", plain_fields)
    }
}

fn plain_fields(job: &mut windlass_pack::shape::Object<'_>) {
    job.required::<String>("kind", "`GET /v1/kinds` lists them");
    job.optional::<Value>("payload", "Any JSON, at most 1 MiB; {} by default");
    job.optional::<Priority>("priority", "0 is most urgent; the kind's by default");
    job.optional::<Attempts>("max_attempts", "All runs, including the first");
    job.optional::<Span>("timeout", "How long one run may take");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WorkflowRequest, Invalid> {
        workflow_request(Fields::read(text.as_bytes(), "").unwrap())
    }

    #[test]
    fn unknown_fields_are_refused_and_numbers_are_exact() {
        let read = parse(
            r#"{"name":"n","on_failure":"compensate","jobs":[
                {"name":"a","kind":"NOOP","payload":1.50,"compensate":{"kind":"FAIL"}},
                {"name":"b","kind":"NOOP","after":["a"],"on_failure":"continue","delay":"5m"}]}"#,
        )
        .unwrap();
        assert_eq!((read.name.as_deref(), read.on_failure), (Some("n"), OnFailure::Compensate));
        assert_eq!(read.jobs[0].job.payload, b"1.50");
        assert_eq!(read.jobs[0].compensate.as_ref().map(|undo| undo.kind.as_str()), Some("FAIL"));
        assert_eq!(
            (&read.jobs[1].after[..], read.jobs[1].on_failure),
            (&["a".to_owned()][..], Some(OnFailure::Continue))
        );
    }

    #[test]
    fn every_problem_has_its_field() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(refused("{}"), "jobs: is required");
        assert_eq!(refused(r#"{"jobs":{}}"#), "jobs: must be a list of objects");
        let all = refused(
            r#"{"on_failure":"panic","x":1,"jobs":[7,{"kind":"NOOP","prio":1},{"name":"a","kind":"NOOP","compensate":{"a":1}}]}"#,
        );
        for part in [
            "on_failure: `panic` is none of stop, continue, compensate",
            "x: is not a field here; known: name, on_failure, jobs",
            "jobs[0]: must be an object, not a number",
            "jobs[1].name: is required",
            "jobs[1].prio: is not a field here",
            "jobs[2].compensate.kind: is required",
        ] {
            assert!(all.contains(part), "{part} is not in {all}");
        }
    }
}
