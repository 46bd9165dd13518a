//! `POST /v1/search`.

use serde_json::{Value, json};
use windlass_pack::fields::Fields;
use windlass_pack::shape::or_null;
use windlass_pack::{Answer, Call, Method, Problem, Route, Schemas, Scope, Shape, ok};

use super::view::SearchView;
use super::{IndexContext, route};
use crate::filter::Filter;
use crate::{EntityError, Mode, SearchRequest};

/// Most bytes of a request: room for a query, a filter and a vector.
const BODY: usize = 256 * 1024;

const FACETS: &str = "Fields whose values are counted, as `outer.inner` inside an object, over every entity that matches the \
    query's words and the filter; in mode vector, or without a query, over all that the filter lets through";

const FILTER: &str = "Which entities may be found. {\"field\": value}: it has this value; a list: any of them; null: it has no \
    such field. {\"field\": {test: operand}} with the tests eq, ne, gt, gte, lt, lte (a number or text), in (a list) and exists \
    (true or false); several tests of one field all hold. {\"all\": [filters]}, {\"any\": [filters]} and {\"not\": filter} \
    combine filters; several keys in one object all hold. A field inside an object is named with dots, as in \
    \"maker.country\". A field that is a list has each of its values. At most 128 conditions, 8 levels deep";

const MODE: &str = "hybrid: words and meaning together; vector: meaning alone; keyword: words alone";

struct SearchBody;

impl Shape for SearchBody {
    fn schema(_: &mut Schemas) -> Value {
        let mut schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "type": { "type": "string", "description": "Search this type" },
                "types": { "type": "array", "items": { "type": "string" }, "description": "Search these types; none: all" },
                "query": { "type": "string", "description": "What to look for, in natural language" },
                "vector": { "type": "array", "items": { "type": "number" }, "description": "Replaces the vector of the query" },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": 1000, "default": 10, "description": "Hits on a page",
                },
                "offset": {
                    "type": "integer", "minimum": 0, "maximum": 10000, "default": 0,
                    "description": "Hits to skip, best first",
                },
                "filter": { "type": "object", "description": FILTER },
                "mode": { "type": "string", "enum": ["hybrid", "vector", "keyword"], "default": "hybrid", "description": MODE },
                "facets": {
                    "type": "array",
                    "items": { "type": "string", "minLength": 1, "maxLength": 256 },
                    "maxItems": 10,
                    "uniqueItems": true,
                    "description": FACETS,
                },
            },
        });
        // A field that is null counts as missing.
        if let Some(fields) = schema["properties"].as_object_mut() {
            fields.values_mut().for_each(|field| *field = or_null(field.take()));
        }
        schema
    }
}

pub(super) fn routes(context: &IndexContext) -> Vec<Route> {
    vec![
        route(context, Method::POST, "/v1/search", "search", "Search entities by words and meaning", search).needs(Scope::Read).example(json!({
                "type": "document",
                "query": "something to make tea with",
                "filter": { "any": [{ "price": { "gte": 10, "lt": 50 } }, { "maker.country": { "in": ["Japan", "India"] } }] },
                "facets": ["price"],
                "limit": 5,
            }))
            .body::<SearchBody>(BODY)
            .json::<SearchView>(200, "The best hits first"),
    ]
}

async fn search(context: IndexContext, call: Call) -> Answer {
    let mut fields = call.object()?;
    let mut types = fields.texts("types");
    types.extend(fields.text("type"));
    let query = fields.text("query");
    let vector = fields.numbers("vector");
    let (limit, offset) = (count(&mut fields, "limit", 10), count(&mut fields, "offset", 0));
    let mode = fields.parsed("mode", mode).unwrap_or_default();
    let facets = fields.texts("facets");
    let filter = fields.raw("filter").filter(|raw| raw.get() != "null");
    let mut invalid = fields.end().err().unwrap_or_default();
    let filter = filter.and_then(|raw| {
        let json: Value = serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        Filter::parse(&json).map_err(|wrong| invalid.problems.extend(wrong.problems)).ok()
    });
    let request = SearchRequest { types, query, vector, limit, offset, filter, mode, facets };
    if !invalid.problems.is_empty() {
        let rules = context.entities()?.search_problems(&request);
        return Err(Problem::question(invalid.and(rules)));
    }
    match context.entities()?.search(request).await {
        Err(EntityError::Invalid(invalid)) => Err(Problem::question(invalid)),
        answer => ok(&SearchView::from(answer?)),
    }
}

fn count(fields: &mut Fields<'_>, name: &'static str, default: usize) -> usize {
    let Some(number) = fields.integer(name) else { return default };
    usize::try_from(number).unwrap_or_else(|_| {
        fields.refuse(name, format!("must not be negative, not {number}"));
        default
    })
}

fn mode(text: &str) -> Result<Mode, &'static str> {
    match text {
        "hybrid" => Ok(Mode::Hybrid),
        "vector" => Ok(Mode::Vector),
        "keyword" => Ok(Mode::Keyword),
        _ => Err("must be hybrid, vector or keyword"),
    }
}
