//! `POST /v1/search`.

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::Invalid;
use windlass_index::filter::Filter;
use windlass_index::{Mode, SearchRequest};

use super::{Desk, route};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route, ok};
use crate::routes::read_object;
use crate::shape::{Schemas, Shape};
use crate::view::SearchView;

/// A query of any length people write, a filter, a vector.
const BODY: usize = 256 * 1024;

struct Question;

impl Shape for Question {
    fn schema(_: &mut Schemas) -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "type": { "type": "string", "description": "Search this type" },
                "types": { "type": "array", "items": { "type": "string" }, "description": "Search these; none: all" },
                "query": { "type": "string" },
                "vector": { "type": "array", "items": { "type": "number" }, "description": "Instead of the query's own" },
                "limit": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 10 },
                "offset": { "type": "integer", "minimum": 0, "maximum": 10000, "default": 0 },
                "filter": { "type": "object", "description": "{\"field\": value}, {\"field\": {\"gte\", \"lt\", \"in\", …}}, all, any, not" },
                "mode": { "type": "string", "enum": ["hybrid", "vector", "keyword"], "default": "hybrid" },
            },
        })
    }
}

pub(super) fn routes(desk: &Desk) -> Vec<Route> {
    vec![
        route(desk, Method::POST, "/v1/search", "search", "Search entities by words and meaning", search)
            .body::<Question>(BODY)
            .json::<SearchView>(200, "The best hits first"),
    ]
}

async fn search(desk: Desk, call: Call) -> Answer {
    let mut fields = read_object(&call)?;
    let mut types = fields.texts("types");
    types.extend(fields.text("type"));
    let query = fields.text("query");
    let vector = fields.numbers("vector");
    let count = |number: Option<i64>, default: usize| match number {
        None => default,
        // Out of range either way; the service names the bounds.
        Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
    };
    let (limit, offset) = (count(fields.integer("limit"), 10), count(fields.integer("offset"), 0));
    let mode = fields.parsed("mode", mode).unwrap_or_default();
    let filter = fields.raw("filter").filter(|raw| raw.get() != "null");
    let mut invalid = fields.end().err().unwrap_or_default();
    let filter = filter.and_then(|raw| {
        let json: Value = serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        Filter::parse(&json).map_err(|wrong| invalid.problems.extend(wrong.problems)).ok()
    });
    invalid.into_result().map_err(Problem::invalid)?;
    let request = SearchRequest { types, query, vector, limit, offset, filter, mode };
    ok(&SearchView::from(desk.entities.search(request).await?))
}

fn mode(text: &str) -> Result<Mode, Invalid> {
    match text {
        "hybrid" => Ok(Mode::Hybrid),
        "vector" => Ok(Mode::Vector),
        "keyword" => Ok(Mode::Keyword),
        _ => Err(Invalid::one("mode", "must be hybrid, vector or keyword")),
    }
}
