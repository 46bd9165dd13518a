//! When a suspect may run alone. Pure: the dispatcher says what is so, this says what to do.
//!
//! A suspect's crash counts only when nothing else ran in its process. So the process first runs out what it has,
//! then gives itself to one suspect for a while. If it never falls idle, the suspect runs in company after all:
//! its crash then counts for nothing, but it is not kept waiting.

use std::time::{Duration, Instant};

use windlass_core::Token;

/// How long claims rest so that the process falls idle.
const DRAIN: Duration = Duration::from_secs(5);
/// Rest after a drain that did not empty the process.
const COOL_DOWN: Duration = Duration::from_secs(20);
/// After a run this short the next suspect follows at once: hundreds of them are over in a moment.
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
pub(crate) enum Step {
    /// Claim as usual.
    Normal,
    /// Claim nothing; let what is here run out.
    Hold,
    /// Claim one suspect; `alone` says whether the process is idle.
    ClaimSuspect { alone: bool },
    /// The suspect of this token has behaved long enough: others may run beside it.
    Release(Token),
}

impl Quarantine {
    pub(crate) fn step(&mut self, now: Instant, suspects: bool, idle: bool, patience: Duration) -> Step {
        if !suspects && !matches!(self.state, State::Claiming | State::Alone { .. }) {
            *self = Quarantine::default();
            return Step::Normal;
        }
        let first_seen = *self.first_seen.get_or_insert(now);
        match self.state {
            State::Claiming => Step::Hold,
            State::Alone { token, since } if now - since >= patience => {
                self.state = State::CoolDown(now + patience);
                Step::Release(token)
            }
            State::Alone { .. } => Step::Hold,
            State::CoolDown(until) if now < until => Step::Normal,
            State::Clear | State::CoolDown(_) | State::Draining(_) if idle => {
                self.state = State::Claiming;
                Step::ClaimSuspect { alone: true }
            }
            State::Clear | State::CoolDown(_) => {
                self.state = State::Draining(now);
                Step::Hold
            }
            State::Draining(since) if now - since < DRAIN => Step::Hold,
            State::Draining(_) if now - first_seen >= PATIENCE => {
                self.state = State::Claiming;
                Step::ClaimSuspect { alone: false }
            }
            State::Draining(_) => {
                self.state = State::CoolDown(now + COOL_DOWN);
                Step::Normal
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

    /// The process fell idle: the lone suspect, if any, has ended. Others get as much time as it had.
    pub(crate) fn ended(&mut self, now: Instant) {
        if let State::Alone { since, .. } = self.state {
            let had = now - since;
            self.state = if had < TOO_SHORT_TO_SHARE { State::Clear } else { State::CoolDown(now + had) };
        }
    }

    /// When the next step may differ without anything happening.
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
        assert_eq!(quarantine.step(now, true, true, PATIENT), Step::ClaimSuspect { alone: true });
        assert_eq!(quarantine.step(now, true, true, PATIENT), Step::Hold);
        quarantine.claimed(Some(Token(7)), now);
        assert_eq!(quarantine.step(now + SECOND, true, false, PATIENT), Step::Hold);
        quarantine.ended(now + SECOND);
        assert_eq!(
            quarantine.step(now + SECOND, true, true, PATIENT),
            Step::Normal,
            "others have their turn"
        );
        assert_eq!(
            quarantine.step(now + SECOND * 2, true, true, PATIENT),
            Step::ClaimSuspect { alone: true }
        );
        quarantine.claimed(None, now);
        assert_eq!(quarantine.step(now + SECOND, false, true, PATIENT), Step::Normal);
    }

    #[test]
    fn a_long_suspect_is_released_into_company() {
        let now = Instant::now();
        let mut quarantine = Quarantine::default();
        quarantine.step(now, true, true, PATIENT);
        quarantine.claimed(Some(Token(7)), now);
        assert_eq!(quarantine.step(now + PATIENT, false, false, PATIENT), Step::Release(Token(7)));
        assert_eq!(quarantine.step(now + PATIENT, false, false, PATIENT), Step::Normal);
    }

    #[test]
    fn a_process_that_never_falls_idle_takes_the_suspect_in_company() {
        let start = Instant::now();
        let mut quarantine = Quarantine::default();
        let mut normal = 0;
        for second in 0..200 {
            match quarantine.step(start + SECOND * second, true, false, PATIENT) {
                Step::Normal => normal += 1,
                Step::Hold => {}
                Step::ClaimSuspect { alone } => {
                    assert!(!alone);
                    assert!(SECOND * second >= PATIENCE, "after {second} s");
                    assert!(normal > second / 2, "ordinary claims went on for only {normal} s");
                    return;
                }
                Step::Release(_) => panic!("nothing ran alone"),
            }
        }
        panic!("the suspect was kept waiting");
    }
}
