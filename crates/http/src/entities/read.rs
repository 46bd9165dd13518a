//! Reading entities: one, a page, its boxes, those like it.

use axum::http::{HeaderValue, Method};
use serde_json::json;
use windlass_core::store::{EntityRecord, JobFilter, Page};
use windlass_core::{EntityRef, Invalid, JobState};

use super::{Desk, route};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route, ok};
use crate::view::{EntityFull, SearchView};
use crate::view::{JobView, ListView};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1_000;
const HISTORY: u32 = 200;

pub(super) fn routes(desk: &Desk) -> Vec<Route> {
    let limit = || json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT });
    vec![
        route(desk, Method::GET, "/v1/entities/{type}", "list_entities", "Entities of a type, by id", list)
            .path("type", "Type of the entities")
            .query("cursor", "The `next_cursor` of the page before", json!({ "type": "string" }))
            .query("limit", "Most entities on a page", limit())
            .json::<ListView<EntityFull>>(200, "A page of entities"),
        route(
            desk,
            Method::GET,
            "/v1/entities/{type}/{id}",
            "get_entity",
            "One entity and how far its indexing is",
            get,
        )
        .path("type", "Type of the entity")
        .path("id", "Id of the entity")
        .json::<EntityFull>(200, "The entity; its version is the ETag"),
        route(
            desk,
            Method::GET,
            "/v1/entities/{type}/{id}/history",
            "get_entity_history",
            "Its boxes, newest first",
            history,
        )
        .path("type", "Type of the entity")
        .path("id", "Id of the entity")
        .json::<ListView<JobView>>(200, "Jobs about this entity that are still kept"),
        route(
            desk,
            Method::GET,
            "/v1/entities/{type}/{id}/similar",
            "get_similar",
            "Entities like this one",
            similar,
        )
        .path("type", "Type of the entity")
        .path("id", "Id of the entity")
        .query(
            "limit",
            "Most hits",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 10 }),
        )
        .json::<SearchView>(200, "The most alike first"),
    ]
}

fn limit(call: &Call, default: u32) -> Result<u32, Problem> {
    match call.query("limit").map(str::parse::<u32>) {
        None => Ok(default),
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::parameter(Invalid::one("limit", format!("must be 1 to {MAX_LIMIT}")))),
    }
}

async fn list(desk: Desk, call: Call) -> Answer {
    let (entity_type, limit) = (call.path("type"), limit(&call, DEFAULT_LIMIT)?);
    let mut records = desk.entities.list(entity_type, call.query("cursor"), limit + 1).await?;
    let more = records.len() > limit as usize;
    records.truncate(limit as usize);
    let next_cursor = records.last().filter(|_| more).map(|record| record.id.clone());
    let items = records.into_iter().map(|record| EntityFull::new(record, entity_type, false)).collect();
    ok(&ListView { items, next_cursor })
}

async fn get(desk: Desk, call: Call) -> Answer {
    let record = desk.entities.get(call.path("type"), call.path("id")).await?;
    let running = is_running(&desk, &record).await?;
    let tag = HeaderValue::from_str(&format!("\"{}\"", record.version));
    let mut response = ok(&EntityFull::new(record, call.path("type"), running))?;
    if let Ok(tag) = tag {
        response.headers_mut().insert("etag", tag);
    }
    Ok(response)
}

async fn is_running(desk: &Desk, record: &EntityRecord) -> Result<bool, Problem> {
    let Some(job) = record.job.filter(|_| record.state == windlass_core::entity::IndexState::Pending) else {
        return Ok(false);
    };
    let detail = desk.client.store().job(job).await?;
    Ok(detail.is_some_and(|detail| detail.job.state == JobState::Running))
}

async fn history(desk: Desk, call: Call) -> Answer {
    let (entity_type, entity_id) = (call.path("type").to_owned(), call.path("id").to_owned());
    desk.entities.type_named(&entity_type).await?;
    let filter = JobFilter { entity: Some(EntityRef { entity_type, entity_id }), ..JobFilter::default() };
    let jobs = desk.client.store().list(&filter, &Page { before: None, limit: HISTORY }).await?;
    ok(&ListView::whole(jobs.iter().map(JobView::from).collect()))
}

async fn similar(desk: Desk, call: Call) -> Answer {
    let limit = limit(&call, 10)? as usize;
    let answer = desk.entities.similar(call.path("type"), call.path("id"), limit).await?;
    ok(&SearchView::from(answer))
}
