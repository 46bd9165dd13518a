//! The caller and what it may do.

use windlass_core::audit::Actor;

/// What a route requires and a caller is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Anyone, without a key: liveness, the pages themselves.
    Open,
    /// Read jobs, queues, entities, budgets, audit.
    Read,
    /// Lease and settle jobs.
    Lease,
    /// Write application data: jobs, workflows, entities.
    Write,
    /// Actions of operators: pause, limits, retry, cancel, schedules, types, cleanup.
    Operate,
    /// Keys and erasure.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 6] =
        [Scope::Open, Scope::Read, Scope::Lease, Scope::Write, Scope::Operate, Scope::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Scope::Open => "open",
            Scope::Read => "read",
            Scope::Lease => "lease",
            Scope::Write => "write",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
        }
    }
}

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Principal {
    actor: Actor,
    granted: Vec<Scope>,
}

impl Principal {
    pub fn new(actor: Actor, granted: impl IntoIterator<Item = Scope>) -> Principal {
        Principal { actor, granted: granted.into_iter().collect() }
    }

    /// A caller of a server without keys, with all scopes. The name says how it connected.
    pub fn unrestricted(name: &str) -> Principal {
        Principal::new(Actor::new(name), Scope::ALL)
    }

    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    pub fn may(&self, scope: Scope) -> bool {
        scope == Scope::Open || self.granted.contains(&scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_scopes_are_granted() {
        let reader = Principal::new(Actor::new("reader"), [Scope::Read]);
        let may: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| reader.may(*scope)).collect();
        assert_eq!(may, [Scope::Open, Scope::Read]);
        assert!(Scope::ALL.into_iter().all(|scope| Principal::unrestricted("cli").may(scope)));
    }
}
