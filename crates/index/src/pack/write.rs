//! Routes that write one entity.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::entity::{Change, Expected, Fields, IndexState, Operation, Strategy};
use windlass_core::input::{MAX_ATTEMPTS, MAX_PAYLOAD_BYTES, shown};
use windlass_core::queue::MAX_PRIORITY;
use windlass_core::store::Written;
use windlass_core::{Invalid, duration};
use windlass_engine::Waited;
use windlass_pack::shape::span;
use windlass_pack::view::Id;
use windlass_pack::{
    Answer, Call, Method, Problem, Route, Schemas, Scope, Shape, StatusCode, json as answer,
};

use super::read::tagged;
use super::view::WrittenView;
use super::{IndexContext, route};
use crate::{EntityError, SaveRequest};

/// Most bytes of a request: the largest entity and some white space.
const BODY: usize = MAX_PAYLOAD_BYTES + 64 * 1024;

const KEY: &str = "A repeated request with the same key returns the first answer and writes nothing; a different \
                   request with the key is 422. A refused request does not use up its key";

struct AnyFields;

impl Shape for AnyFields {
    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": "object", "description": "Any fields; the type decides which are searched" })
    }
}

pub(super) fn routes(context: &IndexContext) -> Vec<Route> {
    let one = "/v1/entities/{type}/{id}";
    vec![
        options(
            route(
                context,
                Method::POST,
                "/v1/entities/{type}",
                "create_entity",
                "Save a new entity under a generated id",
                create,
            )
            .needs(Scope::Write)
            .example(json!({ "title": "Tea towel", "text": "Dries cups and hands", "price": 7 }))
            .path_example("type", "document"),
        )
        .body::<AnyFields>(BODY),
        options(
            route(context, Method::PUT, one, "put_entity", "Save an entity as it is given", put)
                .needs(Scope::Write)
                .example(json!({ "title": "Copper kettle", "text": "Boils water on any stove", "price": 40 }))
                .path_example("type", "document")
                .path_example("id", "kettle"),
        )
        .path("id", "Id of the entity, any text of at most 512 bytes")
        .header_of("If-Match", "Write only if this is its version", version())
        .header_of(
            "If-None-Match",
            "`*`: write only if there is none; not with If-Match",
            json!({ "const": "*" }),
        )
        .body::<AnyFields>(BODY),
        options(
            route(
                context,
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
        .header_of("If-Match", "Write only if this is its version", version())
        .body::<AnyFields>(BODY),
        route(
            context,
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
        .header_of("If-Match", "Delete only if this is its version", version())
        .header_of("Idempotency-Key", KEY, json!({ "type": "string", "minLength": 1, "maxLength": 256 }))
        .problem(412, "Its version is another one")
        .problem(422, "The idempotency key was used for another request")
        .json::<WrittenView>(200, "It is gone"),
    ]
}

fn version() -> Value {
    json!({ "type": "string", "pattern": "^(\"[0-9]{1,18}\"|[0-9]{1,18})$", "examples": ["\"7\""] })
}

/// How and when written entities are indexed.
pub(super) fn indexing(route: Route) -> Route {
    let strategy = json!({ "type": "string", "enum": Strategy::ALL.map(Strategy::name) });
    let priority = json!({ "type": "integer", "minimum": 0, "maximum": MAX_PRIORITY });
    let attempts = json!({ "type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS });
    route
        .query("strategy", "The type decides when it is not said", strategy)
        .query("priority", "0 is most urgent, 10 least", priority)
        .query("delay", "Embed not before this long from now, such as 5m", span())
        .query("max_attempts", "All runs of an indexing job, the first included", attempts)
}

/// Parameters and answers of every write.
fn options(route: Route) -> Route {
    indexing(route.reports_all_mistakes().path("type", "Type of the entity"))
        .problem(412, "Its version is another one")
        .header_of("Idempotency-Key", KEY, json!({ "type": "string", "minLength": 1, "maxLength": 256 }))
        .header("Prefer", "`wait=N`: answer when it is indexed, or after N (at most 60) seconds")
        .json::<WrittenView>(200, "Updated and indexed")
        .json::<WrittenView>(201, "Created and indexed")
        .json::<WrittenView>(202, "Saved; its indexing job is queued")
}

async fn create(context: IndexContext, call: Call) -> Answer {
    let (fields, mut body) = fields(&call)?;
    if fields.contains_key("id") {
        body.add("id", "is generated; PUT /v1/entities/{type}/{id} saves under an id of yours");
    }
    let request = SaveRequest { id: None, ..SaveRequest::new(call.path("type"), "", Change::Put(fields)) };
    save(context, call, request, body).await
}

async fn put(context: IndexContext, call: Call) -> Answer {
    let (fields, body) = named(&call)?;
    let request = SaveRequest::new(call.path("type"), call.path("id"), Change::Put(fields));
    save(context, call, request, body).await
}

async fn patch(context: IndexContext, call: Call) -> Answer {
    let (fields, body) = named(&call)?;
    let request = SaveRequest::new(call.path("type"), call.path("id"), Change::Patch(fields));
    save(context, call, request, body).await
}

async fn delete(context: IndexContext, call: Call) -> Answer {
    let mut request = SaveRequest::new(call.path("type"), call.path("id"), Change::Delete);
    let mut wrong = Invalid::default();
    request.expected = taken(expected(&call), &mut wrong);
    request.idempotency_key = taken(key(&call), &mut wrong);
    wrong.into_result().map_err(Problem::parameter)?;
    let written = context.entities()?.save(request).await?;
    answer(StatusCode::OK, &view(&written))
}

/// Reads the body. The id is in the path; an id in the body must be the same.
fn named(call: &Call) -> Result<(Fields, Invalid), Problem> {
    let (mut fields, mut invalid) = fields(call)?;
    if fields.shift_remove("id").is_some_and(|id| id != call.path("id")) {
        invalid.add("id", format!("must be the path's, `{}`, or be left out", shown(call.path("id"))));
    }
    Ok((fields, invalid))
}

/// The fields of the body, and what is wrong with the body.
fn fields(call: &Call) -> Result<(Fields, Invalid), Problem> {
    match serde_json::from_slice::<Value>(call.body()) {
        Ok(Value::Object(fields)) => Ok((fields, Invalid::default())),
        Ok(_) => Ok((Fields::default(), Invalid::one("body", "must be an object"))),
        Err(error) => Err(Problem::syntax(&error)),
    }
}

/// The value, or the default after adding its problems to `wrong`.
pub(super) fn taken<T: Default>(said: Result<T, Invalid>, wrong: &mut Invalid) -> T {
    said.unwrap_or_else(|invalid| {
        wrong.problems.extend(invalid.problems);
        T::default()
    })
}

/// `body`: problems found in the body.
async fn save(context: IndexContext, call: Call, mut request: SaveRequest, body: Invalid) -> Answer {
    let mut wrong = call.wrong();
    let patience = taken(call.read_wait(), &mut wrong);
    request.expected = taken(expected(&call), &mut wrong);
    request.idempotency_key = taken(key(&call), &mut wrong);
    taken(read_options(&call, &mut request), &mut wrong);
    if !wrong.problems.is_empty() || !body.problems.is_empty() {
        let rules = context.entities()?.problems(&request).await;
        Problem::both(wrong, body.and(rules))?;
    }
    let key = request.idempotency_key.clone();
    let mut written = context.entities()?.save(request).await?;
    if let Some(patience) = patience
        && written.state == IndexState::Pending
        && awaited(&context, call.path("type"), &written, patience).await?
    {
        written.state = IndexState::Indexed;
        if let Some(key) = key {
            context.entities()?.replace_response(&key, &written).await?;
        }
    }
    let status = match (written.state, written.operation) {
        (IndexState::Pending, _) => StatusCode::ACCEPTED,
        (_, Operation::Create) => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    tagged(answer(status, &view(&written))?, written.version)
}

/// Waits for the indexing job to end. True if the entity is then indexed.
async fn awaited(
    context: &IndexContext,
    entity_type: &str,
    written: &Written,
    patience: Duration,
) -> Result<bool, Problem> {
    let Some(job) = written.job else { return Ok(false) };
    let Waited::Finished(_) = context.client()?.wait(job, patience).await? else { return Ok(false) };
    match context.entities()?.get(entity_type, &written.id).await {
        Ok(record) => Ok(record.state == IndexState::Indexed),
        // A concurrent delete does not undo the write.
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

/// Reads the query parameters of a write and reports every problem at once.
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
