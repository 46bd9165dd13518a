//! The real server on a real database, driven over a socket.

// The helpers around the tests are tests too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod act;
mod client;
mod enqueue;
mod entities;
mod guard;
mod jobs;
mod life;
mod metrics;
mod openapi;
mod pages;
mod queues;
mod refusals;
mod stream;
mod world;
