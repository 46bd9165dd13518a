//! Connects the table of limits with the types that hold their values.

use super::{KIND_LIMITS, Limit, LimitOwner, LimitValue, LimitValues, LiveChanges, QUEUE_LIMITS};
use crate::store::{KindUpdate, Live, QueueUpdate};
use crate::{KindSpec, QueueSpec};

/// A queue or kind: what limits are configured on and changed through.
pub trait Limited: Sized + 'static {
    /// A live change.
    type Update;

    fn rows() -> &'static [LimitRow<Self>];

    fn limits() -> impl Iterator<Item = &'static Limit> {
        Self::rows().iter().map(|row| &row.limit)
    }

    fn limit(&self, name: &str) -> Option<LimitValue> {
        Self::rows().iter().find(|row| row.limit.name == name).and_then(|row| (row.get)(self))
    }

    /// No effect if the field cannot hold the value.
    fn set_limit(&mut self, name: &str, value: Option<LimitValue>) {
        if let Some(row) = Self::rows().iter().find(|row| row.limit.name == name) {
            (row.set)(self, value);
        }
    }

    /// The values that belong to the given owner.
    fn limits_of(&self, owner: LimitOwner) -> LimitValues {
        let rows = Self::rows().iter().filter(|row| row.limit.owner == owner);
        rows.map(|row| (row.limit.name, (row.get)(self))).collect()
    }

    /// The changes in an update that belong to the given owner.
    fn changes(update: &Self::Update, owner: LimitOwner) -> LiveChanges {
        let rows = Self::rows().iter().filter(|row| row.limit.owner == owner);
        rows.filter_map(|row| Some((row.limit.name, (row.live_change)(update)?))).collect()
    }

    fn change(update: &mut Self::Update, changes: &LiveChanges) {
        for row in Self::rows() {
            if let Some(live) = changes.get(row.limit.name) {
                (row.set_live_change)(update, live);
            }
        }
    }
}

/// A limit, with accessors for its fields in the spec and the update.
pub struct LimitRow<S: Limited> {
    pub limit: Limit,
    pub(super) get: fn(&S) -> Option<LimitValue>,
    pub(super) set: fn(&mut S, Option<LimitValue>),
    pub(super) live_change: fn(&S::Update) -> Option<Live<Option<LimitValue>>>,
    pub(super) set_live_change: fn(&mut S::Update, Live<Option<LimitValue>>),
}

impl Limited for QueueSpec {
    type Update = QueueUpdate;

    fn rows() -> &'static [LimitRow<QueueSpec>] {
        &QUEUE_LIMITS
    }
}

impl Limited for KindSpec {
    type Update = KindUpdate;

    fn rows() -> &'static [LimitRow<KindSpec>] {
        &KIND_LIMITS
    }
}
