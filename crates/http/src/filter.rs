//! Which jobs are meant: from query parameters or the `filter` of a bulk request to a [`JobFilter`].

use std::sync::Arc;

use windlass_core::input::shown;
use windlass_core::store::JobFilter;
use windlass_core::{EntityRef, Invalid, JobState};
use windlass_engine::{Catalog, Client};

use crate::problem::Problem;

/// The words of a filter before they are looked up.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) states: Vec<String>,
    pub(crate) queue: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) entity: Option<String>,
    pub(crate) tag: Option<String>,
}

impl Words {
    pub(crate) fn is_empty(&self) -> bool {
        let Words { states, queue, kind, entity, tag } = self;
        states.is_empty() && queue.is_none() && kind.is_none() && entity.is_none() && tag.is_none()
    }

    /// `only` narrows the states a route is about; empty means any. `within` stands before each field's name, `refused`
    /// says what kind of problem a wrong one is.
    pub(crate) async fn resolve(
        self,
        client: &Client,
        only: &[JobState],
        within: &str,
        refused: fn(Invalid) -> Problem,
    ) -> Result<JobFilter, Problem> {
        let catalog = self.catalog(client).await?;
        let mut invalid = Invalid::default();
        let mut refuse = |field: &str, rule: String| invalid.add(format!("{within}{field}"), rule);
        let states = states(&self.states, only, &mut refuse);
        let queue = self.queue.as_deref().and_then(|name| match catalog.queue_named(name) {
            Some(queue) => Some(queue.id),
            None => {
                refuse("queue", unknown("queue", name, &catalog.queue_names()));
                None
            }
        });
        let kind = self.kind.as_deref().and_then(|name| match catalog.kind_named(name) {
            Some(kind) => Some(kind.id),
            None => {
                refuse("kind", unknown("kind", name, &catalog.kind_names()));
                None
            }
        });
        let entity = self.entity.as_deref().and_then(|text| match text.split_once(':') {
            Some((entity_type, entity_id)) if !entity_type.is_empty() && !entity_id.is_empty() => {
                Some(EntityRef { entity_type: entity_type.to_owned(), entity_id: entity_id.to_owned() })
            }
            _ => {
                refuse("entity", "must be TYPE:ID".to_owned());
                None
            }
        });
        let filter = JobFilter { ids: Vec::new(), states, queue, kind, entity, tag: self.tag };
        invalid.into_result().map_err(refused)?;
        Ok(filter)
    }

    /// The catalog at hand, or a fresh one when it lacks a name that is asked for.
    async fn catalog(&self, client: &Client) -> Result<Arc<Catalog>, Problem> {
        let catalog = client.catalog();
        let lacks = self.queue.as_deref().is_some_and(|name| catalog.queue_named(name).is_none())
            || self.kind.as_deref().is_some_and(|name| catalog.kind_named(name).is_none());
        if lacks { Ok(client.refresh().await?) } else { Ok(catalog) }
    }
}

/// Each word may be a list with commas.
fn states(words: &[String], only: &[JobState], refuse: &mut impl FnMut(&str, String)) -> Vec<JobState> {
    let mut states = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')).map(str::trim).filter(|word| !word.is_empty()) {
        match word.parse::<JobState>() {
            Ok(state) if only.is_empty() || only.contains(&state) => states.push(state),
            Ok(state) => {
                let fitting: Vec<&str> = only.iter().map(|state| state.name()).collect();
                refuse("state", format!("`{state}` cannot be meant here; these can: {}", fitting.join(", ")));
            }
            Err(_) => {
                let known = JobState::ALL.map(JobState::name).join(", ");
                refuse("state", format!("`{}` is not a job state; known: {known}", shown(word)));
            }
        }
    }
    if states.is_empty() { only.to_vec() } else { states }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    format!("there is no {what} `{}`; known: {}", shown(name), known.join(", "))
}
