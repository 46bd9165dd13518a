//! When a suspect may run alone. Pure.
//!
//! A suspect is a job that was running when its worker died. A crash counts against it only when nothing else ran in
//! its process. So the process first finishes what it has, then runs one suspect alone for a while. If the process
//! never falls idle, the suspect runs beside other jobs: a crash then counts for nothing, but the suspect does not wait
//! for ever.

use std::time::{Duration, Instant};

use windlass_core::Token;

/// How long nothing is claimed, so that the process falls idle.
const DRAIN: Duration = Duration::from_secs(5);
/// Ordinary claims go on this long after a drain that did not empty the process.
const COOL_DOWN: Duration = Duration::from_secs(20);
/// After a run this short the next suspect follows at once: hundreds of such runs take only a moment.
const TOO_SHORT_TO_SHARE: Duration = Duration::from_millis(50);
/// A suspect seen this long ago no longer waits for an idle process.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    state: State,
    first_seen: Option<Instant>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Clear,
    Draining(Instant),
    /// A claim for one suspect is under way.
    Claiming,
    Alone {
        token: Token,
        since: Instant,
    },
    CoolDown(Instant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Claim as usual.
    Normal,
    /// Claim nothing; let the running jobs end.
    Hold,
    /// Claim one suspect; `alone` says whether the process is idle.
    ClaimSuspect { alone: bool },
    /// The suspect of this token has run long enough without a crash: others may run beside it.
    Release(Token),
}

impl Quarantine {
    pub(crate) fn decide(
        &mut self,
        now: Instant,
        suspects: bool,
        idle: bool,
        patience: Duration,
    ) -> Decision {
        if !suspects && !matches!(self.state, State::Claiming | State::Alone { .. }) {
            *self = Quarantine::default();
            return Decision::Normal;
        }
        let first_seen = *self.first_seen.get_or_insert(now);
        match self.state {
            State::Claiming => Decision::Hold,
            State::Alone { token, since } if now - since >= patience => {
                self.state = State::CoolDown(now + patience);
                Decision::Release(token)
            }
            State::Alone { .. } => Decision::Hold,
            State::CoolDown(until) if now < until => Decision::Normal,
            State::Clear | State::CoolDown(_) | State::Draining(_) if idle => {
                self.state = State::Claiming;
                Decision::ClaimSuspect { alone: true }
            }
            State::Clear | State::CoolDown(_) => {
                self.state = State::Draining(now);
                Decision::Hold
            }
            State::Draining(since) if now - since < DRAIN => Decision::Hold,
            State::Draining(_) if now - first_seen >= PATIENCE => {
                self.state = State::Claiming;
                Decision::ClaimSuspect { alone: false }
            }
            State::Draining(_) => {
                self.state = State::CoolDown(now + COOL_DOWN);
                Decision::Normal
            }
        }
    }

    /// The claim came back, with the suspect's token if it leased one that runs alone.
    pub(crate) fn claimed(&mut self, alone: Option<Token>, now: Instant) {
        self.state = match alone {
            Some(token) => State::Alone { token, since: now },
            None => State::Clear,
        };
        self.first_seen = None;
    }

    /// The process fell idle, so a suspect that ran alone has ended. Other jobs get as much time as it had.
    pub(crate) fn ended(&mut self, now: Instant) {
        if let State::Alone { since, .. } = self.state {
            let had = now - since;
            self.state = if had < TOO_SHORT_TO_SHARE { State::Clear } else { State::CoolDown(now + had) };
        }
    }

    /// When the next decision may differ without an event.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        match self.state {
            State::CoolDown(until) => Some(until),
            State::Draining(since) => Some(since + DRAIN),
            State::Clear | State::Claiming | State::Alone { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PATIENT: Duration = Duration::from_secs(30);

    #[test]
    fn an_idle_process_takes_suspects_one_by_one() {
        let now = Instant::now();
        let mut quarantine = Quarantine::default();
        assert_eq!(quarantine.decide(now, true, true, PATIENT), Decision::ClaimSuspect { alone: true });
        assert_eq!(quarantine.decide(now, true, true, PATIENT), Decision::Hold);
        quarantine.claimed(Some(Token(7)), now);
        assert_eq!(quarantine.decide(now + SECOND, true, false, PATIENT), Decision::Hold);
        quarantine.ended(now + SECOND);
        assert_eq!(
            quarantine.decide(now + SECOND, true, true, PATIENT),
            Decision::Normal,
            "other jobs get as much time"
        );
        assert_eq!(
            quarantine.decide(now + SECOND * 2, true, true, PATIENT),
            Decision::ClaimSuspect { alone: true }
        );
        quarantine.claimed(None, now);
        assert_eq!(quarantine.decide(now + SECOND, false, true, PATIENT), Decision::Normal);
    }

    #[test]
    fn a_long_suspect_is_released() {
        let now = Instant::now();
        let mut quarantine = Quarantine::default();
        quarantine.decide(now, true, true, PATIENT);
        quarantine.claimed(Some(Token(7)), now);
        assert_eq!(quarantine.decide(now + PATIENT, false, false, PATIENT), Decision::Release(Token(7)));
        assert_eq!(quarantine.decide(now + PATIENT, false, false, PATIENT), Decision::Normal);
    }

    #[test]
    fn a_process_that_never_falls_idle_runs_the_suspect_beside_others() {
        let start = Instant::now();
        let mut quarantine = Quarantine::default();
        let mut normal = 0;
        for second in 0..200 {
            match quarantine.decide(start + SECOND * second, true, false, PATIENT) {
                Decision::Normal => normal += 1,
                Decision::Hold => {}
                Decision::ClaimSuspect { alone } => {
                    assert!(!alone);
                    assert!(SECOND * second >= PATIENCE, "after {second} s");
                    assert!(normal > second / 2, "ordinary claims went on for only {normal} s");
                    return;
                }
                Decision::Release(_) => panic!("nothing ran alone"),
            }
        }
        panic!("the suspect was kept waiting");
    }
}
