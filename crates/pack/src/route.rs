//! One route: its name, parameters, responses, required scope and handler.
//!
//! From this description come the router, the refusal of unknown parameters, the data verbs of the command line, and
//! the OpenAPI document.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

use crate::call::Call;
use crate::principal::Scope;
use crate::problem::Problem;
use crate::shape::{Schemas, Shape};

pub type Answer = Result<Response, Problem>;
pub type Handler = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;
pub type SchemaOf = fn(&mut Schemas) -> Value;

/// For a body that is an action or a filter.
pub const SMALL_BODY: usize = 64 * 1024;

pub struct Route {
    pub method: Method,
    /// `/v1/jobs/{id}`.
    pub path: &'static str,
    /// The operation id in the OpenAPI document.
    pub name: &'static str,
    pub about: &'static str,
    pub parameters: Vec<Parameter>,
    pub body: Option<BodyOf>,
    pub answers: Vec<(u16, &'static str, Answered)>,
    /// Problems beside those that every such route has.
    pub problems: Vec<(u16, &'static str)>,
    /// Required of the caller. A route without a scope is refused at startup.
    pub scope: Option<Scope>,
    /// A valid body; JSON lines are given as text.
    pub example: Option<Value>,
    /// Example values by parameter name.
    pub path_examples: Vec<(&'static str, &'static str)>,
    /// The handler reports [`Call::wrong`] together with its own problems.
    pub reports_all_mistakes: bool,
    pub handler: Handler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Header,
}

pub struct Parameter {
    pub place: Place,
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Value,
    /// May be given more than once.
    pub many: bool,
}

pub struct BodyOf {
    pub limit: usize,
    pub schema: SchemaOf,
    pub media: Media,
}

/// Format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    /// One JSON value per line.
    Lines,
}

impl Media {
    pub fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Lines => "application/x-ndjson",
        }
    }
}

/// Content of a response.
pub enum Answered {
    Json(SchemaOf),
    /// Only the media type is described.
    Media(&'static str),
    Nothing,
}

impl Route {
    pub fn new<F, A>(
        method: Method,
        path: &'static str,
        name: &'static str,
        about: &'static str,
        handler: F,
    ) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| Box::pin(handler(call)));
        Route {
            method,
            path,
            name,
            about,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            problems: Vec::new(),
            scope: None,
            example: None,
            path_examples: Vec::new(),
            reports_all_mistakes: false,
            handler,
        }
    }

    pub fn get<F, A>(path: &'static str, name: &'static str, about: &'static str, handler: F) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        Route::new(Method::GET, path, name, about, handler)
    }

    pub fn post<F, A>(path: &'static str, name: &'static str, about: &'static str, handler: F) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        Route::new(Method::POST, path, name, about, handler)
    }

    /// The scope required of the caller.
    pub fn needs(mut self, scope: Scope) -> Route {
        self.scope = Some(scope);
        self
    }

    /// An example body for the documentation; a test sends it.
    pub fn example(mut self, body: Value) -> Route {
        self.example = Some(body);
        self
    }

    /// An example value of a path parameter, for the documentation.
    pub fn path_example(mut self, name: &'static str, example: &'static str) -> Route {
        self.path_examples.push((name, example));
        self
    }

    pub fn path(self, name: &'static str, about: &'static str) -> Route {
        self.parameter(Place::Path, name, about, json!({ "type": "string" }), false)
    }

    pub fn query(self, name: &'static str, about: &'static str, schema: Value) -> Route {
        self.parameter(Place::Query, name, about, schema, false)
    }

    /// A query parameter that may be repeated.
    pub fn queries(self, name: &'static str, about: &'static str, item: Value) -> Route {
        self.parameter(Place::Query, name, about, json!({ "type": "array", "items": item }), true)
    }

    pub fn header(self, name: &'static str, about: &'static str) -> Route {
        self.parameter(Place::Header, name, about, json!({ "type": "string" }), false)
    }

    /// A header whose value has a form.
    pub fn header_of(self, name: &'static str, about: &'static str, schema: Value) -> Route {
        self.parameter(Place::Header, name, about, schema, false)
    }

    fn parameter(
        mut self,
        place: Place,
        name: &'static str,
        about: &'static str,
        schema: Value,
        many: bool,
    ) -> Route {
        self.parameters.push(Parameter { place, name, about, schema, many });
        self
    }

    /// A JSON body of at most `limit` bytes.
    pub fn body<T: Shape>(mut self, limit: usize) -> Route {
        self.body = Some(BodyOf { limit, schema: T::schema, media: Media::Json });
        self
    }

    /// A body of at most `limit` bytes with one JSON object per line.
    pub fn lines(mut self, limit: usize) -> Route {
        let schema: SchemaOf = |_| json!({ "type": "string", "description": "One JSON object a line" });
        self.body = Some(BodyOf { limit, schema, media: Media::Lines });
        self
    }

    pub fn answers(mut self, status: u16, about: &'static str, what: Answered) -> Route {
        self.answers.push((status, about, what));
        self
    }

    /// A problem that other routes do not have.
    pub fn problem(mut self, status: u16, about: &'static str) -> Route {
        self.problems.push((status, about));
        self
    }

    pub fn json<T: Shape>(self, status: u16, about: &'static str) -> Route {
        self.answers(status, about, Answered::Json(T::schema))
    }

    /// Declares that the handler reports [`Call::wrong`] together with its own problems, before it changes anything.
    /// Read-only routes need not declare it: the router combines the problems.
    pub fn reports_all_mistakes(mut self) -> Route {
        self.reports_all_mistakes = true;
        self
    }

    /// Whether the handler may run although parameters are wrong, to collect its problems: it must have no effect.
    pub fn answers_together(&self) -> bool {
        self.reports_all_mistakes || self.is_read()
    }

    /// It changes nothing.
    pub fn is_read(&self) -> bool {
        matches!(self.scope, Some(Scope::Open | Scope::Read))
    }

    /// Routes of the API refuse unknown parameters; pages ignore them.
    pub fn is_strict(&self) -> bool {
        self.path.starts_with("/v1/")
    }
}

/// A response with `value` as its body.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    let text = serde_json::to_vec(value)
        .map_err(|error| Problem::internal("an answer could not be written", &error.to_string()))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub fn ok<T: Serialize>(value: &T) -> Answer {
    json(StatusCode::OK, value)
}

pub fn text(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
