//! Entity types at run time.

use axum::http::Method;
use serde_json::{Value, json};
use windlass_core::entity::TextField;
use windlass_core::{Invalid, TypeSpec};

use super::{Desk, route};
use crate::call::Call;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::route::{Answer, Route, SMALL_BODY, ok};
use crate::routes::read_object;
use crate::shape::{Schemas, Shape};
use crate::view::ListView;
use crate::view::TypeView;

struct TypeOf;

impl Shape for TypeOf {
    fn schema(_: &mut Schemas) -> Value {
        let strategy = json!({ "type": "string", "enum": ["sync", "async", "batch"] });
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "text": {
                    "type": "array",
                    "description": "Fields whose words and meaning are searched; none: every field that is text",
                    "items": { "oneOf": [{ "type": "string" }, {
                        "type": "object",
                        "additionalProperties": false,
                        "properties": { "name": { "type": "string" }, "weight": { "type": "integer", "minimum": 1, "maximum": 10 } },
                        "required": ["name"],
                    }] },
                },
                "strategy": strategy, "on_create": strategy, "on_update": strategy, "on_delete": strategy,
            },
        })
    }
}

pub(super) fn routes(desk: &Option<Desk>) -> Vec<Route> {
    vec![
        route(desk, Method::GET, "/v1/types", "list_types", "Every entity type", list)
            .json::<ListView<TypeView>>(200, "The types, by name"),
        route(desk, Method::GET, "/v1/types/{type}", "get_type", "One entity type", get)
            .path("type", "Name of the type")
            .json::<TypeView>(200, "The type"),
        route(
            desk,
            Method::PUT,
            "/v1/types/{type}",
            "put_type",
            "Add a type, or change how it is indexed",
            put,
        )
        .path("type", "Name of the type: a–z first, then a–z 0–9 _ -")
        .body::<TypeOf>(SMALL_BODY)
        .json::<TypeView>(200, "The type as it is now"),
    ]
}

async fn list(desk: Desk, _: Call) -> Answer {
    let types = desk.entities.types().await?;
    ok(&ListView::whole(types.iter().map(|spec| TypeView::from(spec.as_ref())).collect()))
}

async fn get(desk: Desk, call: Call) -> Answer {
    ok(&TypeView::from(desk.entities.type_named(call.path("type")).await?.as_ref()))
}

async fn put(desk: Desk, call: Call) -> Answer {
    let mut fields = read_object(&call)?;
    let mut spec = TypeSpec::named(call.path("type"));
    spec.text = texts(&mut fields);
    spec.strategy = fields.parsed("strategy", str::parse);
    spec.on_create = fields.parsed("on_create", str::parse);
    spec.on_update = fields.parsed("on_update", str::parse);
    spec.on_delete = fields.parsed("on_delete", str::parse);
    let mut invalid = fields.end().err().unwrap_or_default();
    if let Err(wrong) = spec.check() {
        invalid.problems.extend(wrong.problems);
    }
    invalid.into_result().map_err(Problem::invalid)?;
    ok(&TypeView::from(desk.entities.put_type(spec).await?.as_ref()))
}

/// `["title", {"name": "text", "weight": 2}]`.
fn texts(fields: &mut Fields<'_>) -> Vec<TextField> {
    let Some(raw) = fields.raw("text") else { return Vec::new() };
    let read = || -> Result<Vec<TextField>, Invalid> {
        let wrong = || Invalid::one("text", "must be a list of names or {\"name\", \"weight\"} objects");
        let list: Vec<Value> = serde_json::from_str(raw.get()).map_err(|_| wrong())?;
        let one = |(n, value): (usize, Value)| match value {
            Value::String(name) => Ok(TextField { name, weight: 1 }),
            other => serde_json::from_value(other).map_err(|error| {
                let rule = format!("must be a name or {{\"name\", \"weight\"}}: {error}");
                Invalid::one(format!("text[{n}]"), rule)
            }),
        };
        list.into_iter().enumerate().map(one).collect()
    };
    read().unwrap_or_else(|invalid| {
        for problem in invalid.problems {
            fields.refuse(&problem.field, problem.rule);
        }
        Vec::new()
    })
}
