//! Entities and their search: text analysis, embedding, keyword and vector index, and the service over a store.
//!
//! Applications call `service`; `pack` adds routes, verbs and metrics. The other modules are pure and in memory.
//! Never holds SQL.

pub mod analysis;
pub mod embed;
mod facet;
pub mod filter;
pub mod keyword;
mod live;
mod number;
mod pack;
mod rank;
pub mod service;
pub mod snippet;
mod type_index;
mod values;
pub mod vector;

pub use facet::{Facet, FacetValue};
pub use pack::IndexPack;
pub use rank::Mode;
pub use service::{Entities, EntityError, Hit, Indexing, Meter, SaveRequest, SearchAnswer, SearchRequest};
