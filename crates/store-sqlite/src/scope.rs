//! The context of a write: a connection inside a transaction, the clock, the next job id, and the wake-ups to send.
//!
//! The same code runs on the writer's connection and, for `enqueue_in` and `settle_in`, on a caller's. Never begins
//! or ends a transaction.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use windlass_core::store::Wake;
use windlass_core::{JobId, Time, WorkflowId};

use crate::error::Answer;

pub(crate) struct Scope<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) now: Time,
    /// Read once: no one else can insert while this transaction holds the write lock.
    next_id: Option<i64>,
    wakes: Vec<Wake>,
    moved: BTreeMap<WorkflowId, Moved>,
}

/// Numbers of the workflow's jobs that may have been released; `None` when the whole workflow has to be examined.
pub(crate) type Moved = Option<BTreeSet<usize>>;

impl<'c> Scope<'c> {
    pub(crate) fn new(connection: &'c Connection, now: Time) -> Scope<'c> {
        Scope { connection, now, next_id: None, wakes: Vec::new(), moved: BTreeMap::new() }
    }

    pub(crate) fn wake(&mut self, wake: Wake) {
        if !self.wakes.contains(&wake) {
            self.wakes.push(wake);
        }
    }

    pub(crate) fn mark(&self) -> usize {
        self.wakes.len()
    }

    /// Drops the wake-ups of a command that was rolled back. Its ids stay used: a gap is harmless.
    pub(crate) fn back_to(&mut self, mark: usize) {
        self.wakes.truncate(mark);
        self.moved.clear();
    }

    /// A job of the workflow ended. The workflow advances before the call ends.
    pub(crate) fn moved(&mut self, workflow: WorkflowId) -> &mut Moved {
        self.moved.entry(workflow).or_insert_with(|| Some(BTreeSet::new()))
    }

    pub(crate) fn take_moved(&mut self) -> BTreeMap<WorkflowId, Moved> {
        std::mem::take(&mut self.moved)
    }

    pub(crate) fn into_wakes(self) -> Vec<Wake> {
        self.wakes
    }

    /// A job id above every id ever assigned, containing the current millisecond unless the clock was set back.
    pub(crate) fn next_job_id(&mut self) -> Answer<i64> {
        let above = match self.next_id {
            Some(id) => id,
            None => self
                .connection
                .prepare_cached(
                    "select max(coalesce((select max(id) from windlass_jobs), 0),
                                (select last_id from windlass_deleted)) + 1",
                )?
                .query_row([], |row| row.get(0))?,
        };
        let id = above.max(JobId::floor(self.now).0);
        self.next_id = Some(id + 1);
        Ok(id)
    }
}
