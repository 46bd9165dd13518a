//! What the audit cases ask: who said what of whom.

use serde_json::{Value, json};
use windlass_core::audit::Actor;
use windlass_core::store::ActFilter;

use super::Harness;

pub(super) fn me() -> Actor {
    Actor::new("me")
}

impl Harness {
    /// Every act, oldest first: `[act, subject, detail]`. Each is by [`me`].
    pub(super) async fn told(&self) -> Vec<Value> {
        let mut acts = self.store.audit(&ActFilter::newest(100)).await.unwrap();
        acts.reverse();
        assert!(acts.iter().all(|act| act.actor == "me"), "{acts:?}");
        let detail = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        acts.iter().map(|act| json!([act.act, act.subject, detail(&act.detail)])).collect()
    }
}
