//! What a worker knows of one queue: its settings, and its kinds in groups that are claimed apart.
//!
//! All kinds without a limit are one group. Each limited kind is a group of its own, because a claim for it must not
//! exceed its permits or tokens. Groups share the queue's slots. Pure: asks no store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use windlass_core::scale::Tuner;
use windlass_core::store::{KindLimits, Permits, QueueDue, QueueKinds, SuspectsDue};
use windlass_core::sweep::Suspicion;
use windlass_core::{KindId, LeasedJob, QueueId, Time};

use super::Roster;
use super::late::LateReserve;
use super::pace::Pace;
use super::permits::{Permit, Pool, Pools};
use super::slots::{GroupLoad, open_to};
use super::tokens::Tokens;
use super::tuning::Observed;

/// A leased job, with the permit it holds until it is settled.
pub(super) struct Lease {
    pub(super) job: Arc<LeasedJob>,
    pub(super) received: Instant,
    pub(super) permit: Option<Permit>,
}

pub(super) struct QueueWork {
    pub(super) id: QueueId,
    /// Most runs at once.
    pub(super) concurrency: u32,
    pub(super) paused: bool,
    /// It has a global concurrency: a job leased ahead here takes a place from another process.
    pub(super) limited: bool,
    pub(super) late: LateReserve,
    pub(super) groups: Vec<Group>,
    /// The group that is served first where slots are short; moves round robin.
    pub(super) first: usize,
    /// Adjusts the concurrency, where the queue has bounds.
    pub(super) tuner: Option<Tuner>,
    pub(super) observed: Observed,
}

impl QueueWork {
    pub(super) fn new(id: QueueId, concurrency: u32, late: LateReserve, now: Instant) -> QueueWork {
        QueueWork {
            id,
            concurrency,
            paused: false,
            // The first poll tells; nothing is claimed before that.
            limited: false,
            late,
            groups: Vec::new(),
            first: 0,
            tuner: None,
            observed: Observed::new(now),
        }
    }

    pub(super) fn running(&self) -> u32 {
        self.groups.iter().map(|group| group.running).sum()
    }

    pub(super) fn group_of(&mut self, kind: KindId) -> Option<&mut Group> {
        match self.groups.as_mut_slice() {
            [only] => Some(only),
            groups => groups.iter_mut().find(|group| group.kinds.contains(&kind)),
        }
    }

    /// Slots that `group` may claim jobs for.
    pub(super) fn open_to(&self, group: usize, now: Instant) -> i64 {
        if let [only] = self.groups.as_slice() {
            return i64::from(self.concurrency) - i64::from(only.running);
        }
        let loads: Vec<GroupLoad> = self.groups.iter().map(|group| group.load(now)).collect();
        open_to(group, self.concurrency, &loads, self.first)
    }

    /// Another group could use slots now, so nothing may be leased ahead.
    pub(super) fn is_shared(&self, group: usize, now: Instant) -> bool {
        self.groups.iter().enumerate().any(|(n, other)| n != group && other.wants(now))
    }

    /// Applies what a poll tells about the queue as a whole; true when its concurrency changed.
    pub(super) fn apply(&mut self, found: &QueueDue, fixed: Option<u32>) -> bool {
        let before = self.concurrency;
        self.paused = found.paused;
        self.limited = found.global_concurrency.is_some();
        self.late.set(found.boost_after);
        match (fixed, found.bounds) {
            (Some(fixed), _) => self.concurrency = fixed,
            (None, None) => {
                self.tuner = None;
                self.concurrency = found.concurrency;
            }
            (None, Some(bounds)) => {
                let started = self.observed.started.replace(found.concurrency);
                match &mut self.tuner {
                    Some(tuner) if tuner.bounds() == bounds && started == Some(found.concurrency) => {}
                    Some(tuner) => tuner.set(bounds, found.concurrency),
                    none => *none = Some(Tuner::new(bounds, found.concurrency)),
                }
                self.concurrency = self.tuner.as_ref().map_or(found.concurrency, Tuner::current);
            }
        }
        before != self.concurrency
    }
}

pub(super) struct Group {
    /// Never reused: a claim may be answered after the kinds were grouped in another way.
    pub(super) no: u64,
    pub(super) kinds: Vec<KindId>,
    /// Most jobs of one run.
    pub(super) batch: u32,
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) tokens: Option<Tokens>,
    pub(super) running: u32,
    /// Slots promised to the claim under way.
    pub(super) coming: u32,
    /// Leased and not started.
    pub(super) buffer: VecDeque<Lease>,
    /// Something may be due.
    pub(super) due: bool,
    /// A hint came while a claim was under way, so an empty answer proves nothing.
    pub(super) due_again: bool,
    /// It is due because of a hint, which may have been about a delayed job.
    pub(super) hinted: bool,
    pub(super) claiming: bool,
    /// The last claim brought fewer jobs than it asked for. Jobs enqueued since, without a hint, are claimed then.
    pub(super) rests_until: Option<Instant>,
    /// When the next delayed job is due.
    pub(super) next_due: Option<Time>,
    /// Jobs wait that lost their workers.
    pub(super) suspects: SuspectsDue,
    /// Higher levels are not claimed before this: another worker was faster.
    pub(super) suspect_rest: Option<Instant>,
    pub(super) pace: Pace,
}

impl Group {
    fn new(no: u64, kinds: Vec<KindId>, batch: u32, now: Instant) -> Group {
        Group {
            no,
            kinds,
            batch,
            pool: None,
            tokens: None,
            running: 0,
            coming: 0,
            buffer: VecDeque::new(),
            due: false,
            due_again: false,
            hinted: false,
            claiming: false,
            rests_until: None,
            next_due: None,
            suspects: SuspectsDue::default(),
            suspect_rest: None,
            pace: Pace::new(now),
        }
    }

    pub(super) fn wake(&mut self) {
        self.due = true;
        self.due_again = true;
        self.rests_until = None;
    }

    /// Something may be due, and the group does not rest.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due && self.rests_until.is_none_or(|until| now >= until)
    }

    /// Its limits allow one more job, or may do so soon.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool.free() > 0)
            && self.tokens.as_ref().is_none_or(|tokens| tokens.may_start(now))
    }

    fn wants(&self, now: Instant) -> bool {
        self.claiming || !self.buffer.is_empty() || (self.is_due(now) && self.may_start(now))
    }

    fn load(&self, now: Instant) -> GroupLoad {
        GroupLoad { running: self.running, coming: self.coming, wants: self.wants(now) }
    }

    pub(super) fn apply(&mut self, found: &QueueDue, at: Time, now: Instant) {
        self.next_due = found.next_due.filter(|due| *due > at);
        if found.next_due.is_some_and(|due| due <= at) {
            self.wake();
        }
        self.suspects.first = found.suspects.first;
        if self.suspect_rest.is_none_or(|until| now >= until) {
            self.suspect_rest = None;
            self.suspects = found.suspects;
        }
    }

    /// Buffers a leased job. A job without the permit it needs was claimed before its kind needed one.
    pub(super) fn put(&mut self, mut lease: Lease) {
        lease.permit = match (&self.pool, lease.permit) {
            (Some(pool), Some(permit)) if permit.is_of(pool) => Some(permit),
            (Some(pool), _) => Some(pool.take_anyway()),
            (None, permit) => permit,
        };
        match lease.job.suspicion == Suspicion::NONE {
            true => self.buffer.push_back(lease),
            // It starts before the jobs that were leased ahead.
            false => self.buffer.push_front(lease),
        }
    }

    fn set_limits(&mut self, limits: Option<&KindLimits>, pools: &Pools, now: Instant) {
        let resource = limits.and_then(|limits| limits.resource.as_ref());
        self.pool = resource.map(|Permits { resource, permits }| pools.get(resource, *permits));
        self.tokens = match (limits.and_then(|limits| limits.rate), self.tokens.take()) {
            (Some(rate), Some(mut tokens)) => {
                tokens.set_rate(rate, now);
                Some(tokens)
            }
            (Some(rate), None) => Some(Tokens::new(rate, now)),
            (None, _) => None,
        };
    }
}

/// The sets of kinds that are claimed together: those without a limit, then each limited one.
fn sets(served: &QueueKinds, limits: &[KindLimits]) -> Vec<Vec<KindId>> {
    let limited = |kind: &KindId| limits.iter().any(|of| of.kind == *kind);
    let (alone, together): (Vec<KindId>, Vec<KindId>) = served.kinds.iter().partition(|kind| limited(kind));
    let together = Some(together).filter(|kinds| !kinds.is_empty());
    together.into_iter().chain(alone.into_iter().map(|kind| vec![kind])).collect()
}

/// Numbers groups.
#[derive(Default)]
pub(super) struct Grouping {
    next: u64,
}

impl Grouping {
    /// Regroups the kinds of a queue by the limits in force. Leased jobs go with their kinds. A new group starts
    /// without knowing what is due; it is marked due, so that a claim finds out. `running` counts the runs of a kind.
    pub(super) fn follow(
        &mut self,
        queue: &mut QueueWork,
        served: &QueueKinds,
        limits: &[KindLimits],
        (roster, pools): (&Roster, &Pools),
        running: impl Fn(KindId) -> u32,
        now: Instant,
    ) {
        let sets = sets(served, limits);
        if !queue.groups.iter().map(|group| &group.kinds).eq(sets.iter()) {
            let mut old = std::mem::take(&mut queue.groups);
            for kinds in sets {
                let kept = old.iter().position(|group| group.kinds == kinds).map(|n| old.remove(n));
                queue.groups.push(kept.unwrap_or_else(|| {
                    self.next += 1;
                    let mut group = Group::new(self.next, kinds, 1, now);
                    group.batch = roster.batch(&group.kinds);
                    group.running = group.kinds.iter().map(|kind| running(*kind)).sum();
                    group.due = !old.is_empty();
                    group
                }));
            }
            queue.first = 0;
            for lease in old.into_iter().flat_map(|group| group.buffer) {
                if let Some(group) = queue.group_of(lease.job.kind) {
                    group.put(lease);
                }
            }
        }
        for group in &mut queue.groups {
            let of = group.kinds.first().and_then(|kind| limits.iter().find(|of| of.kind == *kind));
            group.set_limits(of, pools, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_without_a_limit_stay_together() {
        let served = QueueKinds { queue: QueueId(1), kinds: [1, 2, 3, 4].map(KindId).to_vec() };
        let limits = |kinds: &[i32]| -> Vec<KindLimits> {
            kinds.iter().map(|kind| KindLimits { kind: KindId(*kind), rate: None, resource: None }).collect()
        };
        let of = |kinds: &[i32]| -> Vec<Vec<i32>> {
            let sets = sets(&served, &limits(kinds));
            sets.into_iter().map(|set| set.into_iter().map(|kind| kind.0).collect()).collect()
        };
        assert_eq!(of(&[]), [vec![1, 2, 3, 4]]);
        assert_eq!(of(&[2, 4, 9]), [vec![1, 3], vec![2], vec![4]]);
        assert_eq!(of(&[1, 2, 3, 4]), [vec![1], vec![2], vec![3], vec![4]]);
    }
}
