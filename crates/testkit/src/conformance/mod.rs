//! One suite for every store: a store is done when it passes.
//!
//! [`conformance_cases`](crate::conformance_cases) is the only list of cases; `conformance::suite!(factory)` turns it
//! into one test per case, so a store cannot leave one out. Each case is an `async fn(Harness)` in the file of its
//! topic. Time is moved by the clock offset of the handles, never by sleeping; races are run on separate handles.

pub mod act;
pub mod cancel;
pub mod claim;
pub mod clock;
pub mod enqueue;
pub mod entity;
pub mod entity_box;
pub mod entity_feed;
pub mod entity_index;
pub mod entity_race;
pub mod entity_write;
pub mod fence;
mod harness;
pub mod idempotency;
mod list;
pub mod model;
pub mod moves;
pub mod poll;
pub mod prune;
pub mod query;
pub mod registry;
pub mod report;
pub mod returning;
mod run;
pub mod schema;
pub mod settle;
mod shelf;
mod sketch;
pub mod suspect;
pub mod transaction;
pub mod unique;
pub mod worker;

pub use crate::conformance_suite as suite;
pub use harness::{Handle, Harness, KIND, OTHER_KIND, OTHER_QUEUE, QUEUE, SECOND_KIND, only, settlement};
pub use list::CASES;
pub use run::run;
