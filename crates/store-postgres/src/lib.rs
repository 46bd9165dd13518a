//! The job store on Postgres.
//!
//! Owns every Postgres statement of the engine: one module per group of verbs, one schema (`windlass` unless the
//! address says otherwise), names always qualified so that the same SQL runs on a caller's connection. Never decides
//! rules: legal moves, backoff and crash counting come in from `windlass-core`.

#![forbid(unsafe_code)]

mod act;
mod claim;
mod enqueue;
mod entity;
mod error;
mod examine;
mod hint;
mod limit;
mod migrate;
mod open;
mod partition;
mod poll;
mod prune;
mod query;
mod reclaim;
mod registry;
mod report;
mod rollup;
mod row;
mod settle;
mod store;
mod tx;
mod wake;
mod worker;

pub use limit::HeldSnapshot;
pub use open::{Options, PostgresStore};
