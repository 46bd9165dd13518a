//! Budgets as a handler and an operator use them: reserve before a provider call, settle after it.
//!
//! A refusal becomes a snooze here. `core::budget` decides whether a call fits, in the store, under the month's lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::budget::{BudgetChange, BudgetSpec, BudgetState, Estimate, Refusal, Trigger, Usage};
use windlass_core::store::{Ask, Budget, Changed, Charged, Reserved};
use windlass_core::{Invalid, ReservationId, StoreError, Token};

use crate::alert::raise;
use crate::{Client, Context, EngineError, JobError};

/// Why there is no reservation. Not a `std::error::Error`, so that `?` turns a refusal into a snooze that burns no
/// attempt instead of a retry.
#[derive(Clone, Debug)]
pub enum ReserveError {
    /// The call must wait.
    Refused {
        budget: String,
        refusal: Refusal,
    },
    /// The lease was lost: nothing this run does from here on is recorded.
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

/// Snooze while the database is unavailable: that burns no attempt either.
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

/// Money reserved for one provider call. Settle it with the actual cost. A dropped reservation is booked in full by the
/// sweeper once the job's lease has ended, because the call may have been made.
#[must_use = "a reservation that is not settled is booked in full"]
pub struct Reservation {
    client: Client,
    id: ReservationId,
    token: Token,
    state: BudgetState,
}

impl Reservation {
    /// The call's key in the ledger; can serve as the provider's idempotency key.
    pub fn id(&self) -> ReservationId {
        self.id
    }

    /// The budget's state, this call included.
    pub fn state(&self) -> BudgetState {
        self.state
    }

    /// Books the actual cost; `Usage::default()` for a call that was not made or not charged.
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
    /// Reserves what a provider call may cost, bound to this job's lease. With `?` a refusal snoozes the job: to the
    /// next hour, or to the next month when this month's money is spent.
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
                let state = grant.figures.state();
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

    /// What triggered this run, as [`Context::reserve`] assumes where the estimate has no trigger: a person if the
    /// job's tag `trigger:manual` or the field `trigger` of its payload says so, else a schedule.
    pub async fn trigger(&self) -> Result<Trigger, StoreError> {
        if Trigger::is_manual_in(self.payload()) {
            return Ok(Trigger::Manual);
        }
        let found = self.client().store().job(self.job_id()).await?;
        Ok(found.map_or(Trigger::Scheduled, |found| Trigger::of_tags(&found.job.tags)))
    }

    /// A budget with its state and how many items a run may take at once.
    pub async fn budget(&self, budget: &str) -> Result<Budget, ReserveError> {
        let found = self.client().budget(budget).await.map_err(|e| ReserveError::Store(Arc::new(e)))?;
        found.ok_or_else(|| ReserveError::Unknown { budget: budget.to_owned() })
    }
}

impl Client {
    /// Registers configured budgets. Limits that an operator changed live are kept.
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

    /// An operator's change; raises the alerts it fires.
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
