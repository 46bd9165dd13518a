//! Alerts: each fires once a month over all processes.

use std::time::Duration;

use windlass_core::budget::{BudgetSpec, Level, Trigger};
use windlass_core::store::{Changed, Charged, Reserved};

use super::Harness;
use super::budget_fixture::{AI, BudgetFixture, ask, cents, usage};

pub async fn each_alert_fires_once_a_month(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    assert!(fixture.granted(&job, 7_499).await.alerts.is_empty());
    let alerts = fixture.granted(&job, 500).await.alerts;
    assert_eq!(alerts.len(), 1, "only what was reached");
    let alert = &alerts[0];
    assert_eq!((alert.budget.as_str(), alert.currency.as_str()), (AI, "USD"));
    assert_eq!((alert.threshold.percent, alert.threshold.level), (75, Level::Info));
    assert_eq!(alert.figures, fixture.figures().await);
    let alerts = fixture.granted(&job, 1_001).await.alerts;
    let percents: Vec<u16> = alerts.iter().map(|alert| alert.threshold.percent).collect();
    assert_eq!(percents, [80, 90], "two at once");
    let open = fixture.granted(&job, 1_000).await;
    assert_eq!(open.alerts.iter().map(|alert| alert.threshold.level).collect::<Vec<_>>(), [Level::Critical]);
    // Usage falls below the threshold and rises above it again.
    assert_eq!(fixture.settle(&job, open.id, 0).await, Charged::Booked(Vec::new()));
    assert!(fixture.granted(&job, 1_000).await.alerts.is_empty());
    assert_eq!(fixture.fired().await, [75, 80, 90, 100]);
    fixture.go_to(fixture.month().await.next()).await;
    assert!(fixture.fired().await.is_empty());
    assert_eq!(fixture.granted(&job, 7_500).await.alerts.len(), 1, "and again the next month");
}

pub async fn racing_calls_fire_once(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let second = h.open().await;
    h.put_plain(20).await;
    let jobs = h.claim(fixture.worker, 20).await;
    let asks: Vec<_> = jobs
        .iter()
        .enumerate()
        .map(|(n, job)| {
            let handle = if n % 2 == 0 { h.store.clone() } else { second.clone() };
            let ask = ask(job, 500, Trigger::Manual);
            tokio::spawn(async move { handle.reserve(&ask).await.unwrap() })
        })
        .collect();
    let mut fired = Vec::new();
    for asked in asks {
        if let Reserved::Granted(grant) = asked.await.unwrap() {
            fired.extend(grant.alerts.iter().map(|alert| alert.threshold.percent));
        }
    }
    fired.sort_unstable();
    assert_eq!(fired, [75, 80, 90, 100]);
}

pub async fn a_charge_above_its_estimate_fires(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    let grant = fixture.granted(&job, 1).await;
    let charged = h.store.settle_reservation(grant.id, job.token, &usage(8_000)).await.unwrap();
    let Charged::Booked(alerts) = charged else { panic!("{charged:?}") };
    assert_eq!(alerts.iter().map(|alert| alert.threshold.percent).collect::<Vec<_>>(), [75, 80]);
}

/// An operator's change can fire alerts. Alerts whose threshold is no longer reached are reset and may fire again in
/// the same month.
pub async fn a_changed_limit_fires_and_rearms(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let job = fixture.lease().await;
    fixture.spend(&job, 4_000).await;
    let lower = fixture.to_limit(5_000).await;
    let changed = h.store.change_budget(&lower).await.unwrap();
    let Changed::Done { alerts, .. } = changed else { panic!("{changed:?}") };
    assert_eq!(alerts.iter().map(|alert| alert.threshold.percent).collect::<Vec<_>>(), [75, 80]);
    fixture.change(&lower).await;
    assert_eq!(fixture.fired().await, [75, 80]);
    let raised = fixture.to_limit(5_200).await;
    fixture.change(&raised).await;
    assert_eq!(fixture.fired().await, [75], "80 % is not reached any more");
    assert_eq!(fixture.granted(&job, 200).await.alerts.len(), 1);
    assert_eq!(fixture.fired().await, [75, 80]);
}

/// A server reads alerts that other processes fired. A second firing is distinguished by its time.
pub async fn alerts_of_other_processes_can_be_read(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let second = h.open().await;
    let job = fixture.lease().await;
    let begun = h.store.now().await.unwrap();
    let fired = fixture.granted(&job, 8_000).await.alerts;
    let read = second.alerts_since(begun).await.unwrap();
    assert_eq!((read.len(), &read), (2, &fired), "as the process that set them off has them");
    fixture.change(&fixture.to_limit(20_000).await).await;
    assert!(second.alerts_since(begun).await.unwrap().is_empty());
    h.advance(Duration::from_secs(1));
    fixture.change(&fixture.to_limit(10_000).await).await;
    let again = second.alerts_since(begun).await.unwrap();
    assert!(again.len() == 2 && again.iter().all(|alert| alert.at > read[0].at), "{again:?}");
    assert!(second.alerts_since(again[1].at.plus(Duration::from_secs(1))).await.unwrap().is_empty());
}

/// The configuration lowers the limit, and a sweep, which fires no alerts, runs before the next call.
pub async fn a_sweep_does_not_lose_an_alert(h: Harness) {
    let fixture = BudgetFixture::new(&h).await;
    let (job, other) = (fixture.lease().await, fixture.lease().await);
    fixture.granted(&other, 80).await;
    h.done(&other).await;
    h.store.sync_budgets(&[BudgetSpec::money(AI, cents(105))]).await.unwrap();
    assert_eq!(h.store.sweep_reservations().await.unwrap().len(), 1);
    assert!(fixture.fired().await.is_empty());
    let alerts = fixture.granted(&job, 1).await.alerts;
    assert_eq!(alerts.iter().map(|alert| alert.threshold.percent).collect::<Vec<_>>(), [75]);
}
