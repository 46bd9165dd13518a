//! The start of every budget case: a clock in the middle of a month, a worker, and short methods to reserve, settle and
//! read.

use std::time::Duration;

use windlass_core::audit::Actor;
use windlass_core::budget::{
    Amount, BudgetChange, BudgetMonth, BudgetSpec, Estimate, Month, Refusal, Trigger, Usage,
};
use windlass_core::store::{Ask, Budget, Changed, Charged, Cost, Entry, Grant, Live, Reserved};
use windlass_core::{LeasedJob, NewJob, ReservationId, Store, WorkerId};

use super::Harness;

/// The budget of the cases: 100.00 a month.
pub(super) const AI: &str = "ai";
pub(super) const LIMIT: i64 = 10_000;

pub(super) struct BudgetFixture<'h> {
    pub(super) h: &'h Harness,
    pub(super) worker: WorkerId,
}

pub(super) fn cents(cents: i64) -> Amount {
    Amount::from_cents(cents)
}

pub(super) fn spec() -> BudgetSpec {
    BudgetSpec::money(AI, cents(LIMIT))
}

pub(super) fn ask(job: &LeasedJob, asked: i64, trigger: Trigger) -> Ask {
    let estimate = Estimate { amount: cents(asked), tokens: 100, trigger: Some(trigger), user: None };
    Ask { budget: AI.to_owned(), job: job.id, token: job.token, estimate }
}

/// A call that cost this many cents and 90 tokens.
pub(super) fn usage(cost: i64) -> Usage {
    Usage {
        amount: cents(cost),
        tokens_in: 70,
        tokens_out: 20,
        provider: Some("anthropic".to_owned()),
        model: Some("large".to_owned()),
    }
}

impl<'h> BudgetFixture<'h> {
    pub(super) async fn new(h: &'h Harness) -> BudgetFixture<'h> {
        let fixture = BudgetFixture { h, worker: h.worker().await };
        fixture.go_to(fixture.month().await.next()).await;
        fixture.h.store.sync_budgets(&[spec()]).await.unwrap();
        fixture
    }

    /// The current month by the database's clock.
    pub(super) async fn month(&self) -> Month {
        Month::of(self.h.now().await)
    }

    /// Moves the clock to the middle of a month, far from its ends.
    pub(super) async fn go_to(&self, month: Month) {
        let there = month.start().plus(Duration::from_secs(14 * 86_400));
        self.h.advance(there.since(self.h.now().await));
        assert_eq!(self.month().await, month);
    }

    pub(super) async fn lease(&self) -> LeasedJob {
        self.lease_of(self.h.job()).await
    }

    pub(super) async fn lease_of(&self, job: NewJob) -> LeasedJob {
        let id = self.h.put(job).await;
        let leased = self.h.claim_one(self.worker).await;
        assert_eq!(leased.id, id);
        leased
    }

    pub(super) async fn reserve(&self, job: &LeasedJob, asked: i64, trigger: Trigger) -> Reserved {
        self.h.store.reserve(&ask(job, asked, trigger)).await.unwrap()
    }

    /// Reserves for a manual call; must be granted.
    pub(super) async fn granted(&self, job: &LeasedJob, asked: i64) -> Grant {
        granted(self.reserve(job, asked, Trigger::Manual).await)
    }

    pub(super) async fn refused(&self, job: &LeasedJob, asked: i64, trigger: Trigger) -> Refusal {
        match self.reserve(job, asked, trigger).await {
            Reserved::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn settle(&self, job: &LeasedJob, id: ReservationId, cost: i64) -> Charged {
        self.settle_on(&*self.h.store, job, id, cost).await
    }

    pub(super) async fn settle_on(
        &self,
        handle: &dyn Store,
        job: &LeasedJob,
        id: ReservationId,
        cost: i64,
    ) -> Charged {
        handle.settle_reservation(id, job.token, &usage(cost)).await.unwrap()
    }

    /// A whole call: reserves and settles.
    pub(super) async fn spend(&self, job: &LeasedJob, cost: i64) -> Grant {
        let grant = self.granted(job, cost).await;
        assert_eq!(self.settle(job, grant.id, cost).await, Charged::Booked(Vec::new()));
        grant
    }

    pub(super) async fn budget(&self) -> Budget {
        let mut budgets = self.h.store.budgets().await.unwrap();
        budgets.retain(|budget| budget.spec.name == AI);
        assert_eq!(budgets.len(), 1);
        budgets.remove(0)
    }

    pub(super) async fn figures(&self) -> BudgetMonth {
        self.budget().await.figures
    }

    /// Cents settled and reserved this month.
    pub(super) async fn sums(&self) -> (i64, i64) {
        let figures = self.figures().await;
        (figures.settled.amount.cents(), figures.reserved.amount.cents())
    }

    /// Percentages of the alerts that fired this month.
    pub(super) async fn fired(&self) -> Vec<u16> {
        self.budget().await.alerts.iter().map(|fired| fired.threshold.percent).collect()
    }

    pub(super) async fn ledger(&self, month: Month) -> Vec<Entry> {
        self.h.store.ledger(AI, month, 10_000).await.unwrap()
    }

    pub(super) async fn change(&self, change: &BudgetChange) -> BudgetMonth {
        match self.h.store.change_budget(change).await.unwrap() {
            Changed::Done { figures, .. } => figures,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn to_limit(&self, limit: i64) -> BudgetChange {
        BudgetChange { limit: Some(Live::Set(Some(cents(limit)))), ..self.nothing().await }
    }

    pub(super) async fn to_reset(&self) -> BudgetChange {
        BudgetChange { reset: true, ..self.nothing().await }
    }

    async fn nothing(&self) -> BudgetChange {
        BudgetChange::new(AI, self.month().await, Some(&Actor::new("operator")))
    }

    /// The sums of the month equal its ledger and its sums by kind, user and provider.
    pub(super) async fn check_sums(&self, month: Month) {
        let months = self.h.store.history(AI, 100).await.unwrap().unwrap();
        let figures = months.into_iter().find(|figures| figures.month == month).unwrap();
        let ledger = self.ledger(month).await;
        let amount: i64 = ledger.iter().map(|entry| entry.amount.0).sum();
        let tokens: i64 = ledger.iter().map(|entry| entry.tokens_in + entry.tokens_out).sum();
        assert_eq!((amount, tokens), (figures.settled.amount.0, figures.settled.tokens as i64), "{ledger:?}");
        let costs = self.h.store.costs(AI, month).await.unwrap();
        for by in [costs.by_kind, costs.by_user, costs.by_provider] {
            let amount: i64 = by.iter().map(|cost: &Cost| cost.amount.0).sum();
            let tokens: u64 = by.iter().map(|cost| cost.tokens_in + cost.tokens_out).sum();
            assert_eq!((amount, tokens), (figures.settled.amount.0, figures.settled.tokens), "{by:?}");
        }
    }
}

pub(super) fn granted(reserved: Reserved) -> Grant {
    match reserved {
        Reserved::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}
