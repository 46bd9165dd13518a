//! All vectors of one type, by document number, and the exact search over them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dot::{Dot, fastest};
use super::{ONE, Vector};

/// Kept from the first pass beyond what is asked for; the lower bytes move a cosine by less than 0.01.
const SPARE: usize = 64;

pub struct Vectors {
    dimension: usize,
    /// The upper byte of each cell, rounded to the nearest.
    upper: Vec<i8>,
    /// What is left of each cell.
    lower: Vec<i8>,
    dot: Dot,
}

impl Vectors {
    pub fn new(dimension: usize) -> Vectors {
        Vectors { dimension, upper: Vec::new(), lower: Vec::new(), dot: fastest() }
    }

    pub fn len(&self) -> usize {
        self.upper.len() / self.dimension.max(1)
    }

    pub fn is_empty(&self) -> bool {
        self.upper.is_empty()
    }

    /// The next document's. One of another dimension counts as zero.
    pub fn push(&mut self, vector: &Vector) {
        let fits = vector.cells().len() == self.dimension;
        for n in 0..self.dimension {
            let cell = if fits { vector.cells()[n] } else { 0 };
            let upper = ((i32::from(cell) + 128) >> 8).clamp(-128, 127);
            self.upper.push(upper as i8);
            self.lower.push((i32::from(cell) - upper * 256).clamp(-128, 127) as i8);
        }
    }

    /// Keeps the documents for which `keep` is true, in order.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let mut kept = 0;
        for doc in 0..self.len() {
            if keep(doc as u32) {
                let (from, to) = (doc * self.dimension, kept * self.dimension);
                self.upper.copy_within(from..from + self.dimension, to);
                self.lower.copy_within(from..from + self.dimension, to);
                kept += 1;
            }
        }
        self.upper.truncate(kept * self.dimension);
        self.lower.truncate(kept * self.dimension);
    }

    /// The cosine of one document.
    pub fn cosine(&self, query: &Vector, doc: u32) -> f32 {
        let at = doc as usize * self.dimension;
        let Some(upper) = self.upper.get(at..at + self.dimension) else { return 0.0 };
        let lower = &self.lower[at..at + self.dimension];
        let high = i64::from((self.dot)(query.cells(), upper)) * 256;
        let low = i64::from((self.dot)(query.cells(), lower));
        (high + low) as f32 / (ONE * ONE)
    }

    /// The `limit` nearest documents that are `live`, best first; equals in document order.
    pub fn nearest(&self, query: &Vector, limit: usize, live: impl Fn(u32) -> bool) -> Vec<(u32, f32)> {
        if query.cells().len() != self.dimension || query.is_zero() || limit == 0 {
            return Vec::new();
        }
        let keep = limit + SPARE;
        let mut best: BinaryHeap<Reverse<(i32, Reverse<u32>)>> = BinaryHeap::with_capacity(keep + 1);
        let mut least = i32::MIN;
        for (doc, upper) in self.upper.chunks_exact(self.dimension).enumerate() {
            let score = (self.dot)(query.cells(), upper);
            if score > least && live(doc as u32) {
                best.push(Reverse((score, Reverse(doc as u32))));
                if best.len() > keep {
                    best.pop();
                    least = best.peek().map_or(i32::MIN, |Reverse((score, _))| *score);
                }
            }
        }
        let mut exact: Vec<(u32, f32)> =
            best.into_iter().map(|Reverse((_, Reverse(doc)))| (doc, self.cosine(query, doc))).collect();
        exact.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        exact.truncate(limit);
        exact
    }
}
