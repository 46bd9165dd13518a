//! What becomes of a job whose worker vanished.
//!
//! A lost lease makes a job *suspect*: it is claimed alone next time, and only a crash suffered alone counts
//! against it. So one job that kills its process costs its neighbours nothing, and is itself found out.

/// Crashes suffered alone after which a job is a dead letter.
pub const MAX_LONE_CRASHES: u16 = 3;

/// A leased job at the moment its lease is found lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLease {
    pub attempt: u16,
    pub max_attempts: u16,
    /// Lone crashes before this one.
    pub crashes: u16,
    /// Nothing else ran in its process.
    pub alone: bool,
    pub cancel_requested: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Back to its queue as a suspect.
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
    fn a_crash_in_company_costs_nothing() {
        assert_eq!(lost(LEASE), Lost::Suspect { attempts_used: 1, crashes: 0 });
        assert_eq!(lost(LostLease { crashes: 2, ..LEASE }), Lost::Suspect { attempts_used: 1, crashes: 2 });
    }

    #[test]
    fn the_third_lone_crash_is_the_last() {
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
