//! Search: drain the change feed, rank in memory, then read the hits from the store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::entity::{Fields, parts};
use windlass_core::store::EntityRecord;
use windlass_core::{Invalid, TypeId, TypeSpec};

use super::{Entities, EntityError};
use crate::analysis;
use crate::facet::{self, Facet, FacetCounts};
use crate::filter::Filter;
use crate::keyword::Stems;
use crate::rank::{Mode, RankQuery, Ranked};
use crate::snippet::snippet;
use crate::vector::Vector;

const MAX_LIMIT: usize = 1_000;
const MAX_OFFSET: usize = 10_000;
const MAX_QUERY_BYTES: usize = 64 * 1024;
/// Rankings of one search. If a hit changed between ranking and reading, the search ranks again; after the last time
/// it returns the current fields.
const TRIES: usize = 3;

#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// Empty means all types.
    pub types: Vec<String>,
    pub query: Option<String>,
    pub vector: Option<Vec<f32>>,
    pub limit: usize,
    pub offset: usize,
    pub filter: Option<Filter>,
    pub mode: Mode,
    /// Fields to count values of, over all entities that match words and filter, not only the returned hits. Without
    /// words (no query, or [`Mode::Vector`]): over all entities that match the filter.
    pub facets: Vec<String>,
}

impl SearchRequest {
    pub fn new(entity_type: &str, query: &str) -> SearchRequest {
        SearchRequest {
            types: vec![entity_type.to_owned()],
            query: Some(query.to_owned()),
            vector: None,
            limit: 10,
            offset: 0,
            filter: None,
            mode: Mode::Hybrid,
            facets: Vec::new(),
        }
    }

    fn check(&self, dimension: usize) -> Result<(), Invalid> {
        let mut invalid = Invalid::default();
        if self.query.is_none() && self.vector.is_none() {
            invalid.add("query", "must be given, or a vector");
        }
        if self.query.as_ref().is_some_and(|query| query.trim().is_empty()) {
            invalid.add("query", "must not be empty");
        }
        if self.query.as_ref().is_some_and(|query| query.len() > MAX_QUERY_BYTES) {
            invalid.add("query", format!("must be at most {MAX_QUERY_BYTES} bytes"));
        }
        if let Some(vector) = &self.vector {
            if vector.len() != dimension {
                invalid.add("vector", format!("has {} numbers; this space has {dimension}", vector.len()));
            }
            if vector.iter().any(|number| !number.is_finite()) {
                invalid.add("vector", "must hold finite numbers");
            }
        }
        if self.mode == Mode::Keyword && self.query.is_none() {
            invalid.add("mode", "keyword needs a query");
        }
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            invalid.add("limit", format!("must be 1 to {MAX_LIMIT}, not {}", self.limit));
        }
        facet::check(&mut invalid, &self.facets);
        if self.offset > MAX_OFFSET {
            invalid.add(
                "offset",
                format!("must be at most {MAX_OFFSET}, not {}; narrow the filter", self.offset),
            );
        }
        invalid.into_result()
    }
}

#[derive(Clone, Debug)]
pub struct SearchAnswer {
    pub hits: Vec<Hit>,
    pub total: u64,
    /// False when `total` is a lower bound.
    pub exact: bool,
    /// In the order of the request.
    pub facets: Vec<Facet>,
    pub took: Duration,
}

#[derive(Clone, Debug)]
pub struct Hit {
    pub entity_type: String,
    pub id: String,
    /// From 0 to 1.
    pub score: f32,
    pub fields: Fields,
    pub snippet: String,
    /// The vector is not yet of this content.
    pub stale: bool,
}

struct RankedPage {
    ranked: Vec<(TypeId, Ranked)>,
    total: u64,
    exact: bool,
    facets: Vec<Facet>,
}

impl Entities {
    pub async fn search(&self, request: SearchRequest) -> Result<SearchAnswer, EntityError> {
        let begun = Instant::now();
        request.check(self.inner.embedder.dimension())?;
        let types = self.searched(&request.types).await?;
        let vector = match (&request.vector, &request.query) {
            (Some(numbers), _) => Some(Vector::of(numbers)),
            (None, Some(query)) if request.mode != Mode::Keyword => {
                self.inner.embedder.embed(&[query])?.into_iter().next()
            }
            _ => None,
        };
        self.answer(request, types, vector, None, begun).await
    }

    /// Entities like this one, of its own type.
    pub async fn similar(
        &self,
        entity_type: &str,
        id: &str,
        limit: usize,
    ) -> Result<SearchAnswer, EntityError> {
        let begun = Instant::now();
        let record = self.get(entity_type, id).await?;
        let (type_id, spec) = self.find_type(entity_type).await?;
        self.inner.follower.drain(self.store()).await?;
        let Some(vector) = self.inner.follower.live.vector_of(type_id, record.no) else {
            let why = record.error.unwrap_or_else(|| "its indexing job has not ended yet".to_owned());
            return Err(EntityError::NotIndexed { id: record.id, why });
        };
        let request = SearchRequest {
            query: None,
            vector: Some(vec![0.0; self.inner.embedder.dimension()]),
            limit,
            mode: Mode::Vector,
            ..SearchRequest::new(entity_type, "")
        };
        request.check(self.inner.embedder.dimension())?;
        self.answer(request, vec![(type_id, spec)], Some(vector), Some(record.no), begun).await
    }

    /// Every rule that a request breaks.
    pub fn search_problems(&self, request: &SearchRequest) -> Invalid {
        request.check(self.inner.embedder.dimension()).err().unwrap_or_default()
    }

    async fn searched(&self, names: &[String]) -> Result<Vec<(TypeId, Arc<TypeSpec>)>, EntityError> {
        let mut types = Vec::new();
        if names.is_empty() {
            self.inner.types.load(self.store()).await?;
            types.extend(self.all_types());
        }
        for name in names {
            let found = self.find_type(name).await?;
            if !types.contains(&found) {
                types.push(found);
            }
        }
        Ok(types)
    }

    async fn answer(
        &self,
        request: SearchRequest,
        types: Vec<(TypeId, Arc<TypeSpec>)>,
        vector: Option<Vector>,
        without: Option<windlass_core::id::EntityNo>,
        begun: Instant,
    ) -> Result<SearchAnswer, EntityError> {
        let (request, vector) = (Arc::new(request), Arc::new(vector));
        let ids: Vec<TypeId> = types.iter().map(|(id, _)| *id).collect();
        let mut tries = 0;
        self.inner.follower.search_begins();
        loop {
            tries += 1;
            self.inner.follower.drain(self.store()).await?;
            let (live, request_here, vector_here) =
                (self.inner.follower.live.clone(), request.clone(), vector.clone());
            let ids = ids.clone();
            let ranking = move || rank(&live, &request_here, &ids, vector_here.as_ref().as_ref(), without);
            let page = tokio::task::spawn_blocking(ranking).await;
            let mut page = page.map_err(|error| EntityError::Index(error.to_string()))?;
            let numbers: Vec<_> = page.ranked.iter().map(|(_, ranked)| ranked.no).collect();
            let (rows, read) = self.rows(&numbers).await?;
            page.ranked.truncate(read);
            let same =
                |ranked: &Ranked| rows.get(&ranked.no).is_some_and(|row| row.version == ranked.version);
            if tries < TRIES && !page.ranked.iter().all(|(_, ranked)| same(ranked)) {
                continue;
            }
            let hits = shown(&request, &types, page.ranked, rows);
            let (total, exact, facets, took) = (page.total, page.exact, page.facets, begun.elapsed());
            return Ok(SearchAnswer { hits, total, exact, facets, took });
        }
    }
}

fn rank(
    live: &crate::live::LiveIndex,
    request: &SearchRequest,
    types: &[TypeId],
    vector: Option<&Vector>,
    without: Option<windlass_core::id::EntityNo>,
) -> RankedPage {
    let query = RankQuery {
        text: request.query.as_deref(),
        vector,
        mode: request.mode,
        filter: request.filter.as_ref(),
        depth: request.offset + request.limit,
        without,
        facets: &request.facets,
    };
    let (mut ranked, mut total, mut exact) = (Vec::new(), 0, true);
    let mut facets = vec![FacetCounts::default(); request.facets.len()];
    for entity_type in types {
        let Some(ranking) = live.rank(*entity_type, &query) else { continue };
        total += ranking.total;
        exact &= !ranking.more;
        facets.iter_mut().zip(ranking.facets).for_each(|(all, of_type)| all.add(of_type));
        ranked.extend(ranking.hits.into_iter().map(|hit| (*entity_type, hit)));
    }
    if types.len() > 1 {
        ranked.sort_by(|a, b| {
            b.1.score.total_cmp(&a.1.score).then_with(|| (a.0, &a.1.id).cmp(&(b.0, &b.1.id)))
        });
    }
    let ranked = ranked.into_iter().skip(request.offset).take(request.limit).collect();
    let facets = facets.into_iter().zip(&request.facets).map(|(counts, field)| counts.into_facet(field));
    RankedPage { ranked, total, exact, facets: facets.collect() }
}

fn shown(
    request: &SearchRequest,
    types: &[(TypeId, Arc<TypeSpec>)],
    ranked: Vec<(TypeId, Ranked)>,
    mut rows: HashMap<windlass_core::id::EntityNo, EntityRecord>,
) -> Vec<Hit> {
    let stems = Stems::default();
    let mut words = HashSet::new();
    if let Some(query) = &request.query {
        analysis::words(query, |word, _| {
            if !analysis::is_stop_word(word) {
                words.insert(stems.stem(word).into_owned());
            }
        });
    }
    let mut hits = Vec::with_capacity(ranked.len());
    for (entity_type, ranked) in ranked {
        let Some(row) = rows.remove(&ranked.no) else { continue };
        let Some((_, spec)) = types.iter().find(|(id, _)| *id == entity_type) else { continue };
        let Some(fields) = row.fields else { continue };
        let texts: Vec<&str> = parts(spec, &fields).iter().map(|part| part.text).collect();
        let snippet = snippet(&texts.join(" · "), &words, &stems);
        hits.push(Hit {
            entity_type: spec.name.clone(),
            id: row.id,
            score: ranked.score,
            snippet,
            stale: ranked.stale || row.version != ranked.version,
            fields,
        });
    }
    hits
}
