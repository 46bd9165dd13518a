//! JSON forms of entities, types and hits.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use windlass_core::TypeSpec;
use windlass_core::entity::{IndexState, Operation, TextField, resolve};
use windlass_core::store::EntityRecord;

use windlass_pack::shape;
use windlass_pack::view::{FieldError, Id, Stamp};
use windlass_pack::{Schemas, Shape};

shape! {
    /// An entity: the application's data and how far its indexing is.
    pub struct EntityFull as "Entity" {
        pub id: String,
        pub r#type: String,
        pub version: u64,
        /// The fields as written.
        pub fields: Value,
        /// pending, processing, indexed or failed.
        pub status: &'static str,
        /// The newest version whose content can be found by meaning.
        pub indexed_version: Option<u64>,
        /// Why it failed.
        pub why: Option<String>,
        /// Its latest indexing job.
        pub job_id: Option<Id>,
        pub created_at: Stamp,
        pub updated_at: Stamp,
    }
}

impl EntityFull {
    /// `running`: a worker is running its indexing job.
    pub(super) fn new(record: EntityRecord, entity_type: &str, running: bool) -> EntityFull {
        let status = match record.state {
            IndexState::Pending if running => "processing",
            state => state.name(),
        };
        EntityFull {
            id: record.id,
            r#type: entity_type.to_owned(),
            version: record.version,
            fields: record.fields.map_or(Value::Null, Value::Object),
            status,
            indexed_version: record.indexed_version,
            why: record.error,
            job_id: record.job.map(|job| Id(job.0)),
            created_at: Stamp(record.created_at),
            updated_at: Stamp(record.updated_at),
        }
    }
}

shape! {
    /// A write that was accepted.
    pub struct WrittenView as "WrittenEntity" {
        pub entity_id: String,
        pub version: u64,
        /// The job that will index it; null when nothing is left to do.
        pub job_id: Option<Id>,
        /// How it was indexed: sync, async or batch.
        pub strategy: &'static str,
        /// pending, indexed or deleted.
        pub status: &'static str,
    }
}

shape! {
    /// The result of a bulk write.
    pub struct BulkAnswer as "BulkEntities" {
        pub accepted: u64,
        pub refused: u64,
        /// The refused lines, at most 100.
        pub refusals: Vec<LineRefused>,
    }
}

shape! {
    /// A line that was not written.
    pub struct LineRefused as "RefusedLine" {
        /// The first is 1.
        pub line: u64,
        pub errors: Vec<FieldError>,
    }
}

shape! {
    /// An entity type.
    pub struct TypeView as "EntityType" {
        pub name: String,
        /// The fields whose words and meaning are searched; empty means every field that is text.
        pub text: Vec<TextView>,
        pub strategy: Option<&'static str>,
        pub on_create: Option<&'static str>,
        pub on_update: Option<&'static str>,
        pub on_delete: Option<&'static str>,
        /// The strategies that apply when a call gives none.
        pub resolved: ResolvedView,
    }
}

shape! {
    /// A searched field.
    pub struct TextView as "TextField" {
        pub name: String,
        /// How many times each of its words counts.
        pub weight: u32,
    }
}

shape! {
    /// The strategy of each operation.
    pub struct ResolvedView as "ResolvedStrategies" {
        pub create: &'static str,
        pub update: &'static str,
        pub delete: &'static str,
    }
}

impl From<&TypeSpec> for TypeView {
    fn from(spec: &TypeSpec) -> TypeView {
        let of = |operation| resolve(None, operation, spec).strategy.name();
        let text = |field: &TextField| TextView { name: field.name.clone(), weight: field.weight };
        TypeView {
            name: spec.name.clone(),
            text: spec.text.iter().map(text).collect(),
            strategy: spec.strategy.map(|strategy| strategy.name()),
            on_create: spec.on_create.map(|strategy| strategy.name()),
            on_update: spec.on_update.map(|strategy| strategy.name()),
            on_delete: spec.on_delete.map(|strategy| strategy.name()),
            resolved: ResolvedView {
                create: of(Operation::Create),
                update: of(Operation::Update),
                delete: of(Operation::Delete),
            },
        }
    }
}

shape! {
    /// What a search found.
    pub struct SearchView as "SearchAnswer" {
        /// Fewer than asked for if they exceed 4 MiB together; `offset` leads to the rest.
        pub hits: Vec<HitView>,
        pub total: u64,
        /// `eq`: total is exact. `gte`: total is a lower bound.
        pub total_relation: &'static str,
        /// Values of the requested fields, the most frequent first, at most 100 per field.
        pub facets: FacetsView,
        /// Requested fields with more values, or with text of more than 128 bytes, which is not counted.
        pub facets_more: Vec<String>,
        pub took_ms: f64,
    }
}

/// In the order of the request.
#[derive(Debug)]
pub(super) struct FacetsView(Vec<(String, Vec<FacetView>)>);

impl Serialize for FacetsView {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(field, values)| (field, values)))
    }
}

impl Shape for FacetsView {
    fn schema(schemas: &mut Schemas) -> Value {
        json!({ "type": "object", "additionalProperties": Vec::<FacetView>::schema(schemas) })
    }
}

shape! {
    /// A value of a field and how many of the matching entities have it.
    pub struct FacetView as "FacetValue" {
        /// Text, a number, true or false.
        pub value: Value,
        pub count: u64,
    }
}

shape! {
    /// One entity that was found.
    pub struct HitView as "Hit" {
        pub id: String,
        pub r#type: String,
        /// From 0 to 1.
        pub score: f32,
        pub fields: Value,
        /// The part of its text that shows why it was found.
        pub snippet: String,
        /// Its vector is not yet of this content: search by words is current, search by meaning uses an older version
        /// or none.
        pub stale: bool,
    }
}

impl From<crate::SearchAnswer> for SearchView {
    fn from(answer: crate::SearchAnswer) -> SearchView {
        let hit = |hit: crate::Hit| HitView {
            id: hit.id,
            r#type: hit.entity_type,
            score: hit.score,
            fields: Value::Object(hit.fields),
            snippet: hit.snippet,
            stale: hit.stale,
        };
        let facet = |facet: crate::Facet| {
            let value = |one: crate::FacetValue| FacetView { value: one.value, count: one.count };
            (facet.field, facet.values.into_iter().map(value).collect())
        };
        SearchView {
            hits: answer.hits.into_iter().map(hit).collect(),
            total: answer.total,
            total_relation: if answer.exact { "eq" } else { "gte" },
            facets_more: answer
                .facets
                .iter()
                .filter(|facet| facet.more)
                .map(|facet| facet.field.clone())
                .collect(),
            facets: FacetsView(answer.facets.into_iter().map(facet).collect()),
            took_ms: (answer.took.as_secs_f64() * 1e6).round() / 1e3,
        }
    }
}
