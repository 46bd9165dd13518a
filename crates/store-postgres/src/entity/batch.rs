//! The result of all writes of one call, computed in memory from the locked rows.
//!
//! Differs from SQLite, which applies the writes one by one: here each entity's row is written once, as its last write
//! leaves it. Every version still counts, and every write has its answer and its box. Pure; never touches the
//! database.

use std::borrow::Cow;
use std::collections::BTreeMap;

use windlass_core::entity::{
    BoxKinds, Current, Decision, EntityWrite, IndexPlan, IndexState, Plan, Prepared, WriteRefusal, box_key,
    decide,
};
use windlass_core::id::EntityNo;
use windlass_core::store::{Saved, Written};
use windlass_core::{JobId, NewJob, StoreError, Strategy, TypeId};

pub(super) struct Batch<'w> {
    writes: Vec<&'w EntityWrite>,
    /// By type and id: the order in which rows are locked.
    pub(super) entities: Vec<Entity<'w>>,
    /// The result of each write.
    steps: Vec<Step>,
}

/// An entity as the writes of the call leave it.
pub(super) struct Entity<'w> {
    /// The first of its writes, for type and id.
    pub(super) write: &'w EntityWrite,
    /// The indexes of all its writes, in order.
    indexes: Vec<usize>,
    /// `None` when it has no row yet.
    pub(super) no: Option<i64>,
    /// The version of its row when the call began.
    pub(super) old_version: Option<u64>,
    pub(super) now: Option<Current>,
    pub(super) indexed_version: Option<u64>,
    /// The newest box of this call.
    pub(super) job: Option<JobId>,
    pub(super) waiting_box: Fate,
    /// The last write needs no box, and an earlier one may have queued one.
    pub(super) box_ends: bool,
    pub(super) vectors_go: bool,
    pub(super) vectors: Vec<Prepared>,
}

/// A row found by its key.
pub(super) struct Row {
    pub(super) no: i64,
    pub(super) current: Current,
    pub(super) indexed_version: Option<u64>,
}

/// What happens to the box that waits when the call begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// A newer box takes its place in the queue.
    Replaced,
    Ends,
}

enum Step {
    Open,
    Refused(WriteRefusal),
    Written { entity: usize, written: Written, job: Option<Box<NewJob>> },
}

impl<'w> Batch<'w> {
    pub(super) fn of(writes: &[&'w EntityWrite]) -> Batch<'w> {
        let mut indexes: BTreeMap<(TypeId, &str), Vec<usize>> = BTreeMap::new();
        for (index, write) in writes.iter().enumerate() {
            indexes.entry((write.type_id, &write.id)).or_default().push(index);
        }
        let entity = |indexes: Vec<usize>| Some(Entity::new(writes[*indexes.first()?], indexes));
        let entities = indexes.into_values().filter_map(entity).collect();
        let steps = writes.iter().map(|_| Step::Open).collect();
        Batch { writes: writes.to_vec(), entities, steps }
    }

    /// Decides every write of entity `n` from its current row, or from none.
    pub(super) fn decide(&mut self, n: usize, row: Option<Row>, boxes: &BoxKinds) {
        let Some(entity) = self.entities.get_mut(n) else { return };
        entity.start(row);
        for index in entity.indexes.clone() {
            let write = self.writes[index];
            self.steps[index] = match decide(entity.now.as_ref(), write) {
                Decision::Refused(refusal) => Step::Refused(refusal),
                Decision::Write(plan) => {
                    let (written, job) = entity.take(write, plan, boxes);
                    Step::Written { entity: n, written, job }
                }
            };
        }
    }

    /// How many boxes still need an id.
    pub(super) fn unnumbered(&self) -> usize {
        self.steps.iter().filter(|step| step.needs_id()).count()
    }

    /// Assigns ids to the boxes in the order of the writes, so that they run in that order.
    pub(super) fn number(&mut self, ids: Vec<i64>) {
        for (step, id) in self.steps.iter_mut().filter(|step| step.needs_id()).zip(ids) {
            let Step::Written { entity, written, .. } = step else { continue };
            written.job = Some(JobId(id));
            self.entities[*entity].job = written.job;
        }
    }

    /// The boxes with their ids and the index of their entities.
    pub(super) fn take_boxes(&mut self) -> Vec<(NewJob, i64, usize)> {
        let boxed = |step: &mut Step| match step {
            Step::Written { entity, written, job } => Some((*job.take()?, written.job?.0, *entity)),
            _ => None,
        };
        self.steps.iter_mut().filter_map(boxed).collect()
    }

    pub(super) fn answers(self) -> Result<Vec<Saved>, StoreError> {
        let lost = |what: &str| StoreError::Corrupt { what: what.to_owned() };
        let entities = self.entities;
        let answer = |step| match step {
            Step::Open => Err(lost("a write of the call has no result")),
            Step::Refused(refusal) => Ok(Saved::Refused(refusal)),
            Step::Written { entity, written, .. } => {
                let no = entities[entity].no.ok_or_else(|| lost("an entity was written and has no row"))?;
                Ok(Saved::Written(Written { no: EntityNo(no), ..written }))
            }
        };
        self.steps.into_iter().map(answer).collect()
    }
}

impl Step {
    fn needs_id(&self) -> bool {
        matches!(self, Step::Written { written, job: Some(_), .. } if written.job.is_none())
    }
}

impl<'w> Entity<'w> {
    fn new(write: &'w EntityWrite, indexes: Vec<usize>) -> Entity<'w> {
        Entity {
            write,
            indexes,
            no: None,
            old_version: None,
            now: None,
            indexed_version: None,
            job: None,
            waiting_box: Fate::Stays,
            box_ends: false,
            vectors_go: false,
            vectors: Vec::new(),
        }
    }

    /// Resets what an earlier read led to.
    fn start(&mut self, row: Option<Row>) {
        *self = Entity::new(self.write, std::mem::take(&mut self.indexes));
        let Some(Row { no, current, indexed_version }) = row else { return };
        (self.no, self.old_version, self.indexed_version) =
            (Some(no), Some(current.version), indexed_version);
        self.now = Some(current);
    }

    /// A write was accepted, so the version changed.
    pub(super) fn is_changed(&self) -> bool {
        self.now.as_ref().map(|now| now.version) != self.old_version
    }

    pub(super) fn box_key(&self) -> String {
        box_key(&self.write.spec.name, &self.write.id)
    }

    fn take(
        &mut self,
        write: &EntityWrite,
        plan: Plan<'_>,
        boxes: &BoxKinds,
    ) -> (Written, Option<Box<NewJob>>) {
        let (mut state, mut strategy, mut job) = (IndexState::Indexed, None, None);
        match &plan.index {
            IndexPlan::Keep => {}
            IndexPlan::Ready(prepared) => {
                strategy = Some(Strategy::Sync);
                self.end_box();
                self.vectors.push(prepared.clone());
            }
            IndexPlan::Box(wanted) => {
                job = Some(Box::new(boxes.boxed(write, &plan, *wanted)));
                (state, strategy) = (IndexState::Pending, Some(*wanted));
                self.put_box();
            }
            IndexPlan::Gone => {
                self.end_box();
                self.vectors.clear();
                self.vectors_go = true;
                state = IndexState::Deleted;
            }
        }
        self.indexed_version = match state {
            IndexState::Indexed => Some(plan.version),
            IndexState::Deleted => None,
            _ => self.indexed_version,
        };
        let Plan { operation, version, fields, hash, .. } = plan;
        let (waiting, fields) = (job.as_ref().and(strategy), fields.map(Cow::into_owned));
        self.now = Some(Current { version, fields, hash, state, waiting });
        // The row's number and the box's id are filled in once they are written.
        let id = write.id.clone();
        (Written { no: EntityNo(0), id, version, operation, state, job: None, strategy }, job)
    }

    fn put_box(&mut self) {
        self.box_ends = false;
        if self.waiting_box == Fate::Stays {
            self.waiting_box = Fate::Replaced;
        }
    }

    fn end_box(&mut self) {
        match self.waiting_box {
            Fate::Stays => self.waiting_box = Fate::Ends,
            Fate::Replaced | Fate::Ends => self.box_ends = true,
        }
    }
}
