//! One route: what it is called, what it takes, what it answers, which scope it needs and who handles it.
//!
//! Owns the description from which the router, the refusal of unknown parameters, the command line's data verbs and the
//! OpenAPI document are made.

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

/// A body that is an action or a filter, not data.
pub const SMALL_BODY: usize = 64 * 1024;

pub struct Route {
    pub method: Method,
    /// `/v1/jobs/{id}`.
    pub path: &'static str,
    /// The operation's id in the document.
    pub name: &'static str,
    pub about: &'static str,
    pub parameters: Vec<Parameter>,
    pub body: Option<BodyOf>,
    pub answers: Vec<(u16, &'static str, Answered)>,
    /// What a caller must be granted. A route without one is refused at start.
    pub scope: Option<Scope>,
    /// A body that works as it stands; lines of JSON are text.
    pub example: Option<Value>,
    /// By the name of the hole.
    pub path_examples: Vec<(&'static str, &'static str)>,
    /// Its handler answers [`Call::wrong`] with its own findings.
    pub looks_at_all: bool,
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

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    /// One JSON value a line.
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

/// What an answer carries.
pub enum Answered {
    Json(SchemaOf),
    /// A media type and nothing more to say about it.
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
            scope: None,
            example: None,
            path_examples: Vec::new(),
            looks_at_all: false,
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

    /// What a caller must be granted to use this route.
    pub fn needs(mut self, scope: Scope) -> Route {
        self.scope = Some(scope);
        self
    }

    /// A body for the documentation; a test sends it.
    pub fn example(mut self, body: Value) -> Route {
        self.example = Some(body);
        self
    }

    /// What the documentation puts into a hole of the path.
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

    /// A body of at most `limit` bytes with a JSON object on each line.
    pub fn lines(mut self, limit: usize) -> Route {
        let schema: SchemaOf = |_| json!({ "type": "string", "description": "One JSON object a line" });
        self.body = Some(BodyOf { limit, schema, media: Media::Lines });
        self
    }

    pub fn answers(mut self, status: u16, about: &'static str, what: Answered) -> Route {
        self.answers.push((status, about, what));
        self
    }

    pub fn json<T: Shape>(self, status: u16, about: &'static str) -> Route {
        self.answers(status, about, Answered::Json(T::schema))
    }

    /// Says that the handler refuses what [`Call::wrong`] holds, with its own findings and before it changes anything. Of a
    /// route that only reads nobody has to say it: its findings are put together for it.
    pub fn looks_at_all(mut self) -> Route {
        self.looks_at_all = true;
        self
    }

    /// Whether the handler may be asked what it finds beside parameters that are wrong: nothing may come of it.
    pub fn answers_together(&self) -> bool {
        self.looks_at_all || matches!(self.scope, Some(Scope::Open | Scope::Read))
    }

    /// The interface refuses what it does not know; a page does not mind.
    pub fn is_strict(&self) -> bool {
        self.path.starts_with("/v1/")
    }
}

/// An answer with `value` as its body.
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
