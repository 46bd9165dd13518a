//! Many entities at once, a line each.

use axum::http::Method;
use serde_json::json;
use windlass_core::Invalid;
use windlass_core::entity::Change;
use windlass_core::input::MAX_BATCH;
use windlass_index::{EntityError, SaveRequest};

use super::write::read_options;
use super::{Desk, route};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route, ok};
use crate::routes::idempotency_key;
use crate::view::FieldError;
use crate::view::{BulkAnswer, LineRefused};

const BODY: usize = 64 << 20;
const CHUNK: usize = 1_000;
const REFUSALS_SHOWN: usize = 100;

pub(super) fn routes(desk: &Option<Desk>) -> Vec<Route> {
    let about = "Save many entities: NDJSON, one {\"id\", …fields} a line; a refused line leaves the others";
    vec![
        route(desk, Method::POST, "/v1/entities/{type}/bulk", "save_entities", about, save)
            .path("type", "Type of the entities")
            .query(
                "strategy",
                "sync, async or batch; the type decides when it is not said",
                json!({ "type": "string" }),
            )
            .query("priority", "0 is most urgent, 10 least", json!({ "type": "integer" }))
            .query(
                "delay",
                "Embed them not before this long from now, such as 5m",
                json!({ "type": "string" }),
            )
            .query("max_attempts", "All runs of a box, the first included", json!({ "type": "integer" }))
            .lines(BODY)
            .json::<BulkAnswer>(200, "How many were saved, and the lines that were not"),
    ]
}

async fn save(desk: Desk, call: Call) -> Answer {
    let entity_type = call.path("type");
    if idempotency_key(&call)?.is_some() {
        let rule = "is for a single entity; lines with an id may be sent again as they are";
        return Err(Problem::parameter(Invalid::one("Idempotency-Key", rule)));
    }
    desk.entities.type_named(entity_type).await?;
    let mut template = SaveRequest::new(entity_type, "", Change::Delete);
    read_options(&call, &mut template)?;
    let lines = call.body().split(|byte| *byte == b'\n');
    let lines = (1u64..).zip(lines).filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut answer = BulkAnswer { accepted: 0, refused: 0, refusals: Vec::new() };
    let mut chunk: Vec<(u64, SaveRequest)> = Vec::with_capacity(CHUNK);
    let mut count = 0;
    for (number, line) in lines {
        count += 1;
        if count > 10 * MAX_BATCH {
            let rule = format!("has more than {} lines; send the rest in another call", 10 * MAX_BATCH);
            refuse(&mut answer, number, Invalid::one("body", rule));
            break;
        }
        match SaveRequest::from_line(line, &template) {
            Ok(request) => chunk.push((number, request)),
            Err(invalid) => refuse(&mut answer, number, invalid),
        }
        if chunk.len() == CHUNK {
            write(&desk, std::mem::take(&mut chunk), &mut answer).await?;
        }
    }
    write(&desk, chunk, &mut answer).await?;
    answer.refusals.sort_by_key(|refusal| refusal.line);
    ok(&answer)
}

/// A store that fails ends the call; what was written before stays, and the client may send everything again.
async fn write(desk: &Desk, chunk: Vec<(u64, SaveRequest)>, answer: &mut BulkAnswer) -> Result<(), Problem> {
    if chunk.is_empty() {
        return Ok(());
    }
    let (numbers, requests): (Vec<u64>, Vec<SaveRequest>) = chunk.into_iter().unzip();
    for (number, saved) in numbers.into_iter().zip(desk.entities.save_many(requests).await?) {
        match saved {
            Ok(_) => answer.accepted += 1,
            Err(EntityError::Invalid(invalid)) => refuse(answer, number, invalid),
            Err(error) => refuse(answer, number, Invalid::one("line", error.to_string())),
        }
    }
    Ok(())
}

fn refuse(answer: &mut BulkAnswer, line: u64, invalid: Invalid) {
    answer.refused += 1;
    if answer.refusals.len() < REFUSALS_SHOWN {
        let error = |problem: windlass_core::Problem| FieldError { field: problem.field, rule: problem.rule };
        answer.refusals.push(LineRefused { line, errors: invalid.problems.into_iter().map(error).collect() });
    }
}
