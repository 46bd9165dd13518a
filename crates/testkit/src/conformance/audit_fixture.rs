//! Reads the audit log for the audit cases.

use serde_json::{Value, json};
use windlass_core::audit::Actor;
use windlass_core::store::AuditFilter;

use super::Harness;

pub(super) fn me() -> Actor {
    Actor::new("me")
}

impl Harness {
    /// Every record, oldest first, as `[act, subject, detail]`. Each must be by [`me`].
    pub(super) async fn audit_lines(&self) -> Vec<Value> {
        let mut acts = self.store.audit(&AuditFilter::newest(100)).await.unwrap();
        acts.reverse();
        assert!(acts.iter().all(|act| act.actor == "me"), "{acts:?}");
        let detail = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        acts.iter().map(|act| json!([act.act, act.subject, detail(&act.detail)])).collect()
    }
}
