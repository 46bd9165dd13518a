//! Noticing that others may have made work due.
//!
//! Owns: the look at `PRAGMA data_version` that notices commits of others. Never blocks and never carries facts: a lost
//! wake-up costs one poll interval.
//!
//! The look happens on the writer's own connection: there the number moves only for commits of *other* connections,
//! so our own commits need no filtering and no second thread ticks.

use std::time::{Duration, Instant};

use rusqlite::Connection;

pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(15);

/// Notices commits made through other connections, in this process or another.
pub(crate) struct Watch {
    seen: Option<i64>,
    next: Instant,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch { seen: None, next: Instant::now() }
    }

    /// True when somebody else committed since the last look. Looks at most every [`LOOK_EVERY`].
    pub(crate) fn look(&mut self, connection: &Connection) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + LOOK_EVERY;
        let version = connection
            .prepare_cached("pragma data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)));
        let Ok(version) = version else { return false };
        self.seen.replace(version).is_some_and(|seen| seen != version)
    }
}
