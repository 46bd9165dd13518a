//! Operator changes of budgets: they apply at once, to one month, and are audited.

use windlass_core::audit::Actor;
use windlass_core::budget::{Amount, BudgetChange, BudgetSpec, BudgetState, Trigger};
use windlass_core::store::{AuditFilter, Booked, Changed, Charged, Live};

use super::Harness;
use super::budget_fixture::{AI, BudgetFixture, LIMIT, cents};

pub async fn a_raised_limit_counts_at_once(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let second = h.open().await;
    let job = fixture.lease().await;
    fixture.granted(&job, LIMIT).await;
    fixture.refused(&job, 1, Trigger::Manual).await;
    let raise = fixture.to_limit(LIMIT * 2).await;
    let changed = second.change_budget(&raise).await.unwrap();
    let Changed::Done { figures, alerts } = changed else { panic!("{changed:?}") };
    assert_eq!((figures.limits.amount, alerts.len()), (Some(cents(LIMIT * 2)), 0));
    assert_eq!(figures, fixture.figures().await);
    assert_eq!(figures.state(), BudgetState::Normal);
    fixture.granted(&job, 1).await;
}

pub async fn a_lowered_limit_stops_at_once(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    fixture.spend(&job, 100).await;
    let lower = fixture.to_limit(100).await;
    fixture.change(&lower).await;
    assert_eq!(fixture.refused(&job, 0, Trigger::Manual).await.state, BudgetState::HardStop);
    let none = fixture.to_limit(0).await;
    fixture.change(&none).await;
    assert_eq!(fixture.figures().await.state(), BudgetState::HardStop, "nothing may be used");
}

pub async fn a_token_limit_can_be_set_live(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let change =
        BudgetChange { limit: None, tokens: Some(Live::Set(Some(150))), ..fixture.to_limit(0).await };
    fixture.change(&change).await;
    let limits = fixture.figures().await.limits;
    assert_eq!((limits.amount, limits.tokens), (Some(cents(LIMIT)), Some(150)));
    fixture.granted(&job, 1).await;
    fixture.refused(&job, 1, Trigger::Scheduled).await;
}

/// A live limit can be removed or returned to the configuration; at least one limit must stay.
pub async fn a_live_limit_can_be_removed(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let nothing = BudgetChange { limit: None, ..fixture.to_limit(0).await };
    let tokens = |tokens| BudgetChange { tokens: Some(tokens), ..nothing.clone() };
    let limit = |limit| BudgetChange { limit: Some(limit), ..nothing.clone() };
    let live = async || fixture.budget().await.live;
    fixture.change(&tokens(Live::Set(Some(150)))).await;
    assert_eq!(
        h.store.change_budget(&limit(Live::Set(None))).await.unwrap(),
        done(&fixture, None, Some(150)).await
    );
    let unbounded = h.store.change_budget(&tokens(Live::Set(None))).await.unwrap();
    assert_eq!(unbounded, Changed::Unbounded);
    assert_eq!((fixture.figures().await.limits.tokens, live().await), (Some(150), true));
    fixture.change(&limit(Live::Configured)).await;
    fixture.change(&tokens(Live::Set(None))).await;
    let limits = fixture.figures().await.limits;
    assert_eq!((limits.amount, limits.tokens), (Some(cents(LIMIT)), None));
    let spec = BudgetSpec { tokens: Some(9), ..BudgetSpec::money(AI, cents(77)) };
    h.store.sync_budgets(&[spec]).await.unwrap();
    let limits = fixture.figures().await.limits;
    assert_eq!((limits.amount, limits.tokens), (Some(cents(77)), None), "given back; taken away");
    fixture.change(&tokens(Live::Configured)).await;
    assert_eq!((fixture.figures().await.limits.tokens, live().await), (Some(9), false));
    let acts = h.store.audit(&AuditFilter::newest(10)).await.unwrap();
    let said: Vec<&str> = acts.iter().map(|act| act.detail.as_str()).collect();
    assert_eq!(
        said,
        [
            r#"{"tokens":{"from":null,"to":9}}"#,
            r#"{"tokens":{"from":150,"to":null}}"#,
            r#"{"limit":{"from":null,"to":"100.00"}}"#,
            r#"{"limit":{"from":"100.00","to":null}}"#,
            r#"{"tokens":{"from":null,"to":150}}"#,
        ]
    );
}

async fn done(fixture: &BudgetFixture<'_>, amount: Option<Amount>, tokens: Option<u64>) -> Changed {
    let mut figures = fixture.figures().await;
    (figures.limits.amount, figures.limits.tokens) = (amount, tokens);
    Changed::Done { figures, alerts: Vec::new() }
}

pub async fn a_reset_clears_the_month(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    fixture.spend(&job, 9_000).await;
    let open = fixture.granted(&job, 1_000).await;
    assert_eq!(fixture.fired().await.len(), 4);
    let reset = fixture.to_reset().await;
    let figures = fixture.change(&reset).await;
    assert_eq!((figures.settled.amount, figures.settled.tokens), (cents(0), 0));
    assert_eq!(fixture.sums().await, (0, 1_000), "open calls stay reserved");
    assert!(fixture.fired().await.is_empty(), "alerts may fire again");
    let month = fixture.month().await;
    assert_eq!(h.store.costs(AI, month).await.unwrap(), Default::default());
    let ledger = fixture.ledger(month).await;
    assert_eq!((ledger.len(), ledger[0].how, ledger[0].call.is_none()), (2, Booked::Reset, true));
    assert_eq!((ledger[0].amount.cents(), ledger[0].tokens_in, ledger[0].tokens_out), (-9_000, -70, -20));
    fixture.check_sums(month).await;
    assert_eq!(fixture.settle(&job, open.id, 500).await, Charged::Booked(Vec::new()));
    assert_eq!(fixture.sums().await, (500, 0));
    fixture.check_sums(month).await;
    fixture.change(&fixture.to_reset().await).await;
    fixture.check_sums(month).await;
}

pub async fn budget_changes_are_audited(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    fixture.spend(&fixture.lease().await, 25).await;
    let before = h.now().await;
    let (raise, reset) = (fixture.to_limit(75_000).await, fixture.to_reset().await);
    fixture.change(&raise).await;
    fixture
        .change(&BudgetChange {
            actor: Some(Actor::new("operator \"Ö\"")),
            tokens: Some(Live::Set(Some(7))),
            ..reset
        })
        .await;
    let acts = h.store.audit(&AuditFilter::newest(10)).await.unwrap();
    let subject = format!("budget/ai/{}", fixture.month().await);
    assert!(acts.iter().all(|act| act.act == "budget.change" && act.subject == subject && act.at >= before));
    let said: Vec<(&str, &str)> = acts.iter().map(|act| (act.actor.as_str(), act.detail.as_str())).collect();
    assert_eq!(
        said,
        [
            (
                "operator \"Ö\"",
                r#"{"tokens":{"from":null,"to":7},"settled":{"from":"0.25","to":"0.00"},"tokens_used":{"from":90,"to":0}}"#
            ),
            ("operator", r#"{"limit":{"from":"100.00","to":"750.00"}}"#),
        ],
        "newest first"
    );
    assert_eq!(h.store.audit(&AuditFilter::newest(1)).await.unwrap(), acts[..1]);
    assert_eq!(
        h.store.audit(&AuditFilter { before: Some(acts[0].seq), ..AuditFilter::newest(10) }).await.unwrap(),
        acts[1..],
        "records before a given one"
    );
}

pub async fn a_past_month_cannot_be_changed(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    fixture.spend(&fixture.lease().await, 25).await;
    let (limit, reset) = (fixture.to_limit(1).await, fixture.to_reset().await);
    let before = fixture.month().await;
    fixture.go_to(before.next()).await;
    for change in [limit, reset] {
        assert_eq!(h.store.change_budget(&change).await.unwrap(), Changed::Over);
    }
    let old = h.store.history(AI, 2).await.unwrap().unwrap()[1];
    assert_eq!((old.settled.amount, old.limits.amount), (cents(25), Some(cents(LIMIT))));
    assert!(h.store.audit(&AuditFilter::newest(10)).await.unwrap().is_empty());
}

pub async fn a_future_month_can_be_changed(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let next = fixture.month().await.next();
    let change = BudgetChange { month: next, ..fixture.to_limit(5).await };
    fixture.change(&change).await;
    assert_eq!(fixture.figures().await.limits.amount, Some(cents(LIMIT)), "not this one");
    let history = async || -> Vec<_> {
        let months = h.store.history(AI, 1).await.unwrap().unwrap();
        months.iter().map(|figures| (figures.month, figures.limits.amount)).collect()
    };
    let (this, configured) = (fixture.month().await, Some(cents(LIMIT)));
    assert_eq!(history().await, [(next, Some(cents(5))), (this, configured)], "what was set ahead is shown");
    fixture.change(&BudgetChange { limit: Some(Live::Configured), ..change.clone() }).await;
    assert_eq!(history().await, [(this, configured)], "no live limit is left");
    fixture.change(&change).await;
    for limit in [5, LIMIT] {
        fixture.go_to(fixture.month().await.next()).await;
        assert_eq!(fixture.figures().await.limits.amount, Some(cents(limit)));
    }
}
