//! Questions and answers about budgets: the third part of the store contract.

use async_trait::async_trait;

use crate::budget::{
    Alert, Amount, BudgetChange, BudgetSpec, BudgetState, Estimate, Month, Refusal, Standing, Threshold,
    Trigger, Usage,
};
use crate::id::ReservationId;
use crate::{JobId, StoreError, Time, Token};

/// A reservation belongs to the month it was made in, however late its call ends. All verbs about one budget's month
/// take turns on that month's row.
#[async_trait]
pub trait BudgetStore: Send + Sync {
    /// Adds what is new and updates what changed, this month's limits included; limits an operator changed live are
    /// kept. A budget is never removed, and keeps its currency once money was booked: such a change is refused and
    /// nothing is written.
    async fn sync_budgets(&self, specs: &[BudgetSpec]) -> Result<(), StoreError>;

    /// Every budget by name, with this month's figures.
    async fn budgets(&self) -> Result<Vec<Budget>, StoreError>;

    /// Reserves for one provider call; [`Standing::reserve`] decides. Stale when the lease is not live.
    async fn reserve(&self, ask: &Ask) -> Result<Reserved, StoreError>;

    /// Books what the call did cost in place of what was reserved. The fence is the open reservation under its token:
    /// once the sweep has booked it, nothing changes. A lease that ended meanwhile is no reason to forget a charge that
    /// is known.
    async fn settle_reservation(
        &self,
        id: ReservationId,
        token: Token,
        usage: &Usage,
    ) -> Result<Charged, StoreError>;

    /// Books reservations whose lease is no longer live at their full sum: nobody is left to say what the call did
    /// cost. Some hundreds at most; what is left comes with the next call.
    async fn sweep_reservations(&self) -> Result<Vec<Leak>, StoreError>;

    /// The last `months` months that have figures, this one always, and those ahead whose limits an operator set; newest
    /// first. `None` when there is no such budget.
    async fn history(&self, budget: &str, months: u32) -> Result<Option<Vec<Standing>>, StoreError>;

    /// Alerts of every budget that fired at `since` or later, the oldest first, whichever process set them off.
    async fn alerts_since(&self, since: Time) -> Result<Vec<Alert>, StoreError>;

    /// What a month's money went to, the largest sums first; empty when nothing was booked.
    async fn costs(&self, budget: &str, month: Month) -> Result<Costs, StoreError>;

    /// What was booked in a month, newest first.
    async fn ledger(&self, budget: &str, month: Month, limit: u32) -> Result<Vec<Entry>, StoreError>;

    /// An operator's change, with its line in the audit.
    async fn change_budget(&self, change: &BudgetChange) -> Result<Changed, StoreError>;
}

/// A budget as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// As configured.
    pub spec: BudgetSpec,
    /// This month, with the limits in force.
    pub standing: Standing,
    /// An operator changed this month's limits.
    pub live: bool,
    /// This month's alerts, the lowest first.
    pub alerts: Vec<Fired>,
    /// By the database's clock.
    pub now: Time,
}

impl Budget {
    pub fn state(&self) -> BudgetState {
        self.standing.state()
    }

    /// Items a run may take at once; 0 means that it must wait.
    pub fn batch_size(&self, trigger: Trigger) -> u32 {
        self.state().batch_size(trigger)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    pub threshold: Threshold,
    pub at: Time,
}

/// A request for one call's money.
#[derive(Clone, Debug)]
pub struct Ask {
    pub budget: String,
    pub job: JobId,
    pub token: Token,
    pub estimate: Estimate,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reserved {
    Granted(Grant),
    Refused(Refusal),
    /// The lease is not live; nothing changed.
    Stale,
    /// There is no such budget.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub id: ReservationId,
    /// This reservation included.
    pub standing: Standing,
    /// Reached for the first time this month.
    pub alerts: Vec<Alert>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Charged {
    /// With the alerts it set off: a call may cost more than was reserved.
    Booked(Vec<Alert>),
    /// It was settled before; nothing changed.
    Already,
    /// The sweep was faster and booked the full sum; nothing changed.
    Swept,
    /// No such reservation under this token; nothing changed.
    Unknown,
}

/// A reservation nobody settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    pub id: ReservationId,
    pub budget: String,
    pub month: Month,
    pub kind: String,
    pub job: JobId,
    pub amount: Amount,
    pub tokens: u64,
}

/// Under this key stand calls whose user or provider nobody named, so that every list adds up to the same sum.
pub const UNKNOWN: &str = "unknown";

/// No list of costs is longer.
pub const COSTS_SHOWN: u32 = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    pub by_kind: Vec<Cost>,
    pub by_user: Vec<Cost>,
    pub by_provider: Vec<Cost>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The kind, user or provider.
    pub key: String,
    pub requests: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub amount: Amount,
}

/// One line of the ledger. A leaked call's tokens are counted as input: which they were is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Time,
    pub how: Booked,
    /// Nothing on a line that takes others back.
    pub call: Option<Call>,
    pub user: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Below zero on a line that takes others back, as are the tokens.
    pub amount: Amount,
    pub tokens_in: i64,
    pub tokens_out: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub reservation: ReservationId,
    pub job: JobId,
    pub kind: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booked {
    Settled,
    Leaked,
    /// An operator's reset.
    Reset,
}

impl Booked {
    pub const ALL: [Booked; 3] = [Booked::Settled, Booked::Leaked, Booked::Reset];

    /// The word in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Booked::Settled => "settled",
            Booked::Leaked => "leaked",
            Booked::Reset => "reset",
        }
    }

    pub fn named(name: &str) -> Option<Booked> {
        Booked::ALL.into_iter().find(|booked| booked.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// Alerts that a lower limit set off. Those that no longer hold may fire again.
    Done { standing: Standing, alerts: Vec<Alert> },
    /// There is no such budget.
    Unknown,
    /// The month is over: its books are closed.
    Over,
    /// No limit would be left; nothing changed.
    Unbounded,
}
