//! Turning text into vectors.
//!
//! Owns the [`Embedder`] trait and the built-in embedding. Never touches a store or the network.

mod add;
mod built_in;
mod static_table;
mod wordpiece;

pub use built_in::BuiltIn;
pub use static_table::StaticTable;

use crate::vector::Vector;

/// An embedding model. Vectors of different spaces are never compared.
pub trait Embedder: Send + Sync {
    /// Names the model and its version; stored with every vector.
    fn space(&self) -> &str;

    fn dimension(&self) -> usize;

    /// One vector per text, in order. A text without known words has the zero vector.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError>;
}

#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("the embedding model cannot be read: {0}")]
    Model(String),
}
