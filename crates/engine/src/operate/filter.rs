//! From the words of a request to a [`JobFilter`]; reports every unknown word at once.

use std::sync::Arc;

use windlass_core::input::{MAX_BATCH, shown, some_of};
use windlass_core::store::JobFilter;
use windlass_core::{EntityRef, Invalid, JobId, JobState, StoreError};

use crate::{Catalog, Client};

/// The conditions of a filter as they were given, before names are looked up. All have to hold.
#[derive(Clone, Debug, Default)]
pub struct FilterWords {
    pub ids: Vec<String>,
    /// Each may be a comma-separated list.
    pub states: Vec<String>,
    pub queue: Option<String>,
    pub kind: Option<String>,
    /// `TYPE:ID`.
    pub entity: Option<String>,
    pub tag: Option<String>,
}

impl FilterWords {
    pub fn is_empty(&self) -> bool {
        let FilterWords { ids, states, queue, kind, entity, tag } = self;
        ids.is_empty()
            && states.is_empty()
            && queue.is_none()
            && kind.is_none()
            && entity.is_none()
            && tag.is_none()
    }
}

impl Client {
    /// `only` lists the states that are allowed; empty allows all. `within` is the prefix of field names. The filter
    /// may be used only if no problem is reported.
    pub async fn job_filter(
        &self,
        words: &FilterWords,
        only: &[JobState],
        within: &str,
    ) -> Result<(JobFilter, Invalid), StoreError> {
        let catalog = self.catalog_of(words).await?;
        let mut invalid = Invalid::default();
        let mut refuse = |field: &str, rule: String| invalid.add(format!("{within}{field}"), rule);
        let filter = JobFilter {
            ids: ids(&words.ids, &mut refuse),
            states: states(&words.states, only, &mut refuse),
            queue: words.queue.as_deref().and_then(|name| {
                let found = catalog.queue_named(name).map(|queue| queue.id);
                if found.is_none() {
                    refuse("queue", unknown("queue", name, &some_of(&catalog.queue_names())));
                }
                found
            }),
            kind: words.kind.as_deref().and_then(|name| {
                let found = catalog.kind_named(name).map(|kind| kind.id);
                if found.is_none() {
                    refuse("kind", unknown("kind", name, &catalog.some_kinds()));
                }
                found
            }),
            entity: words.entity.as_deref().and_then(|text| match text.split_once(':') {
                Some((entity_type, entity_id)) if !entity_type.is_empty() && !entity_id.is_empty() => {
                    Some(EntityRef { entity_type: entity_type.to_owned(), entity_id: entity_id.to_owned() })
                }
                _ => {
                    refuse("entity", "must be TYPE:ID".to_owned());
                    None
                }
            }),
            tag: words.tag.clone(),
        };
        Ok((filter, invalid))
    }

    /// The catalog, read again if it lacks a name of the filter.
    async fn catalog_of(&self, words: &FilterWords) -> Result<Arc<Catalog>, StoreError> {
        let catalog = self.catalog();
        let lacks = words.queue.as_deref().is_some_and(|name| catalog.queue_named(name).is_none())
            || words.kind.as_deref().is_some_and(|name| catalog.kind_named(name).is_none());
        if lacks { self.refresh().await } else { Ok(catalog) }
    }
}

/// Sorted, each once.
fn ids(words: &[String], refuse: &mut impl FnMut(&str, String)) -> Vec<JobId> {
    if words.len() > MAX_BATCH {
        refuse("ids", format!("has {} entries; at most {MAX_BATCH} are allowed", words.len()));
    }
    let mut ids: Vec<JobId> = words.iter().filter_map(|id| id.parse().ok()).collect();
    if ids.len() < words.len() {
        refuse("ids", "must be ids of jobs".to_owned());
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}

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

fn unknown(what: &str, name: &str, known: &str) -> String {
    format!("there is no {what} `{}`; known: {known}", shown(name))
}
