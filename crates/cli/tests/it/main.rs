//! The real binary on SQLite, as a person or a script uses it.

// The helpers around the tests are tests too.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod config;
mod demo;
mod operate;
mod place;
mod produce;
mod serve;
