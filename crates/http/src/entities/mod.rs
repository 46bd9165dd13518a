//! Entities, types and search over HTTP: a part that brings its own routes.
//!
//! Owns the wire shapes of entities. Knows no rule of theirs: [`windlass_index::Entities`] does.

mod bulk;
mod figures;
mod read;
mod search;
mod types;
mod write;

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use windlass_core::entity::Refusal;
use windlass_core::input::shown;
use windlass_engine::Client;
use windlass_index::{Entities, EntityError};

use crate::app::{IndexFigures, Parts};
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Answer, Route};

#[derive(Clone)]
pub(crate) struct Desk {
    entities: Entities,
    client: Client,
}

/// The routes and figures of entities, to be served beside the rest.
pub fn parts(entities: Entities, client: Client) -> Parts {
    let desk = Desk { entities, client };
    let indexing: Arc<dyn IndexFigures> = Arc::new(desk.clone());
    Parts { indexing: Some(indexing), routes: routes(&Some(desk)) }
}

/// Without a desk they are only described.
pub(crate) fn routes(desk: &Option<Desk>) -> Vec<Route> {
    let groups = [
        write::routes(desk),
        bulk::routes(desk),
        read::routes(desk),
        types::routes(desk),
        search::routes(desk),
    ];
    groups.into_iter().flatten().collect()
}

fn route<A>(
    desk: &Option<Desk>,
    method: Method,
    path: &'static str,
    name: &'static str,
    about: &'static str,
    handler: fn(Desk, Call) -> A,
) -> Route
where
    A: Future<Output = Answer> + Send + 'static,
{
    Route::behind(desk, method, path, name, about, handler)
}

impl From<EntityError> for Problem {
    fn from(error: EntityError) -> Problem {
        match error {
            EntityError::Invalid(invalid) => Problem::invalid(invalid),
            EntityError::Store(store) => store.into(),
            EntityError::UnknownType { .. } => unknown_type(error.to_string()),
            EntityError::Missing { entity_type, id } => {
                Problem::not_found(format!("there is no {} `{}`", shown(&entity_type), shown(&id)))
            }
            EntityError::Refused { refusal, .. } => refused(refusal),
            EntityError::NotIndexed { .. } => Problem::conflict("not_indexed", error.to_string()),
            EntityError::TextChanged { .. } => Problem::conflict("text_fields_in_use", error.to_string()),
            EntityError::Embed(_)
            | EntityError::NotRegistered { .. }
            | EntityError::Index(_)
            | EntityError::Off
            | EntityError::Unanswered => Problem::internal("the index failed", &error.chain()),
        }
    }
}

fn unknown_type(detail: String) -> Problem {
    let detail = format!("{detail}; PUT /v1/types/{{type}} adds one");
    Problem::new(StatusCode::NOT_FOUND, "unknown_type", "There is no such type", detail)
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Missing => Problem::not_found("there is no such entity; nothing was written"),
        Refusal::Exists { version } => {
            let detail = format!("it is there already, at version {version}; nothing was written");
            let title = "There is one already";
            Problem::new(StatusCode::PRECONDITION_FAILED, "exists", title, detail)
        }
        Refusal::Version { found } => {
            let detail = format!("it is at version {found} now; nothing was written");
            let title = "Somebody else wrote it meanwhile";
            Problem::new(StatusCode::PRECONDITION_FAILED, "version_mismatch", title, detail)
        }
        Refusal::TooLarge { bytes } => Problem::invalid(windlass_core::Invalid::one(
            "fields",
            format!("would be {bytes} bytes; at most 1 MiB is taken"),
        )),
        Refusal::KeyUsed => Problem::key_used("it was used for another request; nothing was written"),
    }
}
