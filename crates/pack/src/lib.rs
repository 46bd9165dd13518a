//! The interface for parts: what a pack is, what it can register, and how registered parts become one running system.
//!
//! Owns the types for routes (calls, answers, problems, wire formats), pages, verbs, metrics and health checks.
//! Contains no SQL and no socket, and knows no part by name: `http` serves routes, the stores run statements.

#![forbid(unsafe_code)]

pub mod api;
mod assembly;
mod body;
mod call;
pub mod cleanup;
pub mod fields;
pub mod health;
mod host;
mod inventory;
pub mod limit;
pub mod metrics;
pub mod page;
pub mod paging;
mod principal;
mod problem;
mod registry;
mod route;
mod seat;
pub mod service;
pub mod settings;
pub mod shape;
mod tx;
pub mod verb;
pub mod view;

pub use assembly::{Assembly, OpenError, settings_of};
pub use axum::http::{Method, StatusCode};
pub use body::{Bodies, Line, Lines};
pub use call::Call;
pub use host::Host;
pub use inventory::{Inventory, clashes, route_name};
pub use principal::{Principal, Scope};
pub use problem::Problem;
pub use registry::{Figures, Pack, Registry};
pub use route::{
    Answer, Answered, BodyOf, Handler, Media, Parameter, Place, Route, SMALL_BODY, SchemaOf, json, nothing,
    ok, text,
};
pub use seat::Seat;
pub use serde_json::Value;
pub use shape::{Schemas, Shape};
pub use tx::PackTx;
pub use windlass_core::audit::{Actor, NewAudit};
pub use windlass_core::pack::{PackStep, SqlText};
pub use windlass_core::store::{SqlRow, SqlValue};
pub use windlass_engine::Context;
