//! The HTTP interface: jobs and queues as JSON under `/v1`, metrics, the OpenAPI document, and the dashboard.
//!
//! Owns the server, the one table of routes, the wire shapes ([`view`]) and the shape of every error. Knows no SQL and no
//! rule of the engine: a handler reads the request, asks the [`windlass_engine::Client`] and shows the answer. No route
//! is served that is not in the table, and the table is the document.

#![forbid(unsafe_code)]

mod app;
mod call;
pub mod entities;
mod error;
pub mod fields;
mod filter;
mod fresh;
mod guard;
mod metrics;
mod openapi;
mod options;
mod paging;
mod problem;
mod read_back;
mod request;
mod route;
mod router;
mod routes;
mod schedule;
mod server;
mod shape;
mod stats;
pub mod view;
mod workflow;

pub use app::{IndexFigures, Indexing, Parts};
pub use call::Call;
pub use error::ServerError;
pub use openapi::document;
pub use options::Options;
pub use problem::Problem;
pub use request::job_request;
pub use route::{Answer, Answered, Place, Route, json, ok};
pub use schedule::{Described, schedule_request};
pub use server::Server;
pub use shape::{Schemas, Shape};
pub use workflow::workflow_request;
