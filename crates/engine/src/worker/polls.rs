//! Polling: one query tells which queues have due jobs, which limits are in force and which runs to cancel.

use std::time::{Duration, Instant};

use windlass_core::store::{Poll, QueueKinds};
use windlass_core::{StoreError, Time};

use super::dispatch::{Dispatcher, Event, answered};

/// Least time between a poll and one asked for by a claim that emptied its queue.
const SOONEST: Duration = Duration::from_millis(100);

pub(super) struct Polls {
    under_way: bool,
    next: Instant,
    last: Instant,
    /// A cancel was requested: poll for that alone, without asking about queues.
    cancels: bool,
    /// The database's clock and the instant it was read at.
    clock: Option<(Time, Instant)>,
}

impl Polls {
    pub(super) fn new(now: Instant) -> Polls {
        Polls { under_way: false, next: now, last: now, cancels: false, clock: None }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// The first poll has been answered: before that the limits in force are not known.
    pub(super) fn has_answered(&self) -> bool {
        self.clock.is_some()
    }

    pub(super) fn poll_at(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    /// A queue was found empty, but a hint said that something comes: only a poll tells when.
    pub(super) fn poll_soon(&mut self) {
        self.poll_at(self.last + SOONEST);
    }

    pub(super) fn look_for_cancels(&mut self) {
        self.cancels = true;
    }

    /// `None` before the first answer, as in [`Polls::instant`].
    pub(super) fn database_time(&self, now: Instant) -> Option<Time> {
        self.clock.map(|(time, read_at)| time.plus(now.saturating_duration_since(read_at)))
    }

    /// When the database's clock shows `time`, by this process's clock.
    pub(super) fn instant(&self, time: Time) -> Option<Instant> {
        self.clock.map(|(read, read_at)| read_at + time.since(read))
    }

    /// `None` while a poll is under way: its answer comes as an event.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        (!self.under_way).then_some(self.next)
    }
}

impl Dispatcher {
    pub(super) fn start_polls(&mut self, now: Instant) {
        if let Some(time) = self.polls.database_time(now) {
            for group in self.queues.iter_mut().flat_map(|queue| &mut queue.groups) {
                if group.next_due.is_some_and(|due| due <= time) {
                    group.wake();
                    group.next_due = None;
                }
            }
        }
        if self.polls.under_way || self.outage.until(now).is_some() {
            return;
        }
        if now >= self.polls.next {
            self.polls.last = now;
            self.polls.next = now + self.options.poll;
            let all = self.queues.iter().flat_map(|work| work.groups.iter().map(|group| (work.id, group)));
            let asked =
                all.map(|(queue, group)| (group.no, QueueKinds { queue, kinds: group.kinds.clone() }));
            self.start_poll(asked.collect());
        } else if self.polls.cancels {
            self.start_poll(Vec::new());
        }
    }

    /// Every poll answers which runs to cancel; one without groups answers nothing else.
    fn start_poll(&mut self, groups: Vec<(u64, QueueKinds)>) {
        let (asked, served): (Vec<u64>, Vec<QueueKinds>) = groups.into_iter().unzip();
        self.polls.under_way = true;
        self.polls.cancels = false;
        let (store, worker) = (self.client.store().clone(), self.worker_id());
        self.spawn(async move {
            let result = answered("poll", store.poll(worker, &served)).await;
            Event::Polled { asked, result }
        });
    }

    pub(super) fn polled(&mut self, asked: &[u64], result: Result<Poll, StoreError>, now: Instant) {
        self.polls.under_way = false;
        let poll = match result {
            Ok(poll) => poll,
            Err(error) => return self.store_failed("look for work", error, now),
        };
        self.outage.succeeded();
        self.polls.clock = Some((poll.now, now));
        self.ticks.polled(poll.next_tick);
        for found in &poll.queues {
            let Some(queue) = self.queues.iter_mut().find(|q| q.id == found.queue) else { continue };
            if queue.apply(found, self.options.concurrency) {
                self.limit_reports.changed();
            }
            let no = asked.get(found.asked);
            if let Some(group) = queue.groups.iter_mut().find(|group| Some(&group.no) == no) {
                group.apply(found, poll.now, now);
            }
        }
        if !asked.is_empty() && poll.limits != self.limits {
            self.limits = poll.limits;
            self.follow_limits(now);
        }
        for id in poll.cancel {
            self.cancel(id, now);
        }
        self.return_surplus(now);
    }
}
