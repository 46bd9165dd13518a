//! One suite for every store: a store is done when it passes.
//!
//! [`conformance_cases`](crate::conformance_cases) is the only list of cases; `conformance::suite!(factory)` turns it
//! into one test per case, so a store cannot leave one out. Each case is an `async fn(Harness)` in the file of its
//! topic. Time is moved by the clock offset of the handles, never by sleeping; races are run on separate handles.

pub mod act;
pub mod attic;
pub mod audit_act;
pub mod audit_put;
pub mod backup;
pub mod budget;
pub mod budget_alert;
pub mod budget_call;
pub mod budget_change;
pub mod cancel;
pub mod claim;
pub mod clock;
pub mod enqueue;
pub mod entity;
pub mod entity_box;
pub mod entity_fate;
pub mod entity_feed;
pub mod entity_index;
pub mod entity_key;
pub mod entity_race;
pub mod entity_write;
pub mod fence;
mod flow;
pub mod global;
mod harness;
pub mod idempotency;
pub mod lane;
pub mod lane_end;
pub mod lane_hand;
pub mod lane_race;
pub mod lane_twin;
mod list;
pub mod model;
pub mod moves;
pub mod order;
pub mod pack;
pub mod poll;
pub mod prune;
pub mod query;
pub mod rate;
pub mod registry;
pub mod report;
pub mod resource;
pub mod returning;
mod run;
pub mod schedule;
pub mod schedule_tick;
pub mod schema;
pub mod settle;
mod shelf;
mod sketch;
pub mod sql;
pub mod suspect;
mod till;
mod timetable;
pub mod transaction;
pub mod trunk;
pub mod unique;
pub mod unique_finished;
pub mod unique_window;
mod witness;
pub mod worker;
pub mod workflow;
pub mod workflow_failure;
pub mod workflow_race;

pub use crate::conformance_suite as suite;
pub use harness::{Harness, KIND, OTHER_KIND, OTHER_QUEUE, QUEUE, SECOND_KIND, only, settlement};
pub use list::CASES;
pub use run::run;
