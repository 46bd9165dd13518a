//! Noticing commits of others that may have made work due.
//!
//! Owns: the check of `PRAGMA data_version`. Never blocks and never carries facts: a lost wake-up costs one poll
//! interval.
//!
//! The check runs on the writer's own connection, where the number changes only for commits of *other* connections.
//! So our own commits need no filter, and no second thread is needed.

use std::time::{Duration, Instant};

use rusqlite::Connection;

pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(15);

/// Notices commits through other connections, in this process or another.
pub(crate) struct Watch {
    seen: Option<i64>,
    next: Instant,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch { seen: None, next: Instant::now() }
    }

    /// Returns whether another connection committed since the last check. Checks at most every [`CHECK_EVERY`].
    pub(crate) fn changed(&mut self, connection: &Connection) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + CHECK_EVERY;
        let version = connection
            .prepare_cached("pragma data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)));
        let Ok(version) = version else { return false };
        self.seen.replace(version).is_some_and(|seen| seen != version)
    }
}
