//! What happens when a worker dies: how the death is seen, and what becomes of the jobs it had leased.
//!
//! Pure. A death costs a job no attempt; it raises the job's [`Suspicion`]. Jobs that were only near a crash run again
//! within seconds. A job that kills its worker again and again ends up alone in a process, where its guilt is certain.

mod suspicion;
#[cfg(test)]
mod tests;
mod watch;

pub use suspicion::{DEADLY_LEVEL, Level, SECOND_PER_PROCESS, Suspicion, TRIAL_ALONE};
pub use watch::{Beat, Death, Look, Presence, Watch};

use std::time::Duration;

use crate::JobId;

/// A leased job whose worker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLease {
    pub job: JobId,
    pub suspicion: Suspicion,
    /// It was on trial, and nothing else ran in its process.
    pub alone: bool,
    /// The death has a cause outside of the jobs.
    pub explained: bool,
    pub at_most_once: bool,
    pub cancel_requested: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Back to its queue. Without a delay it takes its old place.
    Return {
        suspicion: Suspicion,
        delay: Option<Duration>,
    },
    DeadLetter {
        error: String,
    },
    Cancelled,
}

pub fn lost(lease: LostLease) -> Lost {
    if lease.cancel_requested {
        return Lost::Cancelled;
    }
    if lease.at_most_once {
        let error = "its worker process died while it ran, and its kind runs at most once".to_owned();
        return Lost::DeadLetter { error };
    }
    let suspicion = match lease.explained {
        true => lease.suspicion.after_explained_death(),
        false => lease.suspicion.after_death(lease.alone),
    };
    if suspicion.level() >= DEADLY_LEVEL {
        let error = format!(
            "its worker process died {DEADLY_LEVEL} times while it ran, the last {} times with no other job",
            suspicion.lone_deaths()
        );
        return Lost::DeadLetter { error };
    }
    Lost::Return { suspicion, delay: suspicion.delay(lease.job) }
}
