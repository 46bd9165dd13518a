//! What the other crates' tests share: the conformance suite every store must pass, and the tools of tests that
//! kill, stop and watch real processes.
//!
//! Dev only. Nothing here is part of the product, so a broken expectation may panic.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod bouncer;
pub mod browser;
pub mod conformance;
pub mod documents;
pub mod ledger;
pub mod postgres;
pub mod process;
pub mod seed;
pub mod signal;
pub mod spans;
