//! What the conformance suite cannot see: Postgres itself. Needs a server at WINDLASS_TEST_POSTGRES_URL.

#![allow(clippy::unwrap_used)]

mod conformance;
mod entities;
mod keys;
mod migrations;
mod operate;
mod partitions;
mod place;
mod wake;
mod work;
