//! Which workers are dead, judged from what one sweeper sees at its looks.
//!
//! A clock that was stepped, a database that was away or one that restarted must not kill a living worker. So each rule
//! needs the heartbeat to have stood still while this sweeper watched.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::WorkerId;

/// A worker whose lock is free is dead when its heartbeat stood still for this long.
const CONFIRM: Duration = Duration::from_secs(1);

/// A worker as the sweeper sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    pub worker: WorkerId,
    /// Grows with each heartbeat.
    pub beats: i64,
    pub lease: Duration,
    /// The database's clock says the lease is over.
    pub expired: bool,
    pub presence: Presence,
    /// It said that it is shutting down.
    pub stopping: bool,
    /// Its last heartbeat is older than the start of the database server.
    pub before_restart: bool,
}

/// What the lock of a worker's incarnation says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It has no lock, or the lock cannot be read.
    #[default]
    Unknown,
    Locked,
    /// Its session with the database is gone. The process may live.
    SessionLost,
    /// The operating system freed the lock with the process.
    Gone,
}

/// All workers at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub beats: Vec<Beat>,
    /// How long the database server has been up, where there is one.
    pub uptime: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    pub beat: Beat,
    /// The death has a cause outside of the jobs: the worker was stopping, several died at once, or the database
    /// restarted under it.
    pub explained: bool,
}

/// What earlier looks saw.
#[derive(Debug, Default)]
pub struct Watch {
    seen: HashMap<WorkerId, Seen>,
    /// Until then a lost session means nothing.
    sessions_from: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    beats: i64,
    still_since: Instant,
    session_lost_at: Option<Instant>,
}

impl Watch {
    /// A look that failed says nothing about the time in between, so everything is watched anew.
    pub fn look_failed(&mut self) {
        self.seen.clear();
    }

    pub fn forget(&mut self, worker: WorkerId) {
        self.seen.remove(&worker);
    }

    /// A worker without its lock was seen, so the next look should come soon.
    pub fn has_doubts(&self) -> bool {
        self.seen.values().any(|seen| seen.session_lost_at.is_some())
    }

    /// The workers that are dead.
    pub fn look(&mut self, now: Instant, look: &Look) -> Vec<Death> {
        self.seen.retain(|worker, _| look.beats.iter().any(|beat| beat.worker == *worker));
        self.suspend_sessions(now, look);
        let dead: Vec<Beat> = look.beats.iter().filter(|beat| self.is_dead(beat, now)).copied().collect();
        let together = dead.len() > 1;
        let death = |beat: Beat| Death { beat, explained: beat.stopping || beat.before_restart || together };
        dead.into_iter().map(death).collect()
    }

    /// A restarted server, and one that lost several sessions at once, says nothing about the workers. They get the
    /// length of a lease to come back.
    fn suspend_sessions(&mut self, now: Instant, look: &Look) {
        let Some(lease) = look.beats.iter().map(|beat| beat.lease).max() else { return };
        let is_new = |beat: &&Beat| {
            let seen = self.seen.get(&beat.worker);
            seen.is_none_or(|seen| seen.beats != beat.beats || seen.session_lost_at.is_none())
        };
        let lost = look.beats.iter().filter(|beat| beat.presence == Presence::SessionLost);
        let several = lost.filter(is_new).count() > 1;
        let restarted = look.uptime.is_some_and(|uptime| uptime < lease);
        if (several && self.sessions_from.is_none()) || restarted {
            self.sessions_from = Some(now + lease);
        }
        if self.sessions_from.is_some_and(|from| from <= now) {
            self.sessions_from = None;
        }
    }

    fn is_dead(&mut self, beat: &Beat, now: Instant) -> bool {
        let fresh = Seen { beats: beat.beats, still_since: now, session_lost_at: None };
        let seen = self.seen.entry(beat.worker).or_insert(fresh);
        if seen.beats != beat.beats {
            *seen = fresh;
        }
        let still = |since: Instant| now.saturating_duration_since(since);
        let lost = beat.presence == Presence::SessionLost && self.sessions_from.is_none();
        seen.session_lost_at = if lost { seen.session_lost_at.or(Some(now)) } else { None };
        beat.presence == Presence::Gone
            || seen.session_lost_at.is_some_and(|since| still(since) >= CONFIRM)
            || (beat.expired && still(seen.still_since) >= beat.lease)
    }
}
