//! The engine's loops on both databases, inside one process.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod listeners;
mod place;
mod statistics;
