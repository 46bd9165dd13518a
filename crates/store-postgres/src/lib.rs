//! The job store on Postgres.
//!
//! Owns every Postgres statement of the engine: one module per group of methods, one schema (`windlass` unless the
//! address names another). Names are always qualified, so that the same SQL runs on a caller's connection. Never
//! decides rules: legal transitions, backoff and crash counting come from `windlass-core`.

#![forbid(unsafe_code)]

mod act;
mod audit;
mod backup;
mod bench_limit;
mod budget;
mod claim;
mod end;
mod enqueue;
mod entity;
mod error;
mod examine;
mod global;
mod hint;
mod lane;
mod late;
mod limit;
mod migrate;
mod open;
mod partition;
#[cfg(test)]
mod plans;
mod poll;
mod pool;
mod prune;
mod query;
mod rate;
mod reclaim;
mod registry;
mod report;
mod resource;
mod rollup;
mod row;
mod schedule;
mod scratch;
mod session;
mod settle;
mod sql;
mod store;
mod tx;
mod unique;
mod wake;
mod warm;
mod window;
mod worker;
mod workflow;

pub use bench_limit::HeldSnapshot;
pub use open::{Options, PostgresStore};
pub use scratch::HeldSchema;
