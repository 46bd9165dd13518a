//! The engine's loops on both databases, inside one process.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backup;
mod budgets;
mod deadline;
mod lane_boost;
mod listeners;
mod place;
mod schedules;
mod statistics;
