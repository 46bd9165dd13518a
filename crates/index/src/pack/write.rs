//! Writing one entity.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::entity::{Change, Expected, Fields, IndexState, Operation, Strategy};
use windlass_core::input::{MAX_PAYLOAD_BYTES, shown};
use windlass_core::store::Written;
use windlass_core::{Invalid, duration};
use windlass_engine::Waited;
use windlass_pack::view::Id;
use windlass_pack::{
    Answer, Call, Method, Problem, Route, Schemas, Scope, Shape, StatusCode, json as answer,
};

use super::read::tagged;
use super::view::WrittenView;
use super::{Desk, route};
use crate::{EntityError, SaveRequest};

/// The entity and a little room for blanks.
const BODY: usize = MAX_PAYLOAD_BYTES + 64 * 1024;

const KEY: &str = "The same request with the same key again is answered as the first was, and writes nothing; another \
                   request with it is 422. A refused request takes no key";

struct AnyFields;

impl Shape for AnyFields {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "object", "description": "Any fields; which are searched is the type's word" })
    }
}

pub(super) fn routes(desk: &Desk) -> Vec<Route> {
    let one = "/v1/entities/{type}/{id}";
    vec![
        options(
            route(
                desk,
                Method::POST,
                "/v1/entities/{type}",
                "create_entity",
                "Save a new entity under an id of our making",
                create,
            )
            .needs(Scope::Write)
            .example(json!({ "title": "Tea towel", "text": "Dries cups and hands", "price": 7 }))
            .path_example("type", "document"),
        )
        .body::<AnyFields>(BODY),
        options(
            route(desk, Method::PUT, one, "put_entity", "Save an entity as it is given", put)
                .needs(Scope::Write)
                .example(json!({ "title": "Copper kettle", "text": "Boils water on any stove", "price": 40 }))
                .path_example("type", "document")
                .path_example("id", "kettle"),
        )
        .path("id", "Id of the entity, any text of at most 512 bytes")
        .header("If-Match", "Write only if this is its version")
        .header("If-None-Match", "`*`: write only if there is none")
        .body::<AnyFields>(BODY),
        options(
            route(
                desk,
                Method::PATCH,
                one,
                "patch_entity",
                "Change the given fields; null removes one",
                patch,
            )
            .needs(Scope::Write)
            .example(json!({ "price": 30 }))
            .path_example("type", "document")
            .path_example("id", "kettle"),
        )
        .path("id", "Id of the entity")
        .header("If-Match", "Write only if this is its version")
        .body::<AnyFields>(BODY),
        route(
            desk,
            Method::DELETE,
            one,
            "delete_entity",
            "Delete an entity: it is gone from the next search on",
            delete,
        )
        .needs(Scope::Write)
        .path_example("type", "document")
        .path_example("id", "kettle")
        .path("type", "Type of the entity")
        .path("id", "Id of the entity")
        .header("If-Match", "Delete only if this is its version")
        .header("Idempotency-Key", KEY)
        .json::<WrittenView>(200, "It is gone"),
    ]
}

/// What every write takes and answers.
fn options(route: Route) -> Route {
    let text = || json!({ "type": "string" });
    route
        .looks_at_all()
        .path("type", "Type of the entity")
        .query("strategy", "sync, async or batch; the type decides when it is not said", text())
        .query("priority", "0 is most urgent, 10 least", json!({ "type": "integer" }))
        .query("delay", "Embed it not before this long from now, such as 5m", text())
        .query("max_attempts", "All runs of its box, the first included", json!({ "type": "integer" }))
        .header("Idempotency-Key", KEY)
        .header("Prefer", "`wait=N`: answer when it is indexed, or after N (at most 60) seconds")
        .json::<WrittenView>(200, "Updated and indexed")
        .json::<WrittenView>(201, "Created and indexed")
        .json::<WrittenView>(202, "Saved; its box is queued")
}

async fn create(desk: Desk, call: Call) -> Answer {
    let (fields, mut body) = fields(&call)?;
    if fields.contains_key("id") {
        body.add("id", "is made here; PUT /v1/entities/{type}/{id} saves under an id of yours");
    }
    let request = SaveRequest { id: None, ..SaveRequest::new(call.path("type"), "", Change::Put(fields)) };
    save(desk, call, request, body).await
}

async fn put(desk: Desk, call: Call) -> Answer {
    let (fields, body) = named(&call)?;
    let request = SaveRequest::new(call.path("type"), call.path("id"), Change::Put(fields));
    save(desk, call, request, body).await
}

async fn patch(desk: Desk, call: Call) -> Answer {
    let (fields, body) = named(&call)?;
    let request = SaveRequest::new(call.path("type"), call.path("id"), Change::Patch(fields));
    save(desk, call, request, body).await
}

async fn delete(desk: Desk, call: Call) -> Answer {
    let mut request = SaveRequest::new(call.path("type"), call.path("id"), Change::Delete);
    let mut wrong = Invalid::default();
    request.expected = taken(expected(&call), &mut wrong);
    request.idempotency_key = taken(key(&call), &mut wrong);
    wrong.into_result().map_err(Problem::parameter)?;
    let written = desk.entities()?.save(request).await?;
    answer(StatusCode::OK, &view(&written))
}

/// The id is the path's: in the body it may only say the same.
fn named(call: &Call) -> Result<(Fields, Invalid), Problem> {
    let (mut fields, mut invalid) = fields(call)?;
    if fields.shift_remove("id").is_some_and(|id| id != call.path("id")) {
        invalid.add("id", format!("must be the path's, `{}`, or be left out", shown(call.path("id"))));
    }
    Ok((fields, invalid))
}

/// What could be read, and what could not.
fn fields(call: &Call) -> Result<(Fields, Invalid), Problem> {
    match serde_json::from_slice::<Value>(call.body()) {
        Ok(Value::Object(fields)) => Ok((fields, Invalid::default())),
        Ok(_) => Ok((Fields::default(), Invalid::one("body", "must be an object"))),
        Err(error) => Err(Problem::syntax(&error)),
    }
}

/// What was said, or nothing and what is wrong with it.
pub(super) fn taken<T: Default>(said: Result<T, Invalid>, wrong: &mut Invalid) -> T {
    said.unwrap_or_else(|invalid| {
        wrong.problems.extend(invalid.problems);
        T::default()
    })
}

/// `body`: what was wrong with it.
async fn save(desk: Desk, call: Call, mut request: SaveRequest, body: Invalid) -> Answer {
    let mut wrong = call.wrong();
    let patience = taken(call.read_wait(), &mut wrong);
    request.expected = taken(expected(&call), &mut wrong);
    request.idempotency_key = taken(key(&call), &mut wrong);
    taken(read_options(&call, &mut request), &mut wrong);
    if !wrong.problems.is_empty() || !body.problems.is_empty() {
        let rules = desk.entities()?.problems(&request).await;
        Problem::both(wrong, body.and(rules))?;
    }
    let key = request.idempotency_key.clone();
    let mut written = desk.entities()?.save(request).await?;
    if let Some(patience) = patience
        && written.state == IndexState::Pending
        && awaited(&desk, call.path("type"), &written, patience).await?
    {
        written.state = IndexState::Indexed;
        if let Some(key) = key {
            desk.entities()?.restate(&key, &written).await?;
        }
    }
    let status = match (written.state, written.operation) {
        (IndexState::Pending, _) => StatusCode::ACCEPTED,
        (_, Operation::Create) => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    tagged(answer(status, &view(&written))?, written.version)
}

/// Whether the entity is indexed when its box has ended.
async fn awaited(
    desk: &Desk,
    entity_type: &str,
    written: &Written,
    patience: Duration,
) -> Result<bool, Problem> {
    let Some(job) = written.job else { return Ok(false) };
    let Waited::Finished(_) = desk.client()?.wait(job, patience).await? else { return Ok(false) };
    match desk.entities()?.get(entity_type, &written.id).await {
        Ok(record) => Ok(record.state == IndexState::Indexed),
        // Somebody deleted it meanwhile: that does not undo the write.
        Err(EntityError::Missing { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn view(written: &Written) -> WrittenView {
    WrittenView {
        entity_id: written.id.clone(),
        version: written.version,
        job_id: written.job.map(|job| Id(job.0)),
        strategy: written.strategy.map_or("sync", Strategy::name),
        status: written.state.name(),
    }
}

/// The query parameters of a write, every problem at once.
pub(super) fn read_options(call: &Call, request: &mut SaveRequest) -> Result<(), Invalid> {
    let mut invalid = Invalid::default();
    if let Some(text) = call.query("strategy") {
        match text.parse() {
            Ok(strategy) => request.strategy = Some(strategy),
            Err(rule) => invalid.add("strategy", rule),
        }
    }
    for (name, place) in [("priority", &mut request.priority), ("max_attempts", &mut request.max_attempts)] {
        let Some(text) = call.query(name) else { continue };
        match text.parse() {
            Ok(number) => *place = Some(number),
            Err(_) => invalid.add(name, format!("must be a whole number, not `{}`", shown(text))),
        }
    }
    if let Some(text) = call.query("delay") {
        match duration::parse(text) {
            Ok(delay) => request.delay = Some(delay),
            Err(error) => invalid.add("delay", error.to_string()),
        }
    }
    invalid.into_result()
}

fn key(call: &Call) -> Result<Option<String>, Invalid> {
    let Some(key) = call.read_key()? else { return Ok(None) };
    let mut invalid = Invalid::default();
    invalid.check_key("Idempotency-Key", key);
    invalid.into_result().map(|()| Some(key.to_owned()))
}

fn expected(call: &Call) -> Result<Expected, Invalid> {
    if let Some(text) = call.header("if-none-match") {
        return match (text.trim(), call.header("if-match")) {
            ("*", None) => Ok(Expected::Absent),
            _ => Err(Invalid::one("If-None-Match", "can only be `*`, without If-Match")),
        };
    }
    let Some(text) = call.header("if-match") else { return Ok(Expected::Anything) };
    let version = text.trim().trim_start_matches("W/").trim_matches('"').parse();
    version.map(Expected::Version).map_err(|_| {
        let rule = format!("must be a version such as \"7\", not `{}`", shown(text));
        Invalid::one("If-Match", rule)
    })
}
