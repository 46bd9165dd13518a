//! The route that saves many entities, one per line.

use serde_json::json;
use windlass_core::Invalid;
use windlass_core::entity::Change;
use windlass_core::input::MAX_BATCH;
use windlass_pack::view::FieldError;
use windlass_pack::{Answer, Call, Lines, Method, Problem, Route, Scope, ok};

use super::view::{BulkAnswer, LineRefused};
use super::write::{indexing, read_options, taken};
use super::{IndexContext, route};
use crate::{Entities, EntityError, SaveRequest};

const BODY: usize = 64 << 20;
/// Example body; a test sends it.
const LINES: &str = "{\"id\": \"mug\", \"title\": \"Clay mug\", \"price\": 12}\n{\"id\": \"tray\", \"title\": \"Oak tray\", \"price\": 25}";
/// Lines that are written together: so many, or so many bytes of them.
const CHUNK: usize = 1_000;
const CHUNK_BYTES: usize = 1 << 20;
const REFUSALS_SHOWN: usize = 100;

pub(super) fn routes(context: &IndexContext) -> Vec<Route> {
    let about = "Save many entities: NDJSON, one {\"id\", …fields} a line; a refused line leaves the others";
    vec![
        indexing(
            route(context, Method::POST, "/v1/entities/{type}/bulk", "save_entities", about, save)
                .needs(Scope::Write)
                .reports_all_mistakes()
                .example(json!(LINES))
                .path_example("type", "document")
                .path("type", "Type of the entities"),
        )
        .lines(BODY)
        .json::<BulkAnswer>(200, "How many were saved, and the lines that were not"),
    ]
}

async fn save(context: IndexContext, mut call: Call) -> Answer {
    let entity_type = call.path("type").to_owned();
    let mut wrong = call.wrong();
    if taken(call.read_key(), &mut wrong).is_some() {
        let rule = "is for a single entity; lines with an id may be sent again as they are";
        wrong.add("Idempotency-Key", rule);
    }
    let mut template = SaveRequest::new(&entity_type, "", Change::Delete);
    taken(read_options(&call, &mut template), &mut wrong);
    if !wrong.problems.is_empty() {
        wrong = wrong.and(template.check_options());
    }
    wrong.into_result().map_err(Problem::parameter)?;
    let entities = context.entities()?;
    entities.type_named(&entity_type).await?;
    let mut answer = BulkAnswer { accepted: 0, refused: 0, refusals: Vec::new() };
    match load(entities, call.lines()?, &template, &mut answer).await {
        Ok(()) => {
            answer.refusals.sort_by_key(|refusal| refusal.line);
            ok(&answer)
        }
        // Lines were written as they came.
        Err(problem) if answer.accepted > 0 => Err(problem.noting(&format!(
            "{} lines were saved before that; lines with an id may be sent again",
            answer.accepted
        ))),
        Err(problem) => Err(problem),
    }
}

/// Writes the lines as they arrive, so that only one chunk of them is in memory.
async fn load(
    entities: &Entities,
    mut lines: Lines,
    template: &SaveRequest,
    answer: &mut BulkAnswer,
) -> Result<(), Problem> {
    let mut chunk: Vec<(u64, SaveRequest)> = Vec::new();
    let (mut number, mut count, mut bytes) = (0, 0, 0);
    while let Some(line) = lines.next().await? {
        number += 1;
        if line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()) {
            continue;
        }
        count += 1;
        if count > 10 * MAX_BATCH {
            let rule = format!("has more than {} lines; send the rest in another call", 10 * MAX_BATCH);
            refuse(answer, number, Invalid::one("body", rule));
            lines.skip_rest().await;
            break;
        }
        bytes += line.as_ref().map_or(0, Vec::len);
        match line.and_then(|line| SaveRequest::from_line(&line, template)) {
            Ok(request) => chunk.push((number, request)),
            Err(invalid) => refuse(answer, number, invalid),
        }
        if chunk.len() == CHUNK || bytes >= CHUNK_BYTES {
            write(entities, std::mem::take(&mut chunk), answer).await?;
            bytes = 0;
        }
    }
    write(entities, chunk, answer).await
}

/// A store error ends the call. Earlier chunks stay, and the client may send everything again.
async fn write(
    entities: &Entities,
    chunk: Vec<(u64, SaveRequest)>,
    answer: &mut BulkAnswer,
) -> Result<(), Problem> {
    if chunk.is_empty() {
        return Ok(());
    }
    let (numbers, requests): (Vec<u64>, Vec<SaveRequest>) = chunk.into_iter().unzip();
    for (number, saved) in numbers.into_iter().zip(entities.save_many(requests).await?) {
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
