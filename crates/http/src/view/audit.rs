//! What an operator did.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use windlass_core::audit::AuditRecord;
use windlass_pack::shape;

use super::{Id, Stamp};

shape! {
    /// One act of an operator.
    pub struct ActView as "Act" {
        pub id: Id,
        pub at: Stamp,
        /// Who, or as long as there are no keys, by what way: `cli` or `http`.
        pub actor: String,
        /// Such as `job.retry`, `jobs.cancel`, `queue.change`, `schedule.put`.
        pub act: String,
        /// To what, such as `job/123`, `jobs`, `budget/ai/2026-11` or `queue/LOW`.
        pub subject: String,
        /// An object of the fields it was about, as they stood; of many jobs the filter that named them.
        pub before: Option<Box<RawValue>>,
        /// The same fields as they stand since, and what came of it; what was only taken back is not among them.
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
