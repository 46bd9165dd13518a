//! The conformance suite: a store is complete when it passes.
//!
//! [`conformance_cases`](crate::conformance_cases) is the only list of cases. `conformance::suite!(factory)` turns it
//! into one test per case, so a store cannot leave one out. Each case is an `async fn(Harness)` in the file of its
//! topic; files named `*_fixture` set up state for cases. Cases move time by the clock offset of the handles and never
//! sleep. Races run on separate handles.

pub mod act;
pub mod audit_act;
mod audit_fixture;
pub mod audit_put;
pub mod backup;
pub mod backup_fixture;
pub mod backup_pack;
pub mod budget;
pub mod budget_alert;
pub mod budget_call;
pub mod budget_change;
mod budget_fixture;
pub mod cancel;
pub mod claim;
pub mod clock;
pub mod enqueue;
pub mod entity;
pub mod entity_box;
pub mod entity_feed;
mod entity_fixture;
pub mod entity_index;
pub mod entity_key;
pub mod entity_outcome;
pub mod entity_race;
pub mod entity_write;
pub mod fence;
pub mod global;
mod harness;
pub mod idempotency;
pub mod lane;
pub mod lane_end;
pub mod lane_handover;
pub mod lane_race;
pub mod lane_unique;
pub mod limit;
mod list;
pub mod model;
pub mod moves;
pub mod order;
pub mod pack;
pub mod poll;
pub mod prune;
pub mod query;
pub mod rate;
mod reference_model;
pub mod registry;
pub mod report;
pub mod resource;
mod run;
pub mod schedule;
mod schedule_fixture;
pub mod schedule_tick;
pub mod schema;
pub mod settle;
pub mod sql;
pub mod suspect;
pub mod transaction;
pub mod unique;
pub mod unique_finished;
pub mod unique_return;
pub mod unique_window;
pub mod worker;
pub mod workflow;
pub mod workflow_failure;
mod workflow_fixture;
pub mod workflow_race;

pub use crate::conformance_suite as suite;
pub use harness::{Harness, KIND, OTHER_KIND, OTHER_QUEUE, QUEUE, SECOND_KIND, only, settlement};
pub use list::CASES;
pub use run::run;
