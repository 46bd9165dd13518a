//! The budget part of the store contract.

use async_trait::async_trait;

use crate::budget::{
    Alert, Amount, BudgetChange, BudgetMonth, BudgetSpec, BudgetState, Estimate, Month, Refusal, Threshold,
    Trigger, Usage,
};
use crate::id::ReservationId;
use crate::{JobId, StoreError, Time, Token};

/// A reservation belongs to the month it was made in, however late its call ends. All operations on one budget and
/// month are serialized by the lock on that month's row.
#[async_trait]
pub trait BudgetStore: Send + Sync {
    /// Adds new budgets and updates changed ones, including this month's limits. Limits an operator set live are kept.
    /// A budget is never removed. Its currency cannot change once money was booked: that is an error, and nothing is
    /// written.
    async fn sync_budgets(&self, specs: &[BudgetSpec]) -> Result<(), StoreError>;

    /// All budgets by name, with this month's figures.
    async fn budgets(&self) -> Result<Vec<Budget>, StoreError>;

    /// Reserves money or tokens for one provider call, if [`BudgetMonth::reserve`] allows it. `Stale` if the job's
    /// lease is lost.
    async fn reserve(&self, ask: &Ask) -> Result<Reserved, StoreError>;

    /// Replaces a reservation by the actual cost of the call. It is fenced by the open reservation and its token: once
    /// the sweep has booked it, nothing changes. The lease may have ended meanwhile; a known charge is still booked.
    async fn settle_reservation(
        &self,
        id: ReservationId,
        token: Token,
        usage: &Usage,
    ) -> Result<Charged, StoreError>;

    /// Books reservations whose lease is lost at their full sum, because no process is left to report the actual cost.
    /// Handles some hundreds per call; the next call continues.
    async fn sweep_reservations(&self) -> Result<Vec<Leak>, StoreError>;

    /// The last `months` months with figures, newest first. Includes the current month and future months with limits an
    /// operator set. `None` if there is no such budget.
    async fn history(&self, budget: &str, months: u32) -> Result<Option<Vec<BudgetMonth>>, StoreError>;

    /// Alerts of all budgets that fired at `since` or later, oldest first, in whichever process.
    async fn alerts_since(&self, since: Time) -> Result<Vec<Alert>, StoreError>;

    /// Costs of a month by kind, user and provider, largest first. Empty if nothing was booked.
    async fn costs(&self, budget: &str, month: Month) -> Result<Costs, StoreError>;

    /// Ledger entries of a month, newest first.
    async fn ledger(&self, budget: &str, month: Month, limit: u32) -> Result<Vec<Entry>, StoreError>;

    /// Applies an operator's change and audits it.
    async fn change_budget(&self, change: &BudgetChange) -> Result<Changed, StoreError>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// As configured.
    pub spec: BudgetSpec,
    /// This month, with the limits in force.
    pub figures: BudgetMonth,
    /// An operator set this month's limits.
    pub live: bool,
    /// This month's alerts, lowest first.
    pub alerts: Vec<Fired>,
    /// By the database's clock.
    pub now: Time,
}

impl Budget {
    pub fn state(&self) -> BudgetState {
        self.figures.state()
    }

    /// Items a run may process at once; 0 means it must wait.
    pub fn batch_size(&self, trigger: Trigger) -> u32 {
        self.state().batch_size(trigger)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    pub threshold: Threshold,
    pub at: Time,
}

/// A request to reserve for one call.
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
    /// The lease is lost; nothing changed.
    Stale,
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub id: ReservationId,
    /// Includes this reservation.
    pub figures: BudgetMonth,
    /// Fired for the first time this month.
    pub alerts: Vec<Alert>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Charged {
    /// With the alerts it fired: a call may cost more than was reserved.
    Booked(Vec<Alert>),
    /// Already settled; nothing changed.
    Already,
    /// The sweep already booked the full sum; nothing changed.
    Swept,
    /// No such reservation under this token; nothing changed.
    Unknown,
}

/// A reservation that was never settled.
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

/// Key for calls without a user or provider, so that every breakdown adds up to the same sum.
pub const UNKNOWN: &str = "unknown";

/// Maximum length of each breakdown.
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

/// One ledger entry. Tokens of a leaked call are counted as input, because the split is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Time,
    pub how: Booked,
    /// `None` for a reset.
    pub call: Option<Call>,
    pub user: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Negative for a reset, as are the tokens.
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
    /// By an operator.
    Reset,
}

impl Booked {
    pub const ALL: [Booked; 3] = [Booked::Settled, Booked::Leaked, Booked::Reset];

    /// As stored in the ledger.
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
    /// With the alerts that a lower limit fired. Alerts that no longer apply can fire again.
    Done {
        figures: BudgetMonth,
        alerts: Vec<Alert>,
    },
    Unknown,
    /// The month is over and can no longer change.
    Over,
    /// The budget would have no limit left; nothing changed.
    Unbounded,
}
