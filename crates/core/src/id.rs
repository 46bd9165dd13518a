//! Identifiers. Numbers inside, strings outside: no JSON reader rounds a 64-bit id.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map($name)
            }
        }
    };
}

id!(
    /// A job. The upper bits are the millisecond of its making, so a range of ids is a range of time:
    /// Postgres partitions its history on that.
    JobId(i64)
);
id!(
    /// The fencing token of one claim. Every write after the claim carries it.
    Token(i64)
);
id!(
    /// One incarnation of a worker process, never a host name: a restarted process is another worker.
    WorkerId(i64)
);
id!(
    /// Row number of a kind in the registry table.
    KindId(i32)
);
id!(
    /// Row number of a queue in the registry table.
    QueueId(i32)
);

id!(
    /// A lane: what its kind and key come to, see [`LaneId::of`].
    LaneId(i64)
);

id!(
    /// Row number of an entity type.
    TypeId(i32)
);
id!(
    /// Row number of an entity: its place in the index, never shown.
    EntityNo(i64)
);

id!(
    /// Money reserved for one provider call; also the call's key in the ledger.
    ReservationId(i64)
);

id!(
    /// A workflow; drawn as a [`JobId`] is, so newer ones are larger.
    WorkflowId(i64)
);

/// Bits below the millisecond in a [`JobId`].
pub const JOB_ID_SEQUENCE_BITS: u32 = 22;

impl JobId {
    /// The smallest id a job made at `at` can have.
    pub fn floor(at: crate::Time) -> JobId {
        JobId((at.0 / 1_000).max(0) << JOB_ID_SEQUENCE_BITS)
    }
}
