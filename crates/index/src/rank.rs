//! Ranks the documents of one type by words, by vectors, or by both.
//!
//! Owns the hybrid formula. The word score is the share of the query that a document has, and a single match out of
//! many words counts for little. So a query whose words are found is ranked by words, and one whose words are missing
//! is ranked by vectors. On three test collections this ranked exact words better than reciprocal rank fusion and fixed
//! weights.

use std::cmp::Ordering;

use windlass_core::id::EntityNo;

use crate::facet::FacetCounts;
use crate::filter::{Compiled, Filter};
use crate::keyword::{Living, Matches};
use crate::type_index::TypeIndex;
use crate::vector::Vector;

/// Weight of the cosine, against 1 for words.
const LIKENESS: f32 = 0.25;
/// A word score below this share of the query is discounted by half or more.
const STRAY: f32 = 0.25;
/// Least cosine of a document that shares no word with the query.
const LEAST_LIKENESS: f32 = 0.2;
/// Extra candidates from each ranking, so that a document low in one can be lifted by the other.
const SPARE: usize = 200;
/// From this many documents on, words and vectors are ranked on two threads.
const WORTH_A_THREAD: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Hybrid,
    Vector,
    Keyword,
}

pub(crate) struct RankQuery<'a> {
    pub(crate) text: Option<&'a str>,
    pub(crate) vector: Option<&'a Vector>,
    pub(crate) mode: Mode,
    pub(crate) filter: Option<&'a Filter>,
    /// Hits wanted, including those before the page.
    pub(crate) depth: usize,
    /// Excluded from the hits.
    pub(crate) without: Option<EntityNo>,
    /// Fields to count values of.
    pub(crate) facets: &'a [String],
}

#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) no: EntityNo,
    pub(crate) id: Box<str>,
    pub(crate) version: u64,
    /// From 0 to 1.
    pub(crate) score: f32,
    pub(crate) stale: bool,
}

pub(crate) struct Ranking {
    pub(crate) hits: Vec<Ranked>,
    pub(crate) total: u64,
    /// `total` is a lower bound: not every document with a high enough cosine was examined.
    pub(crate) more: bool,
    /// Over documents that match words and filter; without words, over those that match the filter.
    pub(crate) facets: Vec<FacetCounts>,
}

impl TypeIndex {
    pub(crate) fn rank(&self, query: &RankQuery<'_>) -> Ranking {
        let filter = query.filter.map(|filter| Compiled::new(filter, &self.values));
        let fits = |doc: u32| {
            let document = &self.documents[doc as usize];
            document.alive
                && Some(document.no) != query.without
                && filter.as_ref().is_none_or(|filter| filter.holds(&document.row, &self.values))
        };
        let vector = query.vector.filter(|_| query.mode != Mode::Keyword);
        let by_words = || match (query.mode, query.text) {
            (Mode::Vector, _) | (_, None) => None,
            (_, Some(text)) => {
                let is_live = |doc: u32| self.documents[doc as usize].alive;
                let living = Living { is_live: &is_live, count: self.count(), words: self.words };
                Some(self.keywords.score(&self.keywords.terms(text), &living))
            }
        };
        let by_likeness = || match vector {
            Some(vector) => self
                .vectors
                .nearest(vector, query.depth + SPARE, |doc| self.documents[doc as usize].placed && fits(doc)),
            None => Vec::new(),
        };
        let (words, near) = match self.documents.len() >= WORTH_A_THREAD && vector.is_some() {
            true => std::thread::scope(|scope| {
                let likeness = scope.spawn(by_likeness);
                let words = by_words();
                (words, likeness.join().unwrap_or_default())
            }),
            false => (by_words(), by_likeness()),
        };
        let mut candidates: Vec<u32> = Vec::new();
        let (mut total, mut more) = (0, false);
        let mut facets = Vec::new();
        if words.is_none() && !query.facets.is_empty() {
            let all = (0..self.documents.len() as u32).filter(|doc| fits(*doc));
            facets = self.count_facets(query.facets, all);
        }
        if let Some(words) = &words {
            let matched: Vec<u32> = matched(words).filter(|doc| fits(*doc)).collect();
            total = matched.len();
            facets = self.count_facets(query.facets, matched.iter().copied());
            let depth = query.depth + if vector.is_some() { SPARE } else { 0 };
            candidates = self.best(matched, depth, |doc| words.scores[doc as usize]);
        }
        if vector.is_some() {
            let enough = if words.is_some() { LEAST_LIKENESS } else { f32::MIN };
            let scored = |doc: u32| words.as_ref().is_some_and(|words| words.scores[doc as usize] > 0.0);
            let new = near
                .iter()
                .filter(|(doc, likeness)| *likeness >= enough && !scored(*doc))
                .map(|(doc, _)| *doc);
            let before = candidates.len();
            candidates.extend(new);
            total += candidates.len() - before;
            // Every candidate is close enough, so there may be more beyond the last one.
            let least = near.last().map_or(f32::MIN, |(_, likeness)| *likeness);
            more = near.len() == query.depth + SPARE && least >= enough;
        }
        let hits = self.finish(query, candidates, words.as_ref(), vector);
        Ranking { hits, total: total as u64, more, facets }
    }

    fn finish(
        &self,
        query: &RankQuery<'_>,
        candidates: Vec<u32>,
        words: Option<&Matches>,
        vector: Option<&Vector>,
    ) -> Vec<Ranked> {
        let score = |doc: u32| {
            let has =
                words.map_or(0.0, |words| words.scores[doc as usize] / words.ceiling.max(f32::MIN_POSITIVE));
            let like = match vector {
                Some(vector) if self.documents[doc as usize].placed => {
                    self.vectors.cosine(vector, doc).max(0.0)
                }
                _ => 0.0,
            };
            match (words, vector) {
                (Some(_), Some(_)) => (word_weight(has) + LIKENESS * like) / (word_weight(1.0) + LIKENESS),
                (None, _) => like,
                (_, None) => has,
            }
            .min(1.0)
        };
        let mut scored: Vec<(u32, f32)> = candidates.into_iter().map(|doc| (doc, score(doc))).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| self.by_id(a.0, b.0)));
        scored.truncate(query.depth);
        let hits = scored.into_iter().map(|(doc, score)| {
            let document = &self.documents[doc as usize];
            let (no, id, version) = (document.no, document.id.clone(), document.version);
            Ranked { no, id, version, score, stale: !document.indexed }
        });
        hits.collect()
    }

    /// The best `most` by score, in any order. Ids are compared only among those equal to the last score: with short
    /// texts thousands have one score, and each id is a separate memory access.
    fn best(&self, all: Vec<u32>, most: usize, score: impl Fn(u32) -> f32) -> Vec<u32> {
        if most == 0 || all.len() <= most {
            return if most == 0 { Vec::new() } else { all };
        }
        let mut scores: Vec<f32> = all.iter().map(|doc| score(*doc)).collect();
        let (_, least, _) = scores.select_nth_unstable_by(most - 1, |a, b| b.total_cmp(a));
        let least = *least;
        let mut best: Vec<u32> = all.iter().copied().filter(|doc| score(*doc) > least).collect();
        let mut equal: Vec<u32> = all.into_iter().filter(|doc| score(*doc) == least).collect();
        let room = most - best.len();
        if room < equal.len() {
            equal.select_nth_unstable_by(room, |a, b| self.by_id(*a, *b));
            equal.truncate(room);
        }
        best.append(&mut equal);
        best
    }

    /// Ties are ordered by id, so a ranking does not depend on the order of writes.
    fn by_id(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (&self.documents[a as usize], &self.documents[b as usize]);
        a.head.cmp(&b.head).then_with(|| a.id.cmp(&b.id))
    }
}

/// The weight of matching this share of the query.
fn word_weight(has: f32) -> f32 {
    has * has / (has + STRAY)
}

fn matched(words: &Matches) -> impl Iterator<Item = u32> {
    words.scores.iter().enumerate().filter(|(_, score)| **score > 0.0).map(|(doc, _)| doc as u32)
}
