//! What has limits, and the way between the table and the types of code.

use super::{KIND_LIMITS, Limit, LimitValue, LimitValues, LiveChanges, Of, QUEUE_LIMITS};
use crate::store::{KindUpdate, Live, QueueUpdate};
use crate::{KindSpec, QueueSpec};

/// A queue or a kind: what limits are configured of and set through.
pub trait Limited: Sized + 'static {
    /// A live change of it.
    type Update;

    fn rows() -> &'static [LimitRow<Self>];

    fn limits() -> impl Iterator<Item = &'static Limit> {
        Self::rows().iter().map(|row| &row.limit)
    }

    fn limit(&self, name: &str) -> Option<LimitValue> {
        Self::rows().iter().find(|row| row.limit.name == name).and_then(|row| (row.get)(self))
    }

    /// Leaves one that cannot be what is asked for.
    fn set_limit(&mut self, name: &str, value: Option<LimitValue>) {
        if let Some(row) = Self::rows().iter().find(|row| row.limit.name == name) {
            (row.set)(self, value);
        }
    }

    /// Those that such a row keeps.
    fn limits_of(&self, of: Of) -> LimitValues {
        let rows = Self::rows().iter().filter(|row| row.limit.of == of);
        rows.map(|row| (row.limit.name, (row.get)(self))).collect()
    }

    /// What an update says of those that such a row keeps.
    fn changes(update: &Self::Update, of: Of) -> LiveChanges {
        let rows = Self::rows().iter().filter(|row| row.limit.of == of);
        rows.filter_map(|row| Some((row.limit.name, (row.said)(update)?))).collect()
    }

    fn change(update: &mut Self::Update, changes: &LiveChanges) {
        for row in Self::rows() {
            if let Some(live) = changes.get(row.limit.name) {
                (row.say)(update, live);
            }
        }
    }
}

/// A limit, and where it is in the types of code.
pub struct LimitRow<S: Limited> {
    pub limit: Limit,
    pub(super) get: fn(&S) -> Option<LimitValue>,
    pub(super) set: fn(&mut S, Option<LimitValue>),
    pub(super) said: fn(&S::Update) -> Option<Live<Option<LimitValue>>>,
    pub(super) say: fn(&mut S::Update, Live<Option<LimitValue>>),
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
