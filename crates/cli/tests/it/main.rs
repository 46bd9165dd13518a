//! The real binary on SQLite, used like a person or a script would.

// Clippy's allowances for tests do not cover helper functions.
#![allow(clippy::unwrap_used)]

mod backup;
mod backup_left;
mod bad_input;
mod bench;
mod budgets;
mod config;
mod demo;
mod entities;
mod makes;
mod operate;
mod pages;
mod parts;
mod place;
mod produce;
mod readme;
mod remote;
mod restore;
mod runbook;
mod schedules;
mod serve;
mod sources;
mod strange;
mod tidy;
mod top;
mod types;
mod workflows;
