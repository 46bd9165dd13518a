//! The OpenAPI 3.1 document, generated from the table of routes.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::http::Method;
use serde_json::{Map, Value, json};
use windlass_pack::{Answered, Assembly, Parameter, Place, Route, Schemas, Scope, text};

use crate::view::FieldError;

/// The document that a server with these parts serves at `/openapi.json`, byte for byte. Needs neither server nor
/// database.
pub fn document(assembly: &mut Assembly) -> String {
    let mut routes = crate::interface::table(&None, assembly);
    let document = add(&mut routes);
    String::from_utf8_lossy(&document).into_owned()
}

/// Adds the route that serves the document and returns the document, which lists that route too.
pub(crate) fn add(routes: &mut Vec<Route>) -> Bytes {
    let document = Arc::new(OnceLock::<Bytes>::new());
    let served = document.clone();
    let handler = move |_| {
        let document = served.get().cloned().unwrap_or_default();
        async move { Ok(text("application/json", document)) }
    };
    routes.push(
        Route::new(Method::GET, "/openapi.json", "openapi", "This document", handler)
            .needs(Scope::Read)
            .answers(200, "The document", Answered::Media("application/json")),
    );
    document.get_or_init(|| Bytes::from(describe(routes).to_string())).clone()
}

pub(crate) fn describe(routes: &[Route]) -> Value {
    let mut schemas = Schemas::default();
    problem(&mut schemas);
    let mut paths = Map::new();
    for route in routes {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[route.method.as_str().to_ascii_lowercase()] = operation(route, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable work engine. Ids are strings, times RFC 3339, lists {items, next_cursor}, errors \
                            application/problem+json with a stable `code`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas.into_named() },
    })
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for (status, about, what) in &route.answers {
        let content = match what {
            Answered::Json(schema) => json!({ "application/json": { "schema": schema(schemas) } }),
            Answered::Media(media) => json!({ *media: {} }),
            Answered::Nothing => Value::Null,
        };
        let mut answer = json!({ "description": about });
        if !content.is_null() {
            answer["content"] = content;
        }
        responses.insert(status.to_string(), answer);
    }
    for (status, about) in problems(route) {
        let content = json!({ "schema": { "$ref": "#/components/schemas/Problem" } });
        let answer = json!({ "description": about, "content": { "application/problem+json": content } });
        responses.entry(status.to_string()).or_insert(answer);
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.about,
        "tags": [tag(route.path)],
        "responses": responses,
    });
    if !route.parameters.is_empty() {
        operation["parameters"] = route.parameters.iter().map(|one| parameter(route, one)).collect();
    }
    if let Some(body) = &route.body {
        let mut content = json!({ "schema": (body.schema)(schemas) });
        if let Some(example) = route.example.clone() {
            content["example"] = example;
        }
        let content = json!({ body.media.name(): content });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

/// The problems that a route may answer with: those of every route, those that follow from its description, and its
/// own.
fn problems(route: &Route) -> Vec<(u16, &'static str)> {
    let mut all = vec![
        (400, "A parameter or a header breaks a rule, or the request can be read in two ways"),
        (403, "The host, the origin or the caller is not let in"),
        (405, "The method is not served here"),
        (415, "The body has an unsupported type or coding"),
        (500, "The server failed; its log says why"),
        (503, "The database does not answer, or the server is busy; try again"),
    ];
    if route.path.contains('{') {
        all.push((404, "There is no such thing here"));
    }
    if route.body.is_some() {
        all.push((408, "The body took too long"));
        all.push((413, "The body is too large"));
        all.push((422, "The input breaks a rule; nothing was done"));
    }
    if !route.is_read() {
        all.push((409, "Its state does not allow this"));
        all.push((507, "The disk is full; nothing was written"));
    }
    all.extend(&route.problems);
    all.sort_unstable();
    all
}

fn parameter(route: &Route, parameter: &Parameter) -> Value {
    let place = match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
        Place::Header => "header",
    };
    let mut described = json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.place == Place::Path,
        "description": parameter.about,
        "schema": parameter.schema,
    });
    let example = route.path_examples.iter().find(|(name, _)| *name == parameter.name);
    if let (Some((_, example)), Place::Path) = (example, parameter.place) {
        described["example"] = json!(example);
    }
    described
}

/// `/v1/jobs/{id}` belongs to `jobs`; everything outside `/v1` to `server`.
fn tag(path: &str) -> &str {
    path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()).unwrap_or("server")
}

/// The schema of errors, as written by [`crate::problem::Problem`].
fn problem(schemas: &mut Schemas) {
    schemas.object("Problem", "What went wrong (RFC 9457).", |problem| {
        problem.required::<String>("type", "");
        problem.required::<String>("title", "");
        problem.required::<u16>("status", "");
        problem.required::<String>("code", "Stable, for programs");
        problem.required::<String>("detail", "For people");
        problem.absent_if_empty::<Vec<FieldError>>("errors", "Every rule the input breaks, the first 100");
    });
}
