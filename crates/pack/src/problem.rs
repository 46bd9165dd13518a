//! Errors as `application/problem+json` with a stable code.
//!
//! Owns the codes and statuses, and decides what a caller may see. Internal errors are logged with their causes under a
//! short id, and the caller gets only the id.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use windlass_core::input::{self, shown};
use windlass_core::{Invalid, KeyUse, StoreError};
use windlass_engine::operate::OperateError;
use windlass_engine::{EngineError, EnqueueError};

#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<input::Problem>,
    /// What happened to the request, if problems are listed.
    consequence: &'static str,
    retry_after: Option<Duration>,
}

/// Bounds the list: 10,000 invalid jobs must not produce a response of a megabyte.
const ERRORS_SHOWN: usize = 100;

impl Problem {
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        let (detail, errors) = (detail.into(), Vec::new());
        Problem { status, code, title, detail, errors, consequence: "", retry_after: None }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Adds to what people are told.
    pub fn noting(mut self, note: &str) -> Problem {
        self.detail = format!("{}; {note}", self.detail);
        self
    }

    pub fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail)
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, code, "Its state does not allow this", detail)
    }

    pub fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "malformed_json", "The body is not JSON", detail)
    }

    /// Invalid JSON; says where.
    pub fn syntax(error: &serde_json::Error) -> Problem {
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        Problem::malformed(format!("line {}, column {}: {text}", error.line(), error.column()))
    }

    /// A query parameter, the path or a header is wrong.
    pub fn parameter(invalid: Invalid) -> Problem {
        Problem::listed(
            StatusCode::BAD_REQUEST,
            "invalid_parameter",
            "A parameter breaks a rule",
            invalid,
            "nothing was done",
        )
    }

    /// A field of the body is wrong.
    pub fn invalid(invalid: Invalid) -> Problem {
        Problem::listed(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_input",
            "The input breaks a rule",
            invalid,
            "nothing was written",
        )
    }

    /// Problems with parameters and body in one response. If the body has any, the status is that of a wrong body.
    pub fn both(parameters: Invalid, body: Invalid) -> Result<(), Problem> {
        match (parameters.problems.is_empty(), body.problems.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => Err(Problem::parameter(parameters)),
            (_, false) => Err(Problem::invalid(parameters.and(body))),
        }
    }

    /// A field of a search is wrong.
    pub fn question(invalid: Invalid) -> Problem {
        let title = "The input breaks a rule";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Problem::listed(status, "invalid_input", title, invalid, "nothing was searched")
    }

    fn listed(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        invalid: Invalid,
        consequence: &'static str,
    ) -> Problem {
        let count = invalid.problems.len();
        let detail = match invalid.problems.first() {
            Some(first) if count == 1 => format!("{}: {}; {consequence}", first.field, first.rule),
            Some(first) => {
                format!("{count} problems, the first: {}: {}; {consequence}", first.field, first.rule)
            }
            None => consequence.to_owned(),
        };
        let mut problem = Problem::new(status, code, title, detail);
        problem.errors = invalid.problems;
        problem.errors.truncate(ERRORS_SHOWN);
        problem.consequence = consequence;
        problem
    }

    /// Adds problems found before the handler ran. If the handler found nothing wrong with the request, they alone are
    /// the response. An internal error stays one.
    pub fn beside(self, wrong: Invalid) -> Problem {
        let Problem { status, code, title, errors, consequence, .. } = self.clone();
        match errors.is_empty() {
            true if status.is_server_error() => self,
            true => Problem::parameter(wrong),
            false => {
                Problem::listed(status, code, title, wrong.and(Invalid { problems: errors }), consequence)
            }
        }
    }

    pub fn key_used(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_mismatch",
            "The idempotency key was used before",
            detail,
        )
    }

    pub fn too_large(limit: usize) -> Problem {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "The body is too large",
            format!("at most {limit} bytes are allowed here; send less at once"),
        )
    }

    pub fn retry_after(mut self, wait: Duration) -> Problem {
        self.retry_after = Some(wait);
        self
    }

    /// An internal error. The causes are logged, and the caller gets the id to find them.
    pub fn internal(what: &str, causes: &str) -> Problem {
        let id = fault_id();
        tracing::error!(id, what, causes, "a request failed");
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed",
            format!("see the server's log under the id {id}"),
        )
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".to_owned(), json!("about:blank"));
        body.insert("title".to_owned(), json!(self.title));
        body.insert("status".to_owned(), json!(self.status.as_u16()));
        body.insert("code".to_owned(), json!(self.code));
        body.insert("detail".to_owned(), json!(self.detail));
        if !self.errors.is_empty() {
            let error = |problem: &input::Problem| json!({ "field": problem.field, "rule": problem.rule });
            body.insert("errors".to_owned(), self.errors.iter().map(error).collect());
        }
        Value::Object(body)
    }
}

fn fault_id() -> String {
    format!("{:08x}", fastrand::u32(..))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        of_store(&error)
    }
}

fn of_store(error: &StoreError) -> Problem {
    match error {
        StoreError::IdempotencyMismatch { key, existing } => idempotency(key, *existing),
        StoreError::UniqueRejected { key, existing } => unique(key, &existing.to_string()),
        StoreError::Unavailable { .. } | StoreError::Busy { .. } => {
            let id = fault_id();
            tracing::warn!(id, causes = error.chain(), "the store did not answer");
            let late =
                deadline(error).map_or(String::new(), |key| format!("it took longer than `{key}` allows; "));
            let detail =
                format!("{late}try again; whether a write took effect is unknown; see the log under {id}");
            let title = "The database does not answer";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", title, detail)
                .retry_after(Duration::from_secs(1))
        }
        StoreError::Full { .. } => {
            tracing::error!(causes = error.chain(), "the disk is full");
            let detail = "nothing was written; free some disk space";
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "The disk is full", detail)
        }
        other => Problem::internal("the store failed", &other.chain()),
    }
}

/// The setting whose deadline was exceeded. The rest of the error is only logged.
fn deadline(error: &StoreError) -> Option<&'static str> {
    let causes = error.chain();
    ["database.statement_timeout", "database.acquire_timeout"].into_iter().find(|key| causes.contains(key))
}

fn idempotency(key: &str, existing: KeyUse) -> Problem {
    let key = shown(key);
    Problem::key_used(format!(
        "idempotency key `{key}` was used for another body ({existing}); nothing was written"
    ))
}

fn unique(key: &str, existing: &str) -> Problem {
    let key = shown(key);
    let detail = format!(
        "unique key `{key}` is held by job {existing}, which is waiting or whose window is not over; nothing was written"
    );
    Problem::conflict("unique_rejected", detail)
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        match error {
            EngineError::Invalid(invalid) => Problem::invalid(invalid),
            EngineError::Store(error) => of_store(&error),
        }
    }
}

impl From<OperateError> for Problem {
    fn from(error: OperateError) -> Problem {
        match error {
            OperateError::Invalid(invalid) => Problem::invalid(invalid),
            OperateError::Missing(what) => Problem::not_found(what),
            OperateError::Conflict { code, why } => Problem::conflict(code, why),
            OperateError::Store(error) => of_store(&error),
        }
    }
}

impl From<EnqueueError> for Problem {
    fn from(error: EnqueueError) -> Problem {
        match &error {
            EnqueueError::Invalid(invalid) => Problem::invalid(invalid.clone()),
            EnqueueError::DepthCap { queue, cap, retry_after } => {
                let detail = format!("queue {queue} holds {cap} waiting jobs, its cap; nothing was written");
                let title = "The queue is full";
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", title, detail)
                    .retry_after(*retry_after)
            }
            EnqueueError::IdempotencyMismatch { key, existing } => idempotency(key, *existing),
            EnqueueError::UniqueRejected { key, existing } => unique(key, &existing.to_string()),
            EnqueueError::InlineInTransaction => Problem::internal("a job was refused", &error.to_string()),
            EnqueueError::Store(store) => of_store(store),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_named_but_nothing_else_of_the_cause() {
        let detail = |source: &str| {
            let error = StoreError::Busy { op: "enqueue", source: source.into() };
            of_store(&error).detail
        };
        let late = detail("stopped (`database.statement_timeout`): host 10.0.0.7");
        assert!(
            late.starts_with("it took longer than `database.statement_timeout` allows; try again"),
            "{late}"
        );
        assert!(!late.contains("10.0.0.7"), "{late}");
        assert!(detail("deadlock").starts_with("try again"));
    }
}
