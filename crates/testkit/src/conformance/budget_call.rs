//! Budget accounting of a provider call: reserved under a lease, settled at its cost, or swept.

use std::collections::HashSet;
use std::time::Duration;

use windlass_core::budget::{BudgetSpec, BudgetState, RefusedWhy, Trigger, Usage};
use windlass_core::store::{Booked, Charged, Cost, Reserved};
use windlass_core::{LeasedJob, NewJob, Outcome, ReservationId, Token};

use super::budget_fixture::{AI, BudgetFixture, LIMIT, ask, cents, granted, spec, usage};
use super::{Harness, KIND};

pub async fn reserved_then_settled(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let before = h.now().await;
    let grant = fixture.granted(&job, 30).await;
    assert_eq!(grant.figures, fixture.figures().await);
    assert_eq!((fixture.sums().await, fixture.figures().await.reserved.tokens), ((0, 30), 100));
    assert!(fixture.ledger(grant.figures.month).await.is_empty(), "nothing is booked before the call ended");
    assert_eq!(fixture.settle(&job, grant.id, 12).await, Charged::Booked(Vec::new()));
    let figures = fixture.figures().await;
    assert_eq!((figures.settled.amount, figures.settled.tokens), (cents(12), 90));
    assert_eq!((figures.reserved.amount, figures.reserved.tokens), (cents(0), 0));
    let ledger = fixture.ledger(figures.month).await;
    assert_eq!(ledger.len(), 1);
    let (entry, call) = (&ledger[0], ledger[0].call.as_ref().unwrap());
    assert_eq!(
        (entry.how, entry.amount, entry.tokens_in, entry.tokens_out),
        (Booked::Settled, cents(12), 70, 20)
    );
    assert_eq!((call.reservation, call.job, call.kind.as_str()), (grant.id, job.id, KIND));
    assert_eq!((entry.provider.as_deref(), entry.model.as_deref()), (Some("anthropic"), Some("large")));
    assert!(entry.at >= before && entry.at <= h.now().await);
    fixture.check_sums(figures.month).await;
}

/// Millionths are not rounded: a hundred calls of 0.6 cents are sixty cents.
pub async fn ledger_and_sums_agree_to_the_millionth(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    for _ in 0..100 {
        let grant = fixture.granted(&job, 1).await;
        let cost = Usage { amount: windlass_core::budget::Amount(6_000), ..usage(0) };
        let charged = h.store.settle_reservation(grant.id, job.token, &cost).await.unwrap();
        assert_eq!(charged, Charged::Booked(Vec::new()));
    }
    assert_eq!(fixture.figures().await.settled.amount, cents(60));
    fixture.check_sums(fixture.month().await).await;
}

pub async fn a_stale_lease_reserves_nothing(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let (over, back, live) = (fixture.lease().await, fixture.lease().await, fixture.lease().await);
    h.done(&over).await;
    h.settle(&back, Outcome::snooze(Duration::from_secs(60))).await;
    let foreign = LeasedJob { token: over.token, ..live.clone() };
    let never = LeasedJob { token: Token(live.token.0 + 1_000), ..live.clone() };
    for job in [&over, &back, &foreign, &never] {
        assert_eq!(fixture.reserve(job, 1, Trigger::Manual).await, Reserved::Stale);
    }
    fixture.granted(&live, 1).await;
    h.lose(fixture.worker).await;
    assert_eq!(fixture.reserve(&live, 1, Trigger::Manual).await, Reserved::Stale);
    assert_eq!(fixture.sums().await, (0, 1), "stale ones changed nothing");
}

pub async fn refused_by_state_and_by_size(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let refusal = fixture.refused(&job, LIMIT + 1, Trigger::Scheduled).await;
    assert_eq!((refusal.why, refusal.state), (RefusedWhy::TooLarge, BudgetState::Normal));
    fixture.granted(&job, 9_000).await;
    let refusal = fixture.refused(&job, 1, Trigger::Scheduled).await;
    assert_eq!((refusal.why, refusal.state), (RefusedWhy::Stopped, BudgetState::Queue));
    assert_eq!(refusal.figures, fixture.figures().await);
    assert!(refusal.until > refusal.now && refusal.until <= refusal.now.plus(Duration::from_secs(3_600)));
    assert_eq!(fixture.refused(&job, 1_001, Trigger::Manual).await.why, RefusedWhy::TooLarge);
    let last = fixture.granted(&job, 1_000).await;
    assert_eq!(last.figures.state(), BudgetState::HardStop);
    let refusal = fixture.refused(&job, 0, Trigger::Manual).await;
    assert_eq!((refusal.why, refusal.state), (RefusedWhy::Stopped, BudgetState::HardStop));
    assert!(refusal.until <= refusal.now.plus(Duration::from_secs(3_600)), "reservations come back");
    assert_eq!(fixture.sums().await, (0, LIMIT), "refused ones changed nothing");
}

pub async fn a_refusal_names_the_next_month_when_all_is_settled(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let grant = fixture.granted(&job, 100).await;
    fixture.settle(&job, grant.id, LIMIT).await;
    let refusal = fixture.refused(&job, 1, Trigger::Manual).await;
    assert_eq!(refusal.until, fixture.month().await.next().start());
}

pub async fn a_token_limit_refuses_calls(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    h.store.sync_budgets(&[BudgetSpec { tokens: Some(250), ..spec() }]).await.unwrap();
    let job = fixture.lease().await;
    fixture.granted(&job, 1).await;
    fixture.granted(&job, 1).await;
    assert_eq!(fixture.figures().await.state(), BudgetState::Reduce, "80 % of the tokens");
    assert_eq!(fixture.refused(&job, 1, Trigger::Scheduled).await.why, RefusedWhy::TooLarge);
}

/// Of sixty-four concurrent reservations ten fit, and the sum agrees.
pub async fn racing_reservations_never_exceed_the_limit(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let second = h.open().await;
    let jobs: Vec<LeasedJob> = {
        h.put_plain(64).await;
        h.claim(fixture.worker, 64).await
    };
    for round in 0..3 {
        let asks = jobs.iter().enumerate().map(|(n, job)| {
            let handle = if n % 2 == 0 { h.store.clone() } else { second.clone() };
            let ask = ask(job, LIMIT / 10, Trigger::Manual);
            tokio::spawn(async move { handle.reserve(&ask).await.unwrap() })
        });
        let mut open = Vec::new();
        for (job, asked) in jobs.iter().zip(asks.collect::<Vec<_>>()) {
            match asked.await.unwrap() {
                Reserved::Granted(grant) => {
                    assert!(grant.figures.used().amount <= cents(LIMIT), "{:?}", grant.figures);
                    open.push((job, grant.id));
                }
                Reserved::Refused(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(open.len(), 10, "round {round}");
        assert_eq!(open.iter().map(|(_, id)| *id).collect::<HashSet<_>>().len(), 10);
        assert_eq!(fixture.sums().await, (0, LIMIT), "round {round}");
        for (job, id) in open {
            fixture.settle_on(&*second, job, id, 0).await;
        }
        assert_eq!(fixture.sums().await, (0, 0), "round {round}");
    }
    fixture.check_sums(fixture.month().await).await;
}

pub async fn a_call_may_cost_more_than_was_reserved(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let grant = fixture.granted(&job, 10).await;
    let charged = fixture.settle(&job, grant.id, LIMIT + 500).await;
    assert!(matches!(&charged, Charged::Booked(alerts) if alerts.len() == 4), "{charged:?}");
    assert_eq!(fixture.sums().await, (LIMIT + 500, 0), "a charge is a fact");
    fixture.check_sums(fixture.month().await).await;
}

pub async fn settling_twice_is_reported(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let (job, other) = (fixture.lease().await, fixture.lease().await);
    let grant = fixture.granted(&job, 10).await;
    assert_eq!(fixture.settle(&other, grant.id, 9).await, Charged::Unknown, "another lease's");
    assert_eq!(fixture.settle(&job, ReservationId(grant.id.0 + 999), 9).await, Charged::Unknown);
    assert_eq!(fixture.sums().await, (0, 10));
    fixture.settle(&job, grant.id, 4).await;
    assert_eq!(fixture.settle(&job, grant.id, 9).await, Charged::Already);
    assert_eq!(fixture.settle(&other, grant.id, 9).await, Charged::Unknown);
    assert_eq!(fixture.sums().await, (4, 0));
    assert_eq!(fixture.ledger(fixture.month().await).await.len(), 1);
}

pub async fn leaked_reservations_are_booked_in_full(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let (live, over, lost) = (fixture.lease().await, fixture.lease().await, fixture.lease().await);
    let (kept, leaked) = (fixture.granted(&live, 1).await, fixture.granted(&over, 20).await);
    assert!(h.store.sweep_reservations().await.unwrap().is_empty(), "every lease is live");
    h.done(&over).await;
    let leaks = h.store.sweep_reservations().await.unwrap();
    assert_eq!(leaks.len(), 1);
    let leak = &leaks[0];
    assert_eq!((leak.id, leak.job, leak.kind.as_str(), leak.budget.as_str()), (leaked.id, over.id, KIND, AI));
    assert_eq!((leak.month, leak.amount, leak.tokens), (fixture.month().await, cents(20), 100));
    assert_eq!(fixture.sums().await, (20, 1));
    let entry = fixture.ledger(leak.month).await.remove(0);
    assert_eq!(
        (entry.how, entry.amount, entry.tokens_in, entry.provider),
        (Booked::Leaked, cents(20), 100, None)
    );
    assert_eq!(fixture.settle(&over, leaked.id, 3).await, Charged::Swept, "too late");
    let also = fixture.granted(&lost, 300).await;
    h.lose(fixture.worker).await;
    let mut swept: Vec<_> = h.store.sweep_reservations().await.unwrap().iter().map(|leak| leak.id).collect();
    swept.sort();
    assert_eq!(swept, [kept.id, also.id]);
    assert_eq!(fixture.sums().await, (321, 0));
    assert!(h.store.sweep_reservations().await.unwrap().is_empty());
    fixture.check_sums(leak.month).await;
}

/// The real cost is booked instead of the estimate.
pub async fn a_late_charge_before_the_sweep_is_booked(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let grant = fixture.granted(&job, 50).await;
    h.lose(fixture.worker).await;
    assert_eq!(fixture.settle(&job, grant.id, 7).await, Charged::Booked(Vec::new()));
    assert!(h.store.sweep_reservations().await.unwrap().is_empty());
    assert_eq!(fixture.sums().await, (7, 0));
}

/// Two sweeps and the worker end the same reservations concurrently; each ends once.
pub async fn sweeping_races_settling(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let (second, third) = (h.open().await, h.open().await);
    let (mut settled, mut swept) = (0, 0);
    for _ in 0..40 {
        let job = fixture.lease().await;
        let grants = [fixture.granted(&job, 2).await, fixture.granted(&job, 2).await];
        h.done(&job).await;
        let (token, ids) = (job.token, grants.map(|grant| grant.id));
        let handle = h.store.clone();
        let settling =
            tokio::spawn(async move { handle.settle_reservation(ids[0], token, &usage(1)).await.unwrap() });
        let sweeps = [second.clone(), third.clone()]
            .map(|handle| tokio::spawn(async move { handle.sweep_reservations().await.unwrap() }));
        let charged = settling.await.unwrap();
        let mut leaked = Vec::new();
        for sweep in sweeps {
            leaked.extend(sweep.await.unwrap().into_iter().map(|leak| leak.id));
        }
        leaked.extend(h.store.sweep_reservations().await.unwrap().into_iter().map(|leak| leak.id));
        leaked.sort();
        match charged {
            Charged::Booked(_) => {
                settled += 1;
                assert_eq!(leaked, [ids[1]]);
            }
            Charged::Swept => {
                swept += 1;
                assert_eq!(leaked, ids);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fixture.sums().await, (settled * 3 + swept * 4, 0));
    fixture.check_sums(fixture.month().await).await;
    println!("settled {settled}, swept {swept}");
}

pub async fn a_reservation_belongs_to_the_month_it_was_made_in(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let (made, leaked) = (fixture.granted(&job, 9_000).await, fixture.granted(&job, 900).await);
    let before = fixture.month().await;
    fixture.go_to(before.next()).await;
    assert_eq!(fixture.sums().await, (0, 0), "a month begins with nothing");
    assert_eq!(fixture.figures().await.state(), BudgetState::Normal);
    fixture.granted(&job, 5).await;
    fixture.settle(&job, made.id, 8_000).await;
    h.done(&job).await;
    let mut months: Vec<_> =
        h.store.sweep_reservations().await.unwrap().iter().map(|leak| (leak.id, leak.month)).collect();
    months.sort();
    assert_eq!((months.len(), months[0]), (2, (leaked.id, before)));
    assert_eq!(fixture.sums().await, (5, 0));
    let old = h.store.history(AI, 2).await.unwrap().unwrap()[1];
    assert_eq!((old.month, old.settled.amount, old.reserved.amount), (before, cents(8_900), cents(0)));
    fixture.check_sums(before).await;
    fixture.check_sums(before.next()).await;
}

/// A manual job may use the whole limit, unless its estimate names another trigger.
pub async fn a_tag_marks_a_call_as_manual(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let manual = NewJob { tags: vec!["nightly".to_owned(), "trigger:manual".to_owned()], ..h.job() };
    let (plain, manual) = (fixture.lease().await, fixture.lease_of(manual).await);
    fixture.spend(&plain, 9_000).await;
    let unsaid = |job| {
        let mut ask = ask(job, 1, Trigger::Manual);
        ask.estimate.trigger = None;
        ask
    };
    let refused = h.store.reserve(&unsaid(&plain)).await.unwrap();
    assert!(
        matches!(&refused, Reserved::Refused(refusal) if refusal.why == RefusedWhy::Stopped),
        "{refused:?}"
    );
    granted(h.store.reserve(&unsaid(&manual)).await.unwrap());
    fixture.refused(&manual, 1, Trigger::Scheduled).await;
}

/// The user of the estimate overrides the user tag of the job.
pub async fn costs_by_kind_user_and_provider(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let tagged = NewJob { tags: vec!["nightly".to_owned(), "user:42".to_owned()], ..h.job() };
    let second = NewJob { kind: h.second_kind, ..tagged.clone() };
    let (plain, tagged, second) =
        (fixture.lease().await, fixture.lease_of(tagged).await, fixture.lease_of(second).await);
    fixture.spend(&plain, 1).await;
    fixture.spend(&tagged, 10).await;
    fixture.spend(&second, 200).await;
    let mut named = ask(&tagged, 3, Trigger::Manual);
    named.estimate.user = Some("Zoë ☂".to_owned());
    let grant = granted(h.store.reserve(&named).await.unwrap());
    let quiet = Usage { provider: None, model: None, ..usage(3) };
    h.store.settle_reservation(grant.id, tagged.token, &quiet).await.unwrap();
    let month = fixture.month().await;
    let costs = h.store.costs(AI, month).await.unwrap();
    let sums = |costs: &[Cost]| -> Vec<(String, u64, i64)> {
        costs.iter().map(|cost| (cost.key.clone(), cost.requests, cost.amount.cents())).collect()
    };
    let row = |key: &str, requests, cents| (key.to_owned(), requests, cents);
    assert_eq!(sums(&costs.by_kind), [row("second", 1, 200), row(KIND, 3, 14)], "the largest first");
    assert_eq!(sums(&costs.by_user), [row("42", 2, 210), row("Zoë ☂", 1, 3), row("unknown", 1, 1)]);
    assert_eq!(sums(&costs.by_provider), [row("anthropic", 3, 211), row("unknown", 1, 3)]);
    assert_eq!((costs.by_kind[1].tokens_in, costs.by_kind[1].tokens_out), (210, 60));
    assert_eq!(fixture.ledger(month).await[0].user.as_deref(), Some("Zoë ☂"));
    assert_eq!(h.store.costs(AI, month.next()).await.unwrap(), Default::default());
    fixture.check_sums(month).await;
}
