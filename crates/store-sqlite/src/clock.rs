//! The database's clock. On SQLite that is the host's, plus an offset that only tests set.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::Time;
use windlass_core::time::micros;

#[derive(Default)]
pub(crate) struct Clock {
    offset: AtomicI64,
}

impl Clock {
    pub(crate) fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(micros(since).saturating_add(self.offset.load(Ordering::Relaxed)).max(0))
    }

    pub(crate) fn set_offset(&self, micros: i64) {
        self.offset.store(micros, Ordering::Relaxed);
    }
}
