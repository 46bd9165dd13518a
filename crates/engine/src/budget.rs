//! Budgets as a handler and an operator use them: reserve before a provider call, settle after it.
//!
//! Owns how a refusal becomes a snooze. Never decides whether a call fits: `core::budget` does, in the store, under the
//! month's lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{BudgetChange, BudgetSpec, BudgetState, Estimate, Refusal, Trigger, Usage};
use windlass_core::store::{Ask, Budget, Changed, Charged, Reserved};
use windlass_core::{Invalid, ReservationId, StoreError, Token};

use crate::alert::raise;
use crate::{Client, Context, EngineError, JobError};

/// Why there is no reservation. Not a `std::error::Error`, because `?` must make of a refusal what it is: a snooze that
/// burns no attempt.
#[derive(Clone, Debug)]
pub enum ReserveError {
    /// The call must wait.
    Refused {
        budget: String,
        refusal: Refusal,
    },
    /// The lease was lost: whatever this run says from here on changes nothing.
    Stale,
    Unknown {
        budget: String,
    },
    Invalid(Invalid),
    Store(Arc<StoreError>),
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::Refused { budget, refusal } => write!(f, "budget {budget}: {refusal}"),
            ReserveError::Stale => f.write_str("the lease was lost; nothing was reserved"),
            ReserveError::Unknown { budget } => write!(
                f,
                "there is no budget `{}`; describe it under [budgets.NAME] or with Builder::budget",
                windlass_core::input::shown(budget)
            ),
            ReserveError::Invalid(invalid) => invalid.fmt(f),
            ReserveError::Store(error) => f.write_str(&error.chain()),
        }
    }
}

/// A database that cannot be asked burns no attempt either.
const SOON: Duration = Duration::from_secs(10);

impl From<ReserveError> for JobError {
    fn from(error: ReserveError) -> JobError {
        match &error {
            ReserveError::Refused { refusal, .. } => {
                JobError::snooze_because(refusal.delay(fastrand::f64()), &error)
            }
            ReserveError::Invalid(invalid) => JobError::fail(invalid),
            ReserveError::Store(cause) if cause.is_transient() => JobError::snooze_because(SOON, &error),
            _ => JobError::retry(error),
        }
    }
}

/// Money set aside for one provider call. Settle it with what the call did cost. One that is dropped is booked in full by
/// the sweep once the job's lease has ended: nobody can tell whether the call was made.
#[must_use = "a reservation that is not settled is booked in full"]
pub struct Reservation {
    client: Client,
    id: ReservationId,
    token: Token,
    state: BudgetState,
}

impl Reservation {
    /// The call's key in the ledger; good as the provider's idempotency key.
    pub fn id(&self) -> ReservationId {
        self.id
    }

    /// The budget's state with this call in it.
    pub fn state(&self) -> BudgetState {
        self.state
    }

    /// Books what the call did cost; a call that was not made, or not charged, cost nothing (`Usage::default()`).
    pub async fn settle(self, usage: Usage) -> Result<Charged, EngineError> {
        usage.check()?;
        let charged = self.client.store().settle_reservation(self.id, self.token, &usage).await?;
        match &charged {
            Charged::Booked(alerts) => raise(self.client.meter(), alerts),
            late => {
                tracing::warn!(reservation = %self.id, ?late, "a charge came too late and changed nothing")
            }
        }
        Ok(charged)
    }
}

impl Context {
    /// Sets aside what a provider call may cost, bound to this job's lease. With `?` a refusal snoozes the job: to the next
    /// hour, or to the next month when this one's money is spent.
    pub async fn reserve(&self, budget: &str, mut estimate: Estimate) -> Result<Reservation, ReserveError> {
        if estimate.trigger.is_none() && Trigger::is_manual_in(self.payload()) {
            estimate.trigger = Some(Trigger::Manual);
        }
        estimate.check().map_err(ReserveError::Invalid)?;
        let client = self.client();
        let ask = Ask { budget: budget.to_owned(), job: self.job_id(), token: self.token(), estimate };
        let reserved = client.store().reserve(&ask).await.map_err(|e| ReserveError::Store(Arc::new(e)))?;
        match reserved {
            Reserved::Granted(grant) => {
                raise(client.meter(), &grant.alerts);
                let state = grant.standing.state();
                Ok(Reservation { client: client.clone(), id: grant.id, token: ask.token, state })
            }
            Reserved::Refused(refusal) => {
                client.meter().refused(budget, refusal.state);
                tracing::info!(budget, job.id = ask.job.0, %refusal, "a call must wait for its budget");
                Err(ReserveError::Refused { budget: ask.budget, refusal })
            }
            Reserved::Stale => Err(ReserveError::Stale),
            Reserved::Unknown => Err(ReserveError::Unknown { budget: ask.budget }),
        }
    }

    /// Who asked for this run, as [`Context::reserve`] takes it where the estimate says nothing: a person when the job's tag
    /// `trigger:manual` or the field `trigger` of its payload says so.
    pub async fn trigger(&self) -> Result<Trigger, StoreError> {
        if Trigger::is_manual_in(self.payload()) {
            return Ok(Trigger::Manual);
        }
        let found = self.client().store().job(self.job_id()).await?;
        Ok(found.map_or(Trigger::Scheduled, |found| Trigger::of_tags(&found.job.tags)))
    }

    /// Where a budget stands: its state, and how many items a run may take at once.
    pub async fn budget(&self, budget: &str) -> Result<Budget, ReserveError> {
        let found = self.client().budget(budget).await.map_err(|e| ReserveError::Store(Arc::new(e)))?;
        found.ok_or_else(|| ReserveError::Unknown { budget: budget.to_owned() })
    }
}

impl Client {
    /// Registers budgets, as configured. Limits an operator changed live are kept.
    pub async fn set_budgets(&self, specs: &[BudgetSpec]) -> Result<(), EngineError> {
        check_specs(specs)?;
        if !specs.is_empty() {
            self.store().sync_budgets(specs).await?;
        }
        Ok(())
    }

    /// One budget with this month's figures.
    pub async fn budget(&self, name: &str) -> Result<Option<Budget>, StoreError> {
        let budgets = self.store().budgets().await?;
        Ok(budgets.into_iter().find(|budget| budget.spec.name == name))
    }

    /// An operator's change; the alerts it sets off are raised here.
    pub async fn change_budget(&self, change: &BudgetChange) -> Result<Changed, EngineError> {
        change.check()?;
        let changed = self.store().change_budget(change).await?;
        if let Changed::Done { alerts, .. } = &changed {
            raise(self.meter(), alerts);
        }
        Ok(changed)
    }
}

/// Every broken rule of every budget at once.
fn check_specs(specs: &[BudgetSpec]) -> Result<(), Invalid> {
    let mut invalid = Invalid::default();
    for (n, spec) in specs.iter().enumerate() {
        let name = windlass_core::input::shown(&spec.name);
        for problem in spec.check().err().map(|invalid| invalid.problems).unwrap_or_default() {
            invalid.add(format!("budgets.{name}.{}", problem.field), problem.rule);
        }
        if specs[..n].iter().any(|other| other.name == spec.name) {
            invalid.add(format!("budgets.{name}"), "is described twice");
        }
    }
    invalid.into_result()
}
