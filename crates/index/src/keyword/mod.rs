//! The keyword index of one type: BM25 over stemmed words.
//!
//! Owns words, postings and lengths by document number. A changed document gets a new number and the old number is
//! dead. Dead documents are left out of every count, so a ranking does not depend on the order of past writes.

mod dictionary;

pub use dictionary::{Dictionary, Stems};

use crate::analysis;

/// Saturation of repeated words.
const K1: f32 = 1.2;
/// How much a long text is discounted.
const B: f32 = 0.75;
/// A posting is the document number shifted by this many bits, plus the capped word count.
const COUNT_BITS: u32 = 8;
const MOST_COUNTED: u32 = (1 << COUNT_BITS) - 1;
/// Documents that a posting can address.
pub const MOST_DOCUMENTS: usize = 1 << (32 - COUNT_BITS);

/// Each posting list is in document order, because document numbers only grow.
#[derive(Default)]
pub struct Keywords {
    dictionary: Dictionary,
    postings: Vec<Vec<u32>>,
    lengths: Vec<u32>,
    scratch: Vec<u32>,
}

/// The words of a query, looked up in this index.
pub struct Terms {
    /// Each known word and its count in the query.
    pub known: Vec<(u32, u32)>,
    /// Words that no document has.
    pub unknown: u32,
}

/// The live documents.
pub struct Living<'a> {
    pub is_live: &'a dyn Fn(u32) -> bool,
    pub count: usize,
    /// Sum of their lengths in words.
    pub words: u64,
}

/// Scores of the documents that have a word of the query.
pub struct Matches {
    /// By document number; 0 where no word matched.
    pub scores: Vec<f32>,
    /// Upper bound of the score, for a document with every word many times.
    pub ceiling: f32,
}

impl Keywords {
    /// Adds the next document as parts of text with their weights.
    pub fn push<'a>(&mut self, parts: impl IntoIterator<Item = (&'a str, u32)>) {
        let doc = self.lengths.len() as u32;
        let mut terms = std::mem::take(&mut self.scratch);
        terms.clear();
        for (text, times) in parts {
            analysis::words(text, |word, _| {
                let term = self.dictionary.add(word);
                terms.extend(std::iter::repeat_n(term, times as usize));
            });
        }
        self.lengths.push(terms.len() as u32);
        terms.sort_unstable();
        self.postings.resize_with(self.dictionary.len(), Vec::new);
        for run in terms.chunk_by(|a, b| a == b) {
            let count = (run.len() as u32).min(MOST_COUNTED);
            self.postings[run[0] as usize].push(doc << COUNT_BITS | count);
        }
        self.scratch = terms;
    }

    pub fn length(&self, doc: u32) -> u32 {
        self.lengths.get(doc as usize).copied().unwrap_or(0)
    }

    /// The words of a query. Stop words count only when it has no others.
    pub fn terms(&self, query: &str) -> Terms {
        let (mut telling, mut stops) = (Vec::<(u32, u32)>::new(), Vec::<(u32, u32)>::new());
        let (mut others, mut unknown) = (false, 0);
        analysis::words(query, |word, _| {
            let stop = analysis::is_stop_word(word);
            others |= !stop;
            let list = if stop { &mut stops } else { &mut telling };
            let Some(term) = self.dictionary.find(word) else {
                unknown += u32::from(!stop);
                return;
            };
            match list.iter_mut().find(|(known, _)| *known == term) {
                Some((_, times)) => *times += 1,
                None => list.push((term, 1)),
            }
        });
        Terms { known: if others { telling } else { stops }, unknown }
    }

    /// BM25 of every document.
    pub fn score(&self, terms: &Terms, living: &Living<'_>) -> Matches {
        let mut scores = vec![0f32; self.lengths.len()];
        let count = living.count as f32;
        let average = (living.words as f32 / count.max(1.0)).max(1.0);
        let all = living.count == self.lengths.len();
        // An unknown word has the highest weight and no document matches it, so it lowers every relative score.
        let rarest = (1.0 + (count + 0.5) / 0.5).ln();
        let mut ceiling = terms.unknown as f32 * rarest * (K1 + 1.0);
        for (term, asked) in &terms.known {
            let postings = &self.postings[*term as usize];
            let found = match all {
                true => postings.len(),
                false => postings.iter().filter(|p| (living.is_live)(**p >> COUNT_BITS)).count(),
            } as f32;
            if found == 0.0 {
                continue;
            }
            let weight = (1.0 + (count - found + 0.5) / (found + 0.5)).ln() * *asked as f32;
            ceiling += weight * (K1 + 1.0);
            for posting in postings {
                let doc = (posting >> COUNT_BITS) as usize;
                let times = (posting & MOST_COUNTED) as f32;
                let length = self.lengths[doc] as f32 / average;
                scores[doc] += weight * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length));
            }
        }
        Matches { scores, ceiling }
    }

    /// Drops dead documents; `renumber` has the new number of each live one.
    pub fn retain(&mut self, renumber: &[Option<u32>]) {
        for postings in &mut self.postings {
            let kept = postings.iter().filter_map(|posting| {
                let doc = renumber[(posting >> COUNT_BITS) as usize]?;
                Some(doc << COUNT_BITS | posting & MOST_COUNTED)
            });
            *postings = kept.collect();
        }
        let mut doc = 0;
        self.lengths.retain(|_| {
            doc += 1;
            renumber[doc - 1].is_some()
        });
    }
}
