//! The real server on a real database, driven over a socket.

// Clippy's allowances for tests do not cover helper functions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod act;
mod audit;
mod bodies;
mod bounds;
mod browser;
mod budgets;
mod client;
mod crowd;
mod enqueue;
mod entities;
mod entity_edges;
mod entity_keys;
mod figures;
mod guard;
mod health;
mod jobs;
mod layers;
mod life;
mod limits;
mod metrics;
mod mistakes;
mod openapi;
mod pages;
mod queues;
mod refusals;
mod schedules;
mod slow_reader;
mod stream;
mod workflows;
mod world;
