//! The HTTP interface: jobs and queues as JSON under `/v1`, metrics, the OpenAPI document, and the dashboard.
//!
//! Owns the server, the table of the engine's routes and their wire format ([`view`]). Parts register theirs through
//! [`windlass_pack`]. Contains no SQL and no rules: a handler reads the request, calls the [`windlass_engine::Client`]
//! and formats the result. Every route that is served is in the table, and the OpenAPI document is generated from it.

#![forbid(unsafe_code)]

mod app;
mod budget;
mod error;
mod fresh;
mod guard;
mod interface;
mod listeners;
mod metrics;
mod openapi;
mod options;
mod patient;
mod read_back;
mod request;
mod router;
mod routes;
mod schedule;
mod seats;
mod server;
mod stats;
pub mod view;
mod workflow;

pub use error::ServerError;
pub use interface::{Interface, LocalApi, Preparation, inventory};
pub use openapi::document;
pub use options::Options;
pub use request::job_request;
pub use schedule::{Described, schedule_request};
pub use server::Server;
pub use workflow::workflow_request;
