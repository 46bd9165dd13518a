//! Identifiers. They are strings in JSON, so that no reader rounds a 64-bit number.

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
    /// A job. The upper bits are its creation time in milliseconds, so a range of ids is a range of time. Postgres
    /// partitions its history by it.
    JobId(i64)
);
id!(
    /// Fencing token of one claim. Every write for the claim carries it.
    Token(i64)
);
id!(
    /// One run of a worker process. A restarted process is another worker, even on the same host.
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
    /// A hash of kind and key, see [`LaneId::of`].
    LaneId(i64)
);

id!(
    /// Row number of an entity type.
    TypeId(i32)
);
id!(
    /// Row number of an entity, used in the index; internal.
    EntityNo(i64)
);

id!(
    /// A reservation for one provider call; also identifies the call in the ledger.
    ReservationId(i64)
);

id!(
    /// A workflow. Built like a [`JobId`], so newer ones are larger.
    WorkflowId(i64)
);

/// Bits below the millisecond in a [`JobId`].
pub const JOB_ID_SEQUENCE_BITS: u32 = 22;

impl JobId {
    /// The smallest id of a job created at `at`.
    pub fn floor(at: crate::Time) -> JobId {
        JobId((at.0 / 1_000).max(0) << JOB_ID_SEQUENCE_BITS)
    }
}
