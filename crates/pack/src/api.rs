//! Calling routes, whether they run in this process or on a server.

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use serde_json::Value;

use windlass_core::Invalid;
use windlass_core::input::is_dots;

use crate::problem::Problem;
use crate::route::Media;

#[derive(Clone, Debug)]
pub struct ApiRequest {
    pub method: Method,
    /// With escaped parameters filled in.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<(Media, Vec<u8>)>,
}

impl ApiRequest {
    /// Fills the parameters of `template` in order: `/v1/jobs/{id}` and `["7"]`.
    pub fn new(method: Method, template: &str, holes: &[&str]) -> ApiRequest {
        let mut holes = holes.iter();
        let parts = template.split('/').map(|part| match part.starts_with('{') {
            true => escaped(holes.next().copied().unwrap_or_default()),
            false => part.to_owned(),
        });
        let path = parts.collect::<Vec<_>>().join("/");
        ApiRequest { method, path, query: Vec::new(), headers: Vec::new(), body: None }
    }

    pub fn get(template: &str, holes: &[&str]) -> ApiRequest {
        ApiRequest::new(Method::GET, template, holes)
    }

    pub fn post(template: &str, holes: &[&str]) -> ApiRequest {
        ApiRequest::new(Method::POST, template, holes)
    }

    /// `None` is left out.
    pub fn query(mut self, name: &str, value: Option<impl ToString>) -> ApiRequest {
        self.query.extend(value.map(|value| (name.to_owned(), value.to_string())));
        self
    }

    pub fn header(mut self, name: &'static str, value: Option<impl ToString>) -> ApiRequest {
        self.headers.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub fn json(mut self, body: &Value) -> ApiRequest {
        self.body = Some((Media::Json, body.to_string().into_bytes()));
        self
    }

    /// JSON, sent byte for byte.
    pub fn raw_json(mut self, body: Vec<u8>) -> ApiRequest {
        self.body = Some((Media::Json, body));
        self
    }

    /// One JSON object per line.
    pub fn lines(mut self, body: Vec<u8>) -> ApiRequest {
        self.body = Some((Media::Lines, body));
        self
    }

    /// Path and query as in a request line.
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            return self.path.clone();
        }
        let query: String =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.query).finish();
        format!("{}?{query}", self.path)
    }
}

impl ApiRequest {
    /// Refuses `.` and `..` in the path: HTTP clients remove them. A local call would deliver them, so both are refused
    /// here.
    pub fn check_path(&self) -> Option<ApiError> {
        let dots = self.path.split('/').find(|part| is_dots(part))?;
        let wrong = Invalid::one("path", format!("nothing can be called `{dots}`: no address can name it"));
        let answer = Problem::parameter(wrong).into_answer();
        answer.checked().err()
    }
}

/// An id may be any text, so everything except letters, digits and `-._~` is escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[derive(Clone, Debug)]
pub struct ApiAnswer {
    pub status: StatusCode,
    pub body: Vec<u8>,
}

impl ApiAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The JSON of a successful response; a problem is an error. A response that no windlass route gives is an error
    /// too. Otherwise it could be shown as an empty list.
    pub fn checked(self) -> Result<(Value, ApiAnswer), ApiError> {
        let body: Option<Value> = match self.body.is_empty() {
            true => Some(Value::Null),
            false => serde_json::from_slice(&self.body).ok(),
        };
        let status = self.status;
        match body {
            Some(body) if status.is_success() => Ok((body, self)),
            Some(body) if body["code"].is_string() => {
                let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
                let (code, title, detail) = (text("code"), text("title"), text("detail"));
                Err(ApiError::Refused { status, code, title, detail, problem: Box::new(body) })
            }
            _ => Err(ApiError::Foreign { status }),
        }
    }
}

impl Problem {
    fn into_answer(self) -> ApiAnswer {
        ApiAnswer { status: self.status(), body: self.body().to_string().into_bytes() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The route refused the request; the text is its problem document.
    #[error("{detail}")]
    Refused { status: StatusCode, code: String, title: String, detail: String, problem: Box<Value> },
    /// The responder is not a windlass server.
    #[error("the response ({status}) is not from a windlass server")]
    Foreign { status: StatusCode },
    /// No response.
    #[error("{server} does not answer: {why}")]
    Unreachable { server: String, why: String },
}

/// A way to call routes.
#[async_trait]
pub trait Api: Send + Sync {
    /// The raw response, including problems.
    async fn send(&self, request: ApiRequest) -> Result<ApiAnswer, ApiError>;

    /// The response's JSON; a problem is an error.
    async fn call(&self, request: ApiRequest) -> Result<Value, ApiError> {
        Ok(self.send(request).await?.checked()?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_parameters_are_escaped_and_queries_encoded() {
        let request = ApiRequest::get("/v1/entities/{type}/{id}", &["doc", "a/b ü"])
            .query("limit", Some(5))
            .query("cursor", None::<&str>)
            .query("tag", Some("a&b"));
        assert_eq!(request.target(), "/v1/entities/doc/a%2Fb%20%C3%BC?limit=5&tag=a%26b");
    }

    #[test]
    fn a_name_that_clients_would_remove_is_refused() {
        let ask = |id: &str| ApiRequest::get("/v1/entities/{type}/{id}", &["doc", id]).check_path();
        for dots in [".", ".."] {
            assert!(matches!(ask(dots), Some(ApiError::Refused { code, .. }) if code == "invalid_parameter"));
        }
        assert!(["...", "a.b", ".a", "../x", "%2e"].iter().all(|id| ask(id).is_none()));
    }

    #[test]
    fn only_a_response_of_a_route_is_accepted() {
        let answer = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            ApiAnswer { status, body: body.as_bytes().to_vec() }.checked()
        };
        assert_eq!(answer(200, r#"{"items":[]}"#).unwrap().0["items"], serde_json::json!([]));
        assert!(answer(204, "").unwrap().0.is_null());
        let problem = answer(404, r#"{"code":"not_found","detail":"there is no job 7 here"}"#);
        assert!(matches!(problem, Err(ApiError::Refused { code, .. }) if code == "not_found"));
        for (status, body) in [(200, "<html>"), (302, ""), (404, "<html>"), (502, r#"{"error":"gateway"}"#)] {
            assert!(matches!(answer(status, body), Err(ApiError::Foreign { .. })), "{status} {body}");
        }
    }
}
