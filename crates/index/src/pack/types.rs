//! Routes that read and change entity types.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::TypeSpec;
use windlass_core::entity::TextField;
use windlass_pack::fields::Fields;
use windlass_pack::shape::or_null;
use windlass_pack::view::ListView;
use windlass_pack::{Answer, Call, Method, Problem, Route, SMALL_BODY, Schemas, Scope, Shape, ok};

use super::view::TypeView;
use super::{IndexContext, route};

struct TypeBody;

impl Shape for TypeBody {
    fn schema(_: &mut Schemas) -> Value {
        let strategy = or_null(json!({ "type": "string", "enum": ["sync", "async", "batch"] }));
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "text": {
                    "type": "array",
                    "description": "Fields whose words and meaning are searched; none: every field that is text",
                    "items": { "oneOf": [{ "type": "string", "minLength": 1, "maxLength": 256 }, {
                        "type": "object",
                        "additionalProperties": false,
                        "properties": { "name": { "type": "string", "minLength": 1, "maxLength": 256 }, "weight": { "type": ["integer", "null"], "minimum": 1, "maximum": 10 } },
                        "required": ["name"],
                    }] },
                },
                "strategy": strategy, "on_create": strategy, "on_update": strategy, "on_delete": strategy,
            },
        })
    }
}

pub(super) fn routes(context: &IndexContext) -> Vec<Route> {
    vec![
        route(context, Method::GET, "/v1/types", "list_types", "Every entity type", list)
            .needs(Scope::Read)
            .json::<ListView<TypeView>>(200, "The types, by name"),
        route(context, Method::GET, "/v1/types/{type}", "get_type", "One entity type", get)
            .needs(Scope::Read)
            .path_example("type", "product")
            .path("type", "Name of the type")
            .json::<TypeView>(200, "The type"),
        route(
            context,
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
        .body::<TypeBody>(SMALL_BODY)
        .json::<TypeView>(200, "The type as it is now"),
    ]
}

async fn list(context: IndexContext, _: Call) -> Answer {
    let types = context.entities()?.types().await?;
    ok(&ListView::whole(types.iter().map(|spec| TypeView::from(spec.as_ref())).collect()))
}

async fn get(context: IndexContext, call: Call) -> Answer {
    ok(&TypeView::from(context.entities()?.type_named(call.path("type")).await?.as_ref()))
}

async fn put(context: IndexContext, call: Call) -> Answer {
    let mut fields = call.object()?;
    let mut spec = TypeSpec::named(call.path("type"));
    spec.text = texts(&mut fields);
    spec.strategy = fields.parsed("strategy", str::parse);
    spec.on_create = fields.parsed("on_create", str::parse);
    spec.on_update = fields.parsed("on_update", str::parse);
    spec.on_delete = fields.parsed("on_delete", str::parse);
    let mut invalid = fields.end().err().unwrap_or_default();
    if let Err(wrong) = spec.check() {
        invalid = invalid.and(wrong);
    }
    invalid.into_result().map_err(Problem::invalid)?;
    ok(&TypeView::from(context.entities()?.put_type(spec, Some(call.actor())).await?.as_ref()))
}

/// `["title", {"name": "text", "weight": 2}]`.
fn texts(fields: &mut Fields<'_>) -> Vec<TextField> {
    let Some(raw) = fields.raw("text") else { return Vec::new() };
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        fields.refuse("text", "must be a list of names or {\"name\", \"weight\"} objects");
        return Vec::new();
    };
    // An unreadable element stays in the list, so that the numbers in later problems are right.
    let texts = list.into_iter().enumerate();
    texts.map(|(n, raw)| text(fields, &format!("text[{n}]"), raw, n)).collect()
}

/// An unreadable element gets a unique name that breaks no rule, so that it causes only one problem.
fn text(fields: &mut Fields<'_>, at: &str, raw: &RawValue, n: usize) -> TextField {
    let unread = || format!("\u{1}{n}");
    if let Ok(name) = serde_json::from_str::<String>(raw.get()) {
        return TextField { name, weight: 1 };
    }
    let Ok(mut field) = Fields::read(raw.get().as_bytes(), "") else {
        fields.refuse(at, "must be a name or an object with name and weight");
        return TextField { name: unread(), weight: 1 };
    };
    let name = field.required_text("name");
    let name = if field.is_refused("name") { unread() } else { name };
    let weight = field.integer("weight").unwrap_or(1);
    for problem in field.end().err().unwrap_or_default().problems {
        fields.refuse(&format!("{at}.{}", problem.field), problem.rule);
    }
    // 0 is refused by the check of weights.
    TextField { name, weight: u32::try_from(weight).unwrap_or(0) }
}
