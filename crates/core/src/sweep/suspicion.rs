//! How much the deaths of its workers speak against a job, and how it runs again.

use std::time::Duration;

use crate::JobId;

/// From this level on a job runs on trial: alone in its process.
const FIRST_TRIAL: u8 = 3;
/// The level at which a job is a dead letter: three deaths on trial, six in all.
pub const DEADLY_LEVEL: u8 = 6;
/// A process runs at most this many jobs of level 2 at once.
pub const SECOND_PER_PROCESS: u32 = 4;
/// A job on trial has its process to itself for this long. Then other jobs run beside it.
pub const TRIAL_ALONE: Duration = Duration::from_secs(60);

const SECOND_DELAY: Duration = Duration::from_secs(5);
const TRIAL_DELAY: Duration = Duration::from_secs(30);
const MAX_TRIAL_DELAY: Duration = Duration::from_secs(600);

/// A level: 0 for a job that never lost its worker. Any settle puts it back to 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Suspicion(u8);

/// Which jobs a claim leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Jobs that lost no worker or one. They run at full concurrency.
    #[default]
    Ordinary,
    /// At most [`SECOND_PER_PROCESS`] in a process.
    Second,
    /// One job, while nothing else runs in the process.
    Trial,
}

impl Level {
    /// The lowest and the highest level that it includes.
    pub fn range(self) -> (u8, u8) {
        match self {
            Level::Ordinary => (0, 1),
            Level::Second => (2, 2),
            Level::Trial => (FIRST_TRIAL, u8::MAX),
        }
    }
}

impl Suspicion {
    pub const NONE: Suspicion = Suspicion(0);

    pub fn new(level: u8) -> Suspicion {
        Suspicion(level)
    }

    pub fn level(self) -> u8 {
        self.0
    }

    pub fn on_trial(self) -> bool {
        self.0 >= FIRST_TRIAL
    }

    pub fn lone_deaths(self) -> u8 {
        self.0.saturating_sub(FIRST_TRIAL)
    }

    /// Only a death alone counts against a job on trial: with others in the process it may have been theirs.
    pub(super) fn after_death(self, alone: bool) -> Suspicion {
        match self.on_trial() && !alone {
            true => self,
            false => Suspicion(self.0.saturating_add(1)),
        }
    }

    pub(super) fn after_explained_death(self) -> Suspicion {
        Suspicion(self.0.max(1))
    }

    /// How long it waits before it runs again. Jobs that died together come back spread over two seconds.
    pub(super) fn delay(self, job: JobId) -> Option<Duration> {
        match self.0 {
            0 | 1 => None,
            2 => Some(SECOND_DELAY + Duration::from_millis(job.0.unsigned_abs() % 2_000)),
            level => {
                let doubled = TRIAL_DELAY.saturating_mul(1 << u32::from(level - FIRST_TRIAL).min(10));
                Some(doubled.min(MAX_TRIAL_DELAY))
            }
        }
    }

    /// What a waiting job waits for because of its suspicion, in words for people.
    pub fn waits_for(self) -> Option<&'static str> {
        match self.0 {
            0 => None,
            1 => Some("its worker died; it runs again as soon as a slot is free"),
            2 => Some("two of its workers died; it runs again beside at most three like it"),
            _ => Some("its workers keep dying; it runs alone in a process"),
        }
    }
}
