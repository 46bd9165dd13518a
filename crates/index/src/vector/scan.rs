//! All vectors of one type by document number, and the exact search over them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dot::{Dot, fastest};
use super::{ONE, Vector};

/// Extra candidates kept by the first pass. They suffice because the lower bytes change a cosine by less than 0.01.
const SPARE: usize = 64;

pub struct Vectors {
    dimension: usize,
    /// The upper byte of each cell, rounded to the nearest.
    upper: Vec<i8>,
    /// The remainder of each cell.
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

    /// Adds the vector of the next document. A vector of another dimension is stored as zero.
    pub fn push(&mut self, vector: &Vector) {
        let fits = vector.cells().len() == self.dimension;
        for n in 0..self.dimension {
            let (upper, lower) = halves(if fits { vector.cells()[n] } else { 0 });
            self.upper.push(upper);
            self.lower.push(lower);
        }
    }

    /// Replaces the vector of a document; one of another dimension is ignored.
    pub fn set(&mut self, doc: u32, vector: &Vector) {
        let at = doc as usize * self.dimension;
        if vector.cells().len() != self.dimension || at + self.dimension > self.upper.len() {
            return;
        }
        for (n, cell) in vector.cells().iter().enumerate() {
            (self.upper[at + n], self.lower[at + n]) = halves(*cell);
        }
    }

    pub fn get(&self, doc: u32) -> Vector {
        let at = doc as usize * self.dimension;
        let cells = at..(at + self.dimension).min(self.upper.len());
        Vector(cells.map(|n| (i32::from(self.upper[n]) * 256 + i32::from(self.lower[n])) as i16).collect())
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

    pub fn cosine(&self, query: &Vector, doc: u32) -> f32 {
        let at = doc as usize * self.dimension;
        let Some(upper) = self.upper.get(at..at + self.dimension) else { return 0.0 };
        let lower = &self.lower[at..at + self.dimension];
        let high = i64::from((self.dot)(query.cells(), upper)) * 256;
        let low = i64::from((self.dot)(query.cells(), lower));
        (high + low) as f32 / (ONE * ONE)
    }

    /// The `limit` nearest documents that are `live`, best first; ties in document order.
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

/// Splits a cell into the nearest multiple of 256 and the remainder.
fn halves(cell: i16) -> (i8, i8) {
    let upper = ((i32::from(cell) + 128) >> 8).clamp(-128, 127);
    (upper as i8, (i32::from(cell) - upper * 256).clamp(-128, 127) as i8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random unit vectors, the same in every run.
    fn cloud(count: usize, dimension: usize) -> Vec<Vector> {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| Vector::of(&(0..dimension).map(|_| next()).collect::<Vec<_>>())).collect()
    }

    #[test]
    fn the_scan_agrees_with_comparing_every_vector() {
        let all = cloud(2_000, 64);
        let mut vectors = Vectors::new(64);
        all.iter().for_each(|vector| vectors.push(vector));
        for query in cloud(20, 64) {
            let mut exact: Vec<(u32, f32)> =
                all.iter().enumerate().map(|(n, v)| (n as u32, v.cosine(&query))).collect();
            exact.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let found: Vec<u32> = vectors.nearest(&query, 10, |_| true).iter().map(|hit| hit.0).collect();
            assert_eq!(found, exact[..10].iter().map(|hit| hit.0).collect::<Vec<_>>());
            let even = vectors.nearest(&query, 10, |doc| doc % 2 == 0);
            assert!(even.len() == 10 && even.iter().all(|hit| hit.0 % 2 == 0));
        }
    }

    #[test]
    fn documents_are_replaced_and_forgotten() {
        let all = cloud(10, 64);
        let mut vectors = Vectors::new(64);
        all.iter().for_each(|vector| vectors.push(vector));
        vectors.set(3, &all[7]);
        assert_eq!(vectors.nearest(&all[7], 2, |_| true).iter().map(|hit| hit.0).collect::<Vec<_>>(), [3, 7]);
        vectors.retain(|doc| doc != 3);
        assert_eq!((vectors.len(), vectors.nearest(&all[7], 1, |_| true)[0].0), (9, 6));
    }
}
