//! What happens to a job whose worker died.
//!
//! A lost lease makes a job *suspect*: it runs alone next time. Only a crash while alone counts against it. So a job
//! that kills its process is identified, and jobs that ran beside it are not blamed.

/// A job becomes a dead letter after this many crashes while running alone.
pub const MAX_LONE_CRASHES: u16 = 3;

/// A job whose lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLease {
    pub attempt: u16,
    pub max_attempts: u16,
    /// Earlier crashes while running alone.
    pub crashes: u16,
    /// Nothing else ran in its process.
    pub alone: bool,
    pub cancel_requested: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Returns to its queue as a suspect.
    Suspect {
        attempts_used: u16,
        crashes: u16,
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
    if !lease.alone {
        return Lost::Suspect { attempts_used: lease.attempt.saturating_sub(1), crashes: lease.crashes };
    }
    let crashes = lease.crashes + 1;
    if crashes >= MAX_LONE_CRASHES || lease.attempt >= lease.max_attempts {
        return Lost::DeadLetter {
            error: format!("its worker process died {crashes} times while running it alone"),
        };
    }
    Lost::Suspect { attempts_used: lease.attempt, crashes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: LostLease =
        LostLease { attempt: 2, max_attempts: 5, crashes: 0, alone: false, cancel_requested: false };

    #[test]
    fn a_crash_beside_other_jobs_does_not_count() {
        assert_eq!(lost(LEASE), Lost::Suspect { attempts_used: 1, crashes: 0 });
        assert_eq!(lost(LostLease { crashes: 2, ..LEASE }), Lost::Suspect { attempts_used: 1, crashes: 2 });
    }

    #[test]
    fn the_third_crash_alone_makes_a_dead_letter() {
        let alone = LostLease { alone: true, ..LEASE };
        assert_eq!(lost(alone), Lost::Suspect { attempts_used: 2, crashes: 1 });
        assert_eq!(lost(LostLease { crashes: 1, ..alone }), Lost::Suspect { attempts_used: 2, crashes: 2 });
        assert!(matches!(lost(LostLease { crashes: 2, ..alone }), Lost::DeadLetter { .. }));
    }

    #[test]
    fn lone_crashes_respect_a_smaller_attempt_limit() {
        let once = LostLease { alone: true, attempt: 1, max_attempts: 1, ..LEASE };
        assert!(matches!(lost(once), Lost::DeadLetter { .. }));
    }

    #[test]
    fn a_cancelled_job_does_not_come_back() {
        assert_eq!(lost(LostLease { cancel_requested: true, ..LEASE }), Lost::Cancelled);
    }
}
