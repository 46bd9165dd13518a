//! Tests of Postgres itself, beyond the conformance suite. They need a server at WINDLASS_TEST_POSTGRES_URL.

#![allow(clippy::unwrap_used)]

mod backup;
mod budgets;
mod conformance;
mod deadline;
mod entities;
mod golden;
mod keys;
mod lanes;
mod lock_session;
mod migrations;
mod operate;
mod partitions;
mod place;
mod pooler;
mod scratch;
mod sql;
mod tls;
mod views;
mod wake;
mod work;
mod workflows;
