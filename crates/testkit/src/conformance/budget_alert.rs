//! Alerts: each once a month, whoever reaches it.

use std::time::Duration;

use windlass_core::budget::{BudgetSpec, Level, Trigger};
use windlass_core::store::{Changed, Charged, Reserved};

use super::Harness;
use super::till::{AI, Till, ask, cents, usage};

pub async fn each_fires_once_a_month(h: Harness) {
    let till = Till::new(&h).await;
    let job = till.lease().await;
    assert!(till.granted(&job, 7_499).await.alerts.is_empty());
    let alerts = till.granted(&job, 500).await.alerts;
    assert_eq!(alerts.len(), 1, "only what was reached");
    let alert = &alerts[0];
    assert_eq!((alert.budget.as_str(), alert.currency.as_str()), (AI, "USD"));
    assert_eq!((alert.threshold.percent, alert.threshold.level), (75, Level::Info));
    assert_eq!(alert.standing, till.standing().await);
    let alerts = till.granted(&job, 1_001).await.alerts;
    let percents: Vec<u16> = alerts.iter().map(|alert| alert.threshold.percent).collect();
    assert_eq!(percents, [80, 90], "two at a stroke");
    let open = till.granted(&job, 1_000).await;
    assert_eq!(open.alerts.iter().map(|alert| alert.threshold.level).collect::<Vec<_>>(), [Level::Critical]);
    // Below and above again.
    assert_eq!(till.settle(&job, open.id, 0).await, Charged::Booked(Vec::new()));
    assert!(till.granted(&job, 1_000).await.alerts.is_empty());
    assert_eq!(till.fired().await, [75, 80, 90, 100]);
    till.go_to(till.month().await.next()).await;
    assert!(till.fired().await.is_empty());
    assert_eq!(till.granted(&job, 7_500).await.alerts.len(), 1, "and again the next month");
}

pub async fn racing_calls_fire_once(h: Harness) {
    let till = Till::new(&h).await;
    let second = h.open().await;
    h.put_plain(20).await;
    let jobs = h.claim(till.worker, 20).await;
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
    let till = Till::new(&h).await;
    let job = till.lease().await;
    let grant = till.granted(&job, 1).await;
    let charged = h.store.settle_reservation(grant.id, job.token, &usage(8_000)).await.unwrap();
    let Charged::Booked(alerts) = charged else { panic!("{charged:?}") };
    assert_eq!(alerts.iter().map(|alert| alert.threshold.percent).collect::<Vec<_>>(), [75, 80]);
}

/// An operator's change can set alerts off, and those it takes back may fire again: the second overrun of a month is as
/// worth knowing as the first.
pub async fn a_changed_limit_fires_and_rearms(h: Harness) {
    let till = Till::new(&h).await;
    let job = till.lease().await;
    till.spend(&job, 4_000).await;
    let lower = till.to_limit(5_000).await;
    let changed = h.store.change_budget(&lower).await.unwrap();
    let Changed::Done { alerts, .. } = changed else { panic!("{changed:?}") };
    assert_eq!(alerts.iter().map(|alert| alert.threshold.percent).collect::<Vec<_>>(), [75, 80]);
    till.change(&lower).await;
    assert_eq!(till.fired().await, [75, 80]);
    let raised = till.to_limit(5_200).await;
    till.change(&raised).await;
    assert_eq!(till.fired().await, [75], "80 % is not reached any more");
    assert_eq!(till.granted(&job, 200).await.alerts.len(), 1);
    assert_eq!(till.fired().await, [75, 80]);
}

/// A server reads here what a library process or a verb set off; one that fires again is told from the first by its time.
pub async fn what_fired_elsewhere_can_be_read(h: Harness) {
    let till = Till::new(&h).await;
    let second = h.open().await;
    let job = till.lease().await;
    let begun = h.store.now().await.unwrap();
    let fired = till.granted(&job, 8_000).await.alerts;
    let read = second.alerts_since(begun).await.unwrap();
    assert_eq!((read.len(), &read), (2, &fired), "as the process that set them off has them");
    till.change(&till.to_limit(20_000).await).await;
    assert!(second.alerts_since(begun).await.unwrap().is_empty());
    h.advance(Duration::from_secs(1));
    till.change(&till.to_limit(10_000).await).await;
    let again = second.alerts_since(begun).await.unwrap();
    assert!(again.len() == 2 && again.iter().all(|alert| alert.at > read[0].at), "{again:?}");
    assert!(second.alerts_since(again[1].at.plus(Duration::from_secs(1))).await.unwrap().is_empty());
}

/// The configuration lowered the limit; the sweep, which raises nothing, comes before the next call.
pub async fn a_sweep_swallows_no_alert(h: Harness) {
    let till = Till::new(&h).await;
    let (job, other) = (till.lease().await, till.lease().await);
    till.granted(&other, 80).await;
    h.done(&other).await;
    h.store.sync_budgets(&[BudgetSpec::money(AI, cents(105))]).await.unwrap();
    assert_eq!(h.store.sweep_reservations().await.unwrap().len(), 1);
    assert!(till.fired().await.is_empty());
    let alerts = till.granted(&job, 1).await.alerts;
    assert_eq!(alerts.iter().map(|alert| alert.threshold.percent).collect::<Vec<_>>(), [75]);
}
