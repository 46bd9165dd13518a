//! The built-in embedding, loaded on the first text, so that a process that never embeds pays nothing.

use std::sync::OnceLock;

use super::static_table::{DIMENSION, SPACE, StaticTable};
use super::{EmbedError, Embedder};
use crate::vector::Vector;

#[derive(Default)]
pub struct BuiltIn {
    table: OnceLock<Result<StaticTable, String>>,
}

impl Embedder for BuiltIn {
    fn space(&self) -> &str {
        SPACE
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        match self.table.get_or_init(|| StaticTable::load().map_err(|error| error.to_string())) {
            Ok(table) => table.embed(texts),
            Err(why) => Err(EmbedError::Model(why.clone())),
        }
    }
}
