//! The service over a real SQLite store with a real worker.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod place;
mod quality;
mod service;
