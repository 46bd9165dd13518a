//! `entities get|put|patch|delete|status|history|list`.

use std::io::Read;

use serde_json::Value;
use windlass_core::input::MAX_PAYLOAD_BYTES;
use windlass_pack::Method;
use windlass_pack::api::{ApiError, ApiRequest};
use windlass_pack::page::Column;
use windlass_pack::verb::{Arg, Goes, Verb, VerbCall, VerbError};

use super::{ID, TYPE};

/// Codes of answers that refuse the fields.
const WRONG: [&str; 3] = ["invalid_input", "invalid_parameter", "malformed_json"];

const ONE: &str = "/v1/entities/{type}/{id}";

const EXAMPLES: &str = "Examples:
  windlass entities put product p1 '{\"name\": \"Copper kettle\", \"price\": 40}' --wait 10
  windlass entities patch product p1 '{\"price\": 35}'
  windlass entities status product p1
  windlass entities history product p1
  windlass entities delete product p1";

pub(super) fn verbs() -> Vec<Verb> {
    let status = [
        Column::text("type", "type"),
        Column::text("id", "id"),
        Column::number("version", "version"),
        Column::text("status", "status"),
        Column::number("indexed_version", "indexed version"),
        Column::text("why", "why"),
        Column::text("job_id", "job"),
        Column::time("updated_at", "written"),
    ];
    let jobs = [
        Column::text("id", "job"),
        Column::text("kind", "kind"),
        Column::text("state", "state"),
        Column::number("attempt", "attempt"),
        Column::time("created_at", "created"),
        Column::time("finished_at", "finished"),
        Column::text("last_error", "error"),
    ];
    let fields = "The fields as JSON, @FILE, or - for standard input";
    let written = |verb: Verb| {
        verb.arg(TYPE)
            .arg(ID)
            .arg(Arg::positional("FIELDS", fields, Goes::Code))
            .arg(Arg::option("strategy", "sync, async or batch; the type decides when not said", Goes::Code))
            .arg(Arg::option("if-version", "Write only if this is its version", Goes::Code).value("N"))
            .arg(Arg::option("wait", "Return when it is indexed, or after this many seconds", Goes::Code))
    };
    vec![
        Verb::call("entities", "list", "The entities of a type, by id", Method::GET, "/v1/entities/{type}")
            .of("Entities: look at one, write it, see how far its indexing is")
            .arg(TYPE)
            .arg(Arg::option("limit", "Most entities on a page [default: 50]", Goes::Query).value("N"))
            .arg(Arg::option("cursor", "The next_cursor of the page before", Goes::Query))
            .columns(&status)
            .empty("there is none of this type")
            .examples(EXAMPLES),
        Verb::run("entities", "get", "One entity with its fields", get).arg(TYPE).arg(ID),
        written(Verb::run("entities", "put", "Save an entity as it is given", put)),
        written(Verb::run("entities", "patch", "Change the given fields; null removes one", patch)),
        Verb::run("entities", "delete", "Delete an entity: it is gone from the next search on", delete)
            .arg(TYPE)
            .arg(ID)
            .arg(Arg::option("if-version", "Delete only if this is its version", Goes::Code).value("N")),
        Verb::call("entities", "status", "How far an entity's indexing is, and why", Method::GET, ONE)
            .arg(TYPE)
            .arg(ID)
            .columns(&status),
        Verb::call(
            "entities",
            "history",
            "The jobs that indexed it, newest first",
            Method::GET,
            "/v1/entities/{type}/{id}/history",
        )
        .arg(TYPE)
        .arg(ID)
        .columns(&jobs)
        .empty("no job about it is kept"),
    ]
}

fn one(call: &VerbCall, method: Method) -> ApiRequest {
    let holes = [call.get("TYPE").unwrap_or_default(), call.get("ID").unwrap_or_default()];
    ApiRequest::new(method, ONE, &holes)
        .header("if-match", call.get("if-version").map(|version| format!("\"{version}\"")))
}

async fn get(call: VerbCall) -> Result<(), VerbError> {
    let answer = call.ask("cannot show the entity", one(&call, Method::GET)).await?;
    call.console.json(if call.json { &answer } else { &answer["fields"] })
}

async fn put(call: VerbCall) -> Result<(), VerbError> {
    write(call, Method::PUT).await
}

async fn patch(call: VerbCall) -> Result<(), VerbError> {
    write(call, Method::PATCH).await
}

async fn delete(call: VerbCall) -> Result<(), VerbError> {
    let answer = call.ask("cannot delete the entity", one(&call, Method::DELETE)).await?;
    tell(&call, &answer)
}

async fn write(call: VerbCall, method: Method) -> Result<(), VerbError> {
    let what = "cannot write the entity";
    let said = call.get("FIELDS").unwrap_or_default();
    let typed = said != "-" && !said.starts_with('@');
    let fields = fields(said).map_err(|error| VerbError::new(what, format!("FIELDS: {error}")))?;
    let request = one(&call, method)
        .query("strategy", call.get("strategy"))
        .header("prefer", call.get("wait").map(|seconds| format!("wait={seconds}")))
        .raw_json(fields);
    // With `--wait`, run a worker here: no other process may be there to index the entity.
    let working = match (call.get("wait"), &call.work) {
        (Some(_), Some(work)) => Some(work().await?),
        _ => None,
    };
    let answer = call.api.call(request).await;
    if let Some(working) = working {
        working.stop().await?;
    }
    let answer = answer.map_err(|error| {
        // Bad fields on the command line are a usage error (exit code 2); bad fields in a file are not.
        let wrong = matches!(&error, ApiError::Refused { code, .. } if WRONG.contains(&code.as_str()));
        let told = VerbError::of(what, error);
        if typed && wrong { VerbError { code: 2, ..told } } else { told }
    });
    tell(&call, &answer?)
}

fn fields(said: &str) -> Result<Vec<u8>, std::io::Error> {
    let mut text = Vec::new();
    match (said, said.strip_prefix('@')) {
        ("-", _) => {
            std::io::stdin().take(2 * MAX_PAYLOAD_BYTES as u64).read_to_end(&mut text)?;
            Ok(text)
        }
        (_, Some(file)) => std::fs::read(file),
        (said, None) => Ok(said.as_bytes().to_vec()),
    }
}

fn tell(call: &VerbCall, answer: &Value) -> Result<(), VerbError> {
    if call.json {
        return call.console.json(answer);
    }
    let text = |field: &str| answer[field].as_str().unwrap_or_default();
    let mut line = format!("{} is at version {}, {}", text("entity_id"), answer["version"], text("status"));
    if let Some(job) = answer["job_id"].as_str() {
        line.push_str(&format!("; job {job} embeds it"));
    }
    call.console.line(&line)
}
