//! Configuration and display of budgets.

use windlass_core::StoreError;
use windlass_core::budget::{
    Amount, BudgetMonth, BudgetSpec, BudgetState, Level, Limits, Month, Sums, Threshold, Trigger,
};
use windlass_core::store::{AuditFilter, Changed, Reserved};

use super::Harness;
use super::budget_fixture::{AI, BudgetFixture, LIMIT, ask, cents, spec};

pub async fn specs_are_stored_and_read(h: Harness) {
    assert!(h.store.budgets().await.unwrap().is_empty());
    let thresholds = vec![
        Threshold { percent: 50, level: Level::Critical },
        Threshold { percent: 150, level: Level::Info },
    ];
    let tokens = BudgetSpec {
        tokens: Some(1_000_000_000_000),
        currency: "EUR".to_owned(),
        thresholds,
        ..BudgetSpec::named("words")
    };
    let both =
        BudgetSpec { tokens: Some(0), limit: Some(Amount(1)), thresholds: Vec::new(), ..tokens.clone() };
    let both = BudgetSpec { name: "both".to_owned(), ..both };
    h.store.sync_budgets(&[tokens.clone(), both.clone()]).await.unwrap();
    h.store.sync_budgets(&[]).await.unwrap();
    let budgets = h.store.budgets().await.unwrap();
    let month = Month::of(h.now().await);
    for (budget, spec) in budgets.iter().zip([&both, &tokens]) {
        assert_eq!(budget.spec, *spec, "by name");
        let limits = Limits { amount: spec.limit, tokens: spec.tokens };
        let fresh = BudgetMonth { month, limits, settled: Sums::default(), reserved: Sums::default() };
        assert_eq!((budget.figures, budget.live, budget.alerts.len()), (fresh, false, 0));
    }
    assert_eq!(budgets.len(), 2);
}

pub async fn a_new_limit_applies_to_this_month(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    fixture.spend(&job, 100).await;
    let before = fixture.month().await;
    fixture.go_to(before.next()).await;
    fixture.spend(&job, 50).await;
    h.store
        .sync_budgets(&[BudgetSpec { tokens: Some(5), ..BudgetSpec::money(AI, cents(777)) }])
        .await
        .unwrap();
    let months = h.store.history(AI, 12).await.unwrap().unwrap();
    let limits: Vec<Limits> = months.iter().map(|figures| figures.limits).collect();
    let now = Limits { amount: Some(cents(777)), tokens: Some(5) };
    assert_eq!(limits, [now, Limits { amount: Some(cents(LIMIT)), tokens: None }]);
    assert_eq!(fixture.sums().await, (50, 0), "what was booked stays");
}

pub async fn a_live_limit_survives_a_sync(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let change = fixture.to_limit(12_345).await;
    fixture.change(&change).await;
    h.store.sync_budgets(&[BudgetSpec { tokens: Some(9), ..spec() }]).await.unwrap();
    let budget = fixture.budget().await;
    let limits = Limits { amount: Some(cents(12_345)), tokens: Some(9) };
    assert_eq!((budget.figures.limits, budget.live), (limits, true), "only what was set live is kept");
    assert_eq!(budget.spec.limit, Some(cents(LIMIT)));
    fixture.go_to(fixture.month().await.next()).await;
    let budget = fixture.budget().await;
    assert_eq!(
        (budget.figures.limits.amount, budget.live),
        (Some(cents(LIMIT)), false),
        "for that month only"
    );
}

pub async fn booked_money_keeps_its_currency(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let euros = BudgetSpec { currency: "EUR".to_owned(), ..spec() };
    let other = BudgetSpec { limit: Some(cents(1)), ..BudgetSpec::named("other") };
    h.store.sync_budgets(std::slice::from_ref(&euros)).await.unwrap();
    h.store.sync_budgets(&[spec()]).await.unwrap();
    fixture.granted(&fixture.lease().await, 1).await;
    let refused = h.store.sync_budgets(&[other, euros]).await;
    assert!(
        matches!(&refused, Err(StoreError::CurrencyChanged { budget, stored, wanted })
            if (budget.as_str(), stored.as_str(), wanted.as_str()) == (AI, "USD", "EUR")),
        "{refused:?}"
    );
    assert_eq!(h.store.budgets().await.unwrap().len(), 1, "nothing is written");
}

pub async fn several_processes_sync_at_once(h: Harness) {
    let second = h.open().await;
    let specs = [spec(), BudgetSpec::money("b", cents(1)), BudgetSpec::money("c", cents(2))];
    let reversed: Vec<BudgetSpec> = specs.iter().rev().cloned().collect();
    for _ in 0..20 {
        let (one, two) = tokio::join!(h.store.sync_budgets(&specs), second.sync_budgets(&reversed));
        one.unwrap();
        two.unwrap();
    }
    assert_eq!(h.store.budgets().await.unwrap().len(), 3);
}

pub async fn history_is_newest_first_and_bounded(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let first = fixture.month().await;
    for cost in [10, 20] {
        fixture.spend(&job, cost).await;
        fixture.go_to(fixture.month().await.next()).await;
    }
    // A month without calls has no row.
    fixture.go_to(fixture.month().await.next()).await;
    let listed = async |months| {
        let standings = h.store.history(AI, months).await.unwrap().unwrap();
        standings.iter().map(|s| (s.month, s.settled.amount.cents())).collect::<Vec<_>>()
    };
    let (second, now) = (first.next(), first.next().next().next());
    assert_eq!(listed(12).await, [(now, 0), (second, 20), (first, 10)]);
    assert_eq!(listed(3).await, [(now, 0), (second, 20)]);
    assert_eq!(listed(1).await, [(now, 0)]);
}

pub async fn an_unknown_budget_is_none(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let mut asked = ask(&job, 1, Trigger::Manual);
    asked.budget = "nope".to_owned();
    assert_eq!(h.store.reserve(&asked).await.unwrap(), Reserved::Unknown);
    assert_eq!(h.store.history("nope", 12).await.unwrap(), None);
    let month = fixture.month().await;
    assert_eq!(h.store.costs("nope", month).await.unwrap(), Default::default());
    assert!(h.store.ledger("nope", month, 10).await.unwrap().is_empty());
    let mut change = fixture.to_limit(5).await;
    change.budget = "nope".to_owned();
    assert_eq!(h.store.change_budget(&change).await.unwrap(), Changed::Unknown);
    assert!(h.store.audit(&AuditFilter::newest(10)).await.unwrap().is_empty());
}

/// The shown state follows from the shown usage.
pub async fn the_state_follows_usage(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    for (cost, state) in [
        (7_499, BudgetState::Normal),
        (1, BudgetState::Reduce),
        (1_500, BudgetState::Queue),
        (1_000, BudgetState::HardStop),
    ] {
        fixture.granted(&job, cost).await;
        assert_eq!(fixture.figures().await.state(), state);
    }
}
