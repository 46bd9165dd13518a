//! What a write works with: a connection inside a transaction, the clock, the next job id, and whom to wake.
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
    /// Known once asked for: nobody else can insert while this transaction holds the write lock.
    next_id: Option<i64>,
    wakes: Vec<Wake>,
    moved: BTreeMap<WorkflowId, Moved>,
}

/// Places of the jobs that ends in a workflow may have released; none when they may have done more than that.
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

    /// Forgets the wake-ups of a command that was undone. Its ids stay used: a gap is harmless.
    pub(crate) fn back_to(&mut self, mark: usize) {
        self.wakes.truncate(mark);
        self.moved.clear();
    }

    /// A job of the workflow ended: what follows is drawn before the call is over.
    pub(crate) fn moved(&mut self, workflow: WorkflowId) -> &mut Moved {
        self.moved.entry(workflow).or_insert_with(|| Some(BTreeSet::new()))
    }

    pub(crate) fn take_moved(&mut self) -> BTreeMap<WorkflowId, Moved> {
        std::mem::take(&mut self.moved)
    }

    pub(crate) fn into_wakes(self) -> Vec<Wake> {
        self.wakes
    }

    /// A job id above every other that was ever given, carrying the current millisecond where the clock allows.
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
