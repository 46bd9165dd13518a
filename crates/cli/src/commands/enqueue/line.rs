//! One line of a bulk file: the object of `POST /v1/jobs`, read by the same reader.

use windlass_core::Invalid;
use windlass_engine::JobRequest;
use windlass_http::job_request;

use super::super::line;

/// What is wrong with a line, without its number.
pub(super) fn parse(text: &[u8]) -> Result<JobRequest, Vec<String>> {
    let fields = line::fields(text).map_err(|why| vec![why])?;
    job_request(fields).map_err(texts)
}

pub(super) fn texts(invalid: Invalid) -> Vec<String> {
    invalid.problems.into_iter().map(|problem| format!("{}: {}", problem.field, problem.rule)).collect()
}
