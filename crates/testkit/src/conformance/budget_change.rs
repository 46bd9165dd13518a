//! What operators change: at once, for one month, and on record.

use windlass_core::audit::Actor;
use windlass_core::budget::{Amount, BudgetChange, BudgetSpec, BudgetState, Trigger};
use windlass_core::store::{ActFilter, Booked, Changed, Charged, Live};

use super::Harness;
use super::till::{AI, LIMIT, Till, cents};

pub async fn a_raised_limit_counts_at_once(h: Harness) {
    let till = Till::new(&h).await;
    let second = h.open().await;
    let job = till.lease().await;
    till.granted(&job, LIMIT).await;
    till.refused(&job, 1, Trigger::Manual).await;
    let raise = till.to_limit(LIMIT * 2).await;
    let changed = second.change_budget(&raise).await.unwrap();
    let Changed::Done { standing, alerts } = changed else { panic!("{changed:?}") };
    assert_eq!((standing.limits.amount, alerts.len()), (Some(cents(LIMIT * 2)), 0));
    assert_eq!(standing, till.standing().await);
    assert_eq!(standing.state(), BudgetState::Normal);
    till.granted(&job, 1).await;
}

pub async fn a_lowered_limit_stops_at_once(h: Harness) {
    let till = Till::new(&h).await;
    let job = till.lease().await;
    till.spend(&job, 100).await;
    let lower = till.to_limit(100).await;
    till.change(&lower).await;
    assert_eq!(till.refused(&job, 0, Trigger::Manual).await.state, BudgetState::HardStop);
    let none = till.to_limit(0).await;
    till.change(&none).await;
    assert_eq!(till.standing().await.state(), BudgetState::HardStop, "nothing may be used");
}

pub async fn tokens_are_limited_live_too(h: Harness) {
    let till = Till::new(&h).await;
    let job = till.lease().await;
    let change = BudgetChange { limit: None, tokens: Some(Live::Set(Some(150))), ..till.to_limit(0).await };
    till.change(&change).await;
    let limits = till.standing().await.limits;
    assert_eq!((limits.amount, limits.tokens), (Some(cents(LIMIT)), Some(150)));
    till.granted(&job, 1).await;
    till.refused(&job, 1, Trigger::Scheduled).await;
}

/// What was set live can be taken away or given back; something always stays bounded.
pub async fn a_live_limit_can_be_taken_away(h: Harness) {
    let till = Till::new(&h).await;
    let nothing = BudgetChange { limit: None, ..till.to_limit(0).await };
    let tokens = |tokens| BudgetChange { tokens: Some(tokens), ..nothing.clone() };
    let limit = |limit| BudgetChange { limit: Some(limit), ..nothing.clone() };
    let live = async || till.budget().await.live;
    till.change(&tokens(Live::Set(Some(150)))).await;
    assert_eq!(
        h.store.change_budget(&limit(Live::Set(None))).await.unwrap(),
        done(&till, None, Some(150)).await
    );
    let unbounded = h.store.change_budget(&tokens(Live::Set(None))).await.unwrap();
    assert_eq!(unbounded, Changed::Unbounded);
    assert_eq!((till.standing().await.limits.tokens, live().await), (Some(150), true));
    till.change(&limit(Live::Configured)).await;
    till.change(&tokens(Live::Set(None))).await;
    let limits = till.standing().await.limits;
    assert_eq!((limits.amount, limits.tokens), (Some(cents(LIMIT)), None));
    let spec = BudgetSpec { tokens: Some(9), ..BudgetSpec::money(AI, cents(77)) };
    h.store.sync_budgets(&[spec]).await.unwrap();
    let limits = till.standing().await.limits;
    assert_eq!((limits.amount, limits.tokens), (Some(cents(77)), None), "given back; taken away");
    till.change(&tokens(Live::Configured)).await;
    assert_eq!((till.standing().await.limits.tokens, live().await), (Some(9), false));
    let acts = h.store.audit(&ActFilter::newest(10)).await.unwrap();
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

async fn done(till: &Till<'_>, amount: Option<Amount>, tokens: Option<u64>) -> Changed {
    let mut standing = till.standing().await;
    (standing.limits.amount, standing.limits.tokens) = (amount, tokens);
    Changed::Done { standing, alerts: Vec::new() }
}

pub async fn a_reset_begins_the_month_anew(h: Harness) {
    let till = Till::new(&h).await;
    let job = till.lease().await;
    till.spend(&job, 9_000).await;
    let open = till.granted(&job, 1_000).await;
    assert_eq!(till.fired().await.len(), 4);
    let reset = till.to_reset().await;
    let standing = till.change(&reset).await;
    assert_eq!((standing.settled.amount, standing.settled.tokens), (cents(0), 0));
    assert_eq!(till.sums().await, (0, 1_000), "calls under way stay reserved");
    assert!(till.fired().await.is_empty(), "alerts may fire again");
    let month = till.month().await;
    assert_eq!(h.store.costs(AI, month).await.unwrap(), Default::default());
    let ledger = till.ledger(month).await;
    assert_eq!((ledger.len(), ledger[0].how, ledger[0].call.is_none()), (2, Booked::Reset, true));
    assert_eq!((ledger[0].amount.cents(), ledger[0].tokens_in, ledger[0].tokens_out), (-9_000, -70, -20));
    till.books_agree(month).await;
    assert_eq!(till.settle(&job, open.id, 500).await, Charged::Booked(Vec::new()));
    assert_eq!(till.sums().await, (500, 0));
    till.books_agree(month).await;
    till.change(&till.to_reset().await).await;
    till.books_agree(month).await;
}

pub async fn the_audit_says_who_changed_what(h: Harness) {
    let till = Till::new(&h).await;
    till.spend(&till.lease().await, 25).await;
    let before = h.now().await;
    let (raise, reset) = (till.to_limit(75_000).await, till.to_reset().await);
    till.change(&raise).await;
    till.change(&BudgetChange {
        actor: Some(Actor::new("operator \"Ö\"")),
        tokens: Some(Live::Set(Some(7))),
        ..reset
    })
    .await;
    let acts = h.store.audit(&ActFilter::newest(10)).await.unwrap();
    let subject = format!("budget/ai/{}", till.month().await);
    assert!(acts.iter().all(|act| act.act == "budget.change" && act.subject == subject && act.at >= before));
    let said: Vec<(&str, &str)> = acts.iter().map(|act| (act.actor.as_str(), act.detail.as_str())).collect();
    assert_eq!(
        said,
        [
            (
                "operator \"Ö\"",
                r#"{"tokens":{"from":null,"to":7},"settled":{"from":"0.25","to":"0.00"},"tokens_used":{"from":90,"to":0}}"#
            ),
            ("somebody", r#"{"limit":{"from":"100.00","to":"750.00"}}"#),
        ],
        "newest first"
    );
    assert_eq!(h.store.audit(&ActFilter::newest(1)).await.unwrap(), acts[..1]);
    assert_eq!(
        h.store.audit(&ActFilter { before: Some(acts[0].seq), ..ActFilter::newest(10) }).await.unwrap(),
        acts[1..],
        "from a place on"
    );
}

pub async fn a_month_that_is_over_is_closed(h: Harness) {
    let till = Till::new(&h).await;
    till.spend(&till.lease().await, 25).await;
    let (limit, reset) = (till.to_limit(1).await, till.to_reset().await);
    let before = till.month().await;
    till.go_to(before.next()).await;
    for change in [limit, reset] {
        assert_eq!(h.store.change_budget(&change).await.unwrap(), Changed::Over);
    }
    let old = h.store.history(AI, 2).await.unwrap().unwrap()[1];
    assert_eq!((old.settled.amount, old.limits.amount), (cents(25), Some(cents(LIMIT))));
    assert!(h.store.audit(&ActFilter::newest(10)).await.unwrap().is_empty());
}

pub async fn a_month_ahead_can_be_prepared(h: Harness) {
    let till = Till::new(&h).await;
    let next = till.month().await.next();
    let change = BudgetChange { month: next, ..till.to_limit(5).await };
    till.change(&change).await;
    assert_eq!(till.standing().await.limits.amount, Some(cents(LIMIT)), "not this one");
    let history = async || -> Vec<_> {
        let months = h.store.history(AI, 1).await.unwrap().unwrap();
        months.iter().map(|standing| (standing.month, standing.limits.amount)).collect()
    };
    let (this, configured) = (till.month().await, Some(cents(LIMIT)));
    assert_eq!(history().await, [(next, Some(cents(5))), (this, configured)], "what was set ahead is shown");
    till.change(&BudgetChange { limit: Some(Live::Configured), ..change.clone() }).await;
    assert_eq!(history().await, [(this, configured)], "nobody set it any more");
    till.change(&change).await;
    for limit in [5, LIMIT] {
        till.go_to(till.month().await.next()).await;
        assert_eq!(till.standing().await.limits.amount, Some(cents(limit)));
    }
}
