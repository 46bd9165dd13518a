//! Vectors in memory: unit length, 16 bits per dimension, compared by cosine.
//!
//! Owns the exact scan. A scan is bound by memory, so it reads the upper bytes of all vectors first, and the lower
//! bytes only of the candidates. That halves the memory read.

mod dot;
mod scan;

pub use scan::Vectors;

/// The cell value of 1.0.
const ONE: f32 = 32_767.0;

/// A vector of unit length, or zero for a text without known words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector(Vec<i16>);

impl Vector {
    /// Scales to unit length.
    pub fn of(values: &[f32]) -> Vector {
        let length = values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>().sqrt() as f32;
        if length == 0.0 || !length.is_finite() {
            return Vector(vec![0; values.len()]);
        }
        Vector(values.iter().map(|v| (v / length * ONE).round() as i16).collect())
    }

    pub fn zero(dimension: usize) -> Vector {
        Vector(vec![0; dimension])
    }

    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|cell| *cell == 0)
    }

    pub fn cells(&self) -> &[i16] {
        &self.0
    }

    /// The stored form: little-endian cells.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|cell| cell.to_le_bytes()).collect()
    }

    /// `None` when the length is odd.
    pub fn from_bytes(bytes: &[u8]) -> Option<Vector> {
        let (cells, rest) = bytes.as_chunks::<2>();
        rest.is_empty().then(|| Vector(cells.iter().map(|cell| i16::from_le_bytes(*cell)).collect()))
    }

    /// From -1 to 1.
    pub fn cosine(&self, other: &Vector) -> f32 {
        let sum: i64 = self.0.iter().zip(&other.0).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        sum as f32 / (ONE * ONE)
    }
}
