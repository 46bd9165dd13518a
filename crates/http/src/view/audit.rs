//! An audit record.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use windlass_core::audit::AuditRecord;
use windlass_pack::shape;

use super::{Id, Stamp};

shape! {
    /// An action of an operator.
    pub struct ActView as "Act" {
        pub id: Id,
        pub at: Stamp,
        /// The name of the caller, or `cli` or `http` as long as there are no keys.
        pub actor: String,
        /// Such as `job.retry`, `jobs.cancel`, `queue.change`, `schedule.put`.
        pub act: String,
        /// What it was done to, such as `job/123`, `jobs`, `budget/ai/2026-11` or `queue/LOW`.
        pub subject: String,
        /// The affected fields before the action. For a bulk action, the filter.
        pub before: Option<Box<RawValue>>,
        /// The same fields after the action, and its counts. Removed values are left out.
        pub after: Option<Box<RawValue>>,
    }
}

impl From<&AuditRecord> for ActView {
    fn from(act: &AuditRecord) -> ActView {
        let (before, after) = act.sides();
        let raw = |fields: Map<String, Value>| serde_json::value::to_raw_value(&fields).ok();
        ActView {
            id: Id(act.seq),
            at: Stamp(act.at),
            actor: act.actor.clone(),
            act: act.act.clone(),
            subject: act.subject.clone(),
            before: raw(before),
            after: raw(after),
        }
    }
}
