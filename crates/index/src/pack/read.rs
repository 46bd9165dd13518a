//! Routes that read entities: one, a page, its indexing jobs, similar entities.

use axum::http::HeaderValue;
use axum::response::Response;
use windlass_core::store::{EntityRecord, JobFilter, Page};
use windlass_core::{EntityRef, JobState};
use windlass_pack::paging::{EXCERPT, Paging, limit, limited, paged};
use windlass_pack::view::{JobView, ListView};
use windlass_pack::{Answer, Call, Method, Problem, Route, Scope, ok};

use super::view::{EntityFull, SearchView};
use super::{IndexContext, route};

const SIMILAR: u32 = 10;
const HISTORY: u32 = 200;

pub(super) fn routes(context: &IndexContext) -> Vec<Route> {
    let about = "Entities of a type, by id";
    let list = route(context, Method::GET, "/v1/entities/{type}", "list_entities", about, list)
        .needs(Scope::Read)
        .path_example("type", "document");
    let similar_path = "/v1/entities/{type}/{id}/similar";
    let about = "Entities like this one";
    let similar = route(context, Method::GET, similar_path, "get_similar", about, similar)
        .needs(Scope::Read)
        .path_example("type", "document")
        .path_example("id", "kettle");
    vec![
        paged(list.path("type", "Type of the entities"), "Most entities on a page")
            .json::<ListView<EntityFull>>(200, "A page of entities"),
        route(
            context,
            Method::GET,
            "/v1/entities/{type}/{id}",
            "get_entity",
            "One entity and how far its indexing is",
            get,
        )
        .needs(Scope::Read)
        .path_example("type", "document")
        .path_example("id", "kettle")
        .path("type", "Type of the entity")
        .path("id", "Id of the entity")
        .json::<EntityFull>(200, "The entity; its version is the ETag"),
        route(
            context,
            Method::GET,
            "/v1/entities/{type}/{id}/history",
            "get_entity_history",
            "The jobs that indexed it, newest first",
            history,
        )
        .needs(Scope::Read)
        .path_example("type", "document")
        .path_example("id", "kettle")
        .path("type", "Type of the entity")
        .path("id", "Id of the entity")
        .json::<ListView<JobView>>(200, "Jobs about this entity that are still kept"),
        limited(
            similar.path("type", "Type of the entity").path("id", "Id of the entity"),
            "Most hits",
            SIMILAR,
        )
        .json::<SearchView>(200, "The most alike first"),
    ]
}

async fn list(context: IndexContext, call: Call) -> Answer {
    let entity_type = call.path("type");
    let paging = Paging::read(&call, |text| Some(text.to_owned()))?;
    let (mut page, mut after) = (paging.fill(), paging.cursor);
    loop {
        let wanted = page.wanted();
        let records = context.entities()?.list(entity_type, after.as_deref(), wanted).await?;
        let mut ended = records.len() < wanted as usize;
        for record in records {
            let id = record.id.clone();
            after = Some(id.clone());
            if !page.add(id, &EntityFull::new(record, entity_type, false))? {
                ended = true;
                break;
            }
        }
        if ended {
            return ok(&page.into_list());
        }
    }
}

async fn get(context: IndexContext, call: Call) -> Answer {
    let record = context.entities()?.get(call.path("type"), call.path("id")).await?;
    let running = is_running(&context, &record).await?;
    let version = record.version;
    tagged(ok(&EntityFull::new(record, call.path("type"), running))?, version)
}

/// Sets the version as the ETag.
pub(super) fn tagged(mut response: Response, version: u64) -> Answer {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert("etag", tag);
    }
    Ok(response)
}

async fn is_running(context: &IndexContext, record: &EntityRecord) -> Result<bool, Problem> {
    let Some(job) = record.job.filter(|_| record.state == windlass_core::entity::IndexState::Pending) else {
        return Ok(false);
    };
    let detail = context.client()?.job(job).await?;
    Ok(detail.is_some_and(|detail| detail.job.state == JobState::Running))
}

async fn history(context: IndexContext, call: Call) -> Answer {
    let (entity_type, entity_id) = (call.path("type").to_owned(), call.path("id").to_owned());
    context.entities()?.type_named(&entity_type).await?;
    let filter = JobFilter { entity: Some(EntityRef { entity_type, entity_id }), ..JobFilter::default() };
    let page = Page { before: None, limit: HISTORY, excerpt: Some(EXCERPT) };
    let jobs = context.client()?.jobs(&filter, &page).await?;
    if jobs.is_empty() {
        context.entities()?.get(call.path("type"), call.path("id")).await?;
    }
    ok(&ListView::whole(jobs.iter().map(JobView::from).collect()))
}

async fn similar(context: IndexContext, call: Call) -> Answer {
    let limit = limit(&call, SIMILAR)? as usize;
    let answer = context.entities()?.similar(call.path("type"), call.path("id"), limit).await?;
    ok(&SearchView::from(answer))
}
