//! Search of Windlass: text analysis, embedding, keyword and vector index.
//!
//! Pure and in memory; what is stored, and when it is read, is decided above. Never does IO.

pub mod analysis;
pub mod embed;
pub mod keyword;
pub mod vector;
