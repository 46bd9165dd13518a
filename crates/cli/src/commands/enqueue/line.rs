//! One line of a bulk file: the object of `POST /v1/jobs`, read by the same reader.

use windlass_core::Invalid;
use windlass_engine::JobRequest;
use windlass_http::fields::{Fields, Unreadable};
use windlass_http::job_request;

/// What is wrong with a line, without its number.
pub(super) fn parse(text: &[u8]) -> Result<JobRequest, Vec<String>> {
    let fields = Fields::read(text, "").map_err(|error| match error {
        Unreadable::Syntax(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            vec![format!("column {}: {message}", error.column())]
        }
        Unreadable::NotAnObject(sort) => vec![format!("must be an object, not {sort}")],
    })?;
    job_request(fields).map_err(texts)
}

pub(super) fn texts(invalid: Invalid) -> Vec<String> {
    invalid.problems.into_iter().map(|problem| format!("{}: {}", problem.field, problem.rule)).collect()
}
