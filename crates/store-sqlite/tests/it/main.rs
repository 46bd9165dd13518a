//! The SQLite store: the conformance suite of every store, and tests specific to one file.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backup;
mod begin;
mod budgets;
mod conformance;
mod contend;
mod disk;
mod open;
mod processes;
mod report;
mod schema;
mod setup;
mod sql;
mod views;
mod wal;
