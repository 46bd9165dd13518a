//! Shared test code: the conformance suite that every store must pass, and tools for tests that kill, stop and watch
//! real processes.
//!
//! Dev only, so a failed expectation may panic.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod bouncer;
pub mod browser;
pub mod conformance;
pub mod ledger;
pub mod postgres;
pub mod process;
pub mod seed;
pub mod signal;
pub mod spans;
pub mod view_queries;
