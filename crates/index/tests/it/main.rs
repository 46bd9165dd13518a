//! The entity service over a real store and worker. SQLite, except where a test needs Postgres.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fixture;
mod quality;
mod saves;
mod service;
