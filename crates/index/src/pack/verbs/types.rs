//! `types list|show`.

use serde_json::Value;
use windlass_core::TypeSpec;
use windlass_core::entity::{Operation, Strategy, resolve};
use windlass_pack::api::ApiRequest;
use windlass_pack::verb::{Arg, Goes, Verb, VerbCall, VerbError};

const EXAMPLES: &str = "Examples:
  windlass types
  windlass types show document --json";

pub(super) fn verbs() -> Vec<Verb> {
    let name = Arg::positional("TYPE", "Name of the type", Goes::Path);
    vec![
        Verb::run("types", "list", "Every entity type", list)
            .of("Entity types: which fields are searched, and how writes are indexed")
            .examples(EXAMPLES),
        Verb::run("types", "show", "One type, and which strategy applies to what", show).arg(name),
    ]
}

async fn list(call: VerbCall) -> Result<(), VerbError> {
    let answer = call.ask("cannot list types", ApiRequest::get("/v1/types", &[])).await?;
    if call.json {
        return call.console.json(&answer);
    }
    let items = answer["items"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |item: &Value| {
        let resolved = |operation: &str| text(&item["resolved"][operation]);
        let texts = texts(item);
        vec![text(&item["name"]), texts, resolved("create"), resolved("update"), resolved("delete")]
    };
    let titles = ["type", "text fields", "create", "update", "delete"];
    call.console.table(&titles, items.iter().map(row).collect())
}

async fn show(call: VerbCall) -> Result<(), VerbError> {
    let name = call.get("TYPE").unwrap_or_default();
    let answer = call.ask("cannot show the type", ApiRequest::get("/v1/types/{type}", &[name])).await?;
    if call.json {
        return call.console.json(&answer);
    }
    call.console.line(&format!("type {}", text(&answer["name"])))?;
    call.console.line(&format!("  text fields    {}", texts(&answer)))?;
    for (operation, strategy, because) in explained(&answer, None) {
        call.console.line(&format!("  {operation:<14} {strategy} ({because})"))?;
    }
    Ok(())
}

/// For each operation its strategy and the reason.
pub(super) fn explained(
    answer: &Value,
    asked: Option<Strategy>,
) -> Vec<(&'static str, &'static str, &'static str)> {
    let strategy = |field: &str| answer[field].as_str().and_then(|word| word.parse().ok());
    let spec = TypeSpec {
        strategy: strategy("strategy"),
        on_create: strategy("on_create"),
        on_update: strategy("on_update"),
        on_delete: strategy("on_delete"),
        ..TypeSpec::named(answer["name"].as_str().unwrap_or_default())
    };
    let each = [Operation::Create, Operation::Update, Operation::Delete];
    let one = |operation: Operation| {
        let resolved = resolve(asked, operation, &spec);
        (operation.name(), resolved.strategy.name(), resolved.because)
    };
    each.map(one).to_vec()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(item: &Value) -> String {
    let fields = item["text"].as_array().map_or(&[][..], Vec::as_slice);
    if fields.is_empty() {
        return "every field that is text".to_owned();
    }
    let field = |field: &Value| match field["weight"].as_u64() {
        None | Some(1) => text(&field["name"]),
        Some(weight) => format!("{} ×{weight}", text(&field["name"])),
    };
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}
