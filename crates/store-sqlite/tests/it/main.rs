//! The SQLite store: the conformance suite every store passes, and what is particular to one file.

mod begin;
mod conformance;
mod contend;
mod disk;
mod open;
mod processes;
mod schema;
mod setup;
mod wal;
