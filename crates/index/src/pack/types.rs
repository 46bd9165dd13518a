//! Entity types at run time.

use serde_json::{Value, json};
use windlass_core::TypeSpec;
use windlass_core::entity::TextField;
use windlass_pack::fields::Fields;
use windlass_pack::view::ListView;
use windlass_pack::{Answer, Call, Method, Problem, Route, SMALL_BODY, Schemas, Scope, Shape, ok};

use super::view::TypeView;
use super::{Desk, route};

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

pub(super) fn routes(desk: &Desk) -> Vec<Route> {
    vec![
        route(desk, Method::GET, "/v1/types", "list_types", "Every entity type", list)
            .needs(Scope::Read)
            .json::<ListView<TypeView>>(200, "The types, by name"),
        route(desk, Method::GET, "/v1/types/{type}", "get_type", "One entity type", get)
            .needs(Scope::Read)
            .path_example("type", "product")
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
        .needs(Scope::Operate)
        .example(json!({ "text": ["name", { "name": "description", "weight": 2 }], "on_delete": "sync" }))
        .path_example("type", "product")
        .path("type", "Name of the type: a–z first, then a–z 0–9 _ -")
        .body::<TypeOf>(SMALL_BODY)
        .json::<TypeView>(200, "The type as it is now"),
    ]
}

async fn list(desk: Desk, _: Call) -> Answer {
    let types = desk.entities()?.types().await?;
    ok(&ListView::whole(types.iter().map(|spec| TypeView::from(spec.as_ref())).collect()))
}

async fn get(desk: Desk, call: Call) -> Answer {
    ok(&TypeView::from(desk.entities()?.type_named(call.path("type")).await?.as_ref()))
}

async fn put(desk: Desk, call: Call) -> Answer {
    let mut fields = call.object()?;
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
    ok(&TypeView::from(desk.entities()?.put_type(spec, Some(call.actor())).await?.as_ref()))
}

/// `["title", {"name": "text", "weight": 2}]`.
fn texts(fields: &mut Fields<'_>) -> Vec<TextField> {
    let Some(raw) = fields.raw("text") else { return Vec::new() };
    let Ok(list) = serde_json::from_str::<Vec<Value>>(raw.get()) else {
        fields.refuse("text", "must be a list of names or {\"name\", \"weight\"} objects");
        return Vec::new();
    };
    let mut texts = Vec::with_capacity(list.len());
    for (n, value) in list.into_iter().enumerate() {
        match value {
            Value::String(name) => texts.push(TextField { name, weight: 1 }),
            other => match serde_json::from_value(other) {
                Ok(text) => texts.push(text),
                Err(error) => {
                    let rule = format!("must be a name or {{\"name\", \"weight\"}}: {error}");
                    fields.refuse(&format!("text[{n}]"), rule);
                    // It keeps its place, so that the others keep theirs.
                    texts.push(TextField { name: format!("text_{n}"), weight: 1 });
                }
            },
        }
    }
    texts
}
