//! The built-in embedding: one vector per word piece, averaged with a weight per piece.
//!
//! Distilled from all-MiniLM-L6-v2 (see `models/static-256-int8`). English only; the order of words has no effect.

use serde::Deserialize;
use std::collections::HashMap;

use super::add::{self, Add};
use super::wordpiece::WordPieces;
use super::{EmbedError, Embedder};
use crate::vector::Vector;

const TABLE: &[u8] = include_bytes!("../../../../models/static-256-int8/model.safetensors");
const TOKENIZER: &[u8] = include_bytes!("../../../../models/static-256-int8/tokenizer.json");
pub(super) const SPACE: &str = "static-256-int8";
pub(super) const DIMENSION: usize = 256;
/// Pieces read from one text. An average over more pieces blurs all of them.
const MOST_PIECES: usize = 512;

pub struct StaticTable {
    pieces: WordPieces,
    rows: &'static [u8],
    weights: Vec<f32>,
    add: Add,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl StaticTable {
    /// Loads the table from the binary.
    pub fn load() -> Result<StaticTable, EmbedError> {
        let broken = |what: &str| EmbedError::Model(format!("model.safetensors: {what}"));
        let (length, rest) = TABLE.split_first_chunk::<8>().ok_or_else(|| broken("too short"))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| broken("bad header length"))?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(|| broken("bad header length"))?;
        let tensors: HashMap<String, serde_json::Value> =
            serde_json::from_slice(header).map_err(|error| broken(&error.to_string()))?;
        let (rows, shape) = tensor(&tensors, data, "embeddings", "I8")?;
        let (weights, _) = tensor(&tensors, data, "weights", "F32")?;
        if shape.get(1) != Some(&DIMENSION) || weights.len() / 4 != shape[0] {
            return Err(broken("unexpected shape"));
        }
        let weights = weights.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(StaticTable { pieces: WordPieces::parse(TOKENIZER)?, rows, weights, add: add::fastest() })
    }

    fn one(&self, text: &str, ids: &mut Vec<u32>) -> Vector {
        ids.clear();
        self.pieces.pieces(text, MOST_PIECES, ids);
        let mut sum = [0f32; DIMENSION];
        for id in ids {
            let id = *id as usize;
            let row = &self.rows[id * DIMENSION..(id + 1) * DIMENSION];
            let weight = self.weights[id];
            (self.add)(&mut sum, row, weight);
        }
        Vector::of(&sum)
    }
}

impl Embedder for StaticTable {
    fn space(&self) -> &str {
        SPACE
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        let mut ids = Vec::with_capacity(MOST_PIECES);
        Ok(texts.iter().map(|text| self.one(text, &mut ids)).collect())
    }
}

fn tensor(
    tensors: &HashMap<String, serde_json::Value>,
    data: &'static [u8],
    name: &str,
    dtype: &str,
) -> Result<(&'static [u8], Vec<usize>), EmbedError> {
    let broken = |what: String| EmbedError::Model(format!("tensor {name}: {what}"));
    let value = tensors.get(name).ok_or_else(|| broken("is missing".to_owned()))?;
    let tensor: Tensor = serde_json::from_value(value.clone()).map_err(|error| broken(error.to_string()))?;
    if tensor.dtype != dtype {
        return Err(broken(format!("is {}, not {dtype}", tensor.dtype)));
    }
    let (from, to) = tensor.data_offsets;
    let bytes = data.get(from..to).ok_or_else(|| broken("lies outside the file".to_owned()))?;
    Ok((bytes, tensor.shape))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Every command that embeds waits for the load. The fastest of several runs counts, since a busy machine may slow
    /// one.
    #[test]
    fn loading_takes_less_than_100_ms() {
        let load = || {
            let begun = Instant::now();
            StaticTable::load().unwrap();
            begun.elapsed()
        };
        let quickest = (0..5).map(|_| load()).min().unwrap();
        assert!(quickest < Duration::from_millis(100), "{quickest:?}");
    }
}
