//! Rate tokens: leased from one row per kind, by the database's clock.

use std::time::Duration;

use windlass_core::store::{KindUpdate, Live, TokenLease};
use windlass_core::{KindId, KindSpec, Rate};

use super::{Harness, KIND, QUEUE};

async fn lease(h: &Harness, wanted: u32, unspent: u32) -> TokenLease {
    h.store.lease_tokens(h.kind, wanted, unspent).await.unwrap()
}

async fn set(h: &Harness, rate: Option<&str>) {
    let rate = rate.map(|rate| rate.parse::<Rate>().unwrap());
    assert!(
        h.store
            .update_kind(h.kind, &KindUpdate { rate: Some(Live::Set(rate)), ..KindUpdate::default() })
            .await
            .unwrap()
    );
}

async fn stored(h: &Harness) -> Option<Rate> {
    let kinds = h.store.kinds().await.unwrap();
    kinds.into_iter().find(|(id, _, _)| *id == h.kind).unwrap().2.rate
}

pub async fn without_a_rate_every_token_is_granted(h: Harness) {
    let all = TokenLease { granted: 7_000, wait: Duration::ZERO };
    assert_eq!(lease(&h, 7_000, 0).await, all);
    assert_eq!(lease(&h, 7_000, 3).await, all);
    assert_eq!(
        h.store.lease_tokens(KindId(9_999), 5, 0).await.unwrap().granted,
        5,
        "an unknown kind has no rate"
    );
}

pub async fn tokens_are_granted_at_the_rate(h: Harness) {
    set(&h, Some("60/m")).await;
    assert_eq!(lease(&h, 100, 0).await.granted, 1, "one after a pause");
    let none = lease(&h, 100, 0).await;
    assert_eq!(none.granted, 0);
    assert!(none.wait <= Duration::from_millis(500) && none.wait > Duration::ZERO, "{none:?}");
    for _ in 0..10 {
        h.advance(Duration::from_secs(1));
        assert_eq!(lease(&h, 100, 0).await.granted, 1, "one a second");
    }
    assert_eq!(lease(&h, 0, 0).await.granted, 0);
    h.advance(Duration::from_secs(3_600));
    assert_eq!(lease(&h, 100, 0).await.granted, 1, "a pause saves nothing up");
}

pub async fn no_more_than_wanted(h: Harness) {
    set(&h, Some("1000/s")).await;
    assert_eq!(lease(&h, 10, 0).await, TokenLease { granted: 10, wait: Duration::ZERO });
    let rest = lease(&h, 10_000, 0).await.granted;
    assert!((491..=800).contains(&rest), "half a second's worth and what came meanwhile: {rest}");
}

pub async fn unspent_tokens_come_back(h: Harness) {
    set(&h, Some("1/d")).await;
    assert_eq!(lease(&h, 5, 0).await.granted, 1);
    assert_eq!(lease(&h, 5, 0).await.granted, 0);
    assert_eq!(lease(&h, 0, 1).await.granted, 0, "given back, nothing wanted");
    assert_eq!(h.open().await.lease_tokens(h.kind, 5, 0).await.unwrap().granted, 1, "another process has it");
    let again = lease(&h, 5, 1).await;
    assert_eq!(again.granted, 1, "back and out again in one call");
}

/// Many concurrent requests on several handles: each token is granted to one of them.
pub async fn a_token_is_granted_once(h: Harness) {
    set(&h, Some("1/d")).await;
    let handles = [h.open().await, h.open().await, h.open().await];
    for day in 0..5 {
        let mut asking = tokio::task::JoinSet::new();
        for n in 0..9 {
            let (handle, kind) = (handles[n % 3].clone(), h.kind);
            asking.spawn(async move { handle.lease_tokens(kind, 10, 0).await.unwrap().granted });
        }
        let granted: Vec<u32> = asking.join_all().await;
        assert_eq!(granted.iter().sum::<u32>(), 1, "day {day}: {granted:?}");
        h.advance(Duration::from_secs(86_400));
    }
}

pub async fn kinds_have_their_own_tokens(h: Harness) {
    for kind in [h.kind, h.second_kind] {
        let rate = Some(Live::Set(Some("1/d".parse().unwrap())));
        assert!(h.store.update_kind(kind, &KindUpdate { rate, ..KindUpdate::default() }).await.unwrap());
    }
    assert_eq!(lease(&h, 5, 0).await.granted, 1);
    assert_eq!(h.store.lease_tokens(h.second_kind, 5, 0).await.unwrap().granted, 1);
    assert_eq!(lease(&h, 5, 0).await.granted, 0);
}

/// Tokens leased ahead at a lower rate, or by a clock that was ahead, do not delay later requests.
pub async fn a_raised_rate_is_in_force_at_once(h: Harness) {
    set(&h, Some("1/d")).await;
    assert_eq!(lease(&h, 5, 0).await.granted, 1);
    set(&h, Some("1000/s")).await;
    assert!(lease(&h, 100, 0).await.wait <= Duration::from_millis(1));
    h.set_clock(1);
    assert_eq!(lease(&h, 100, 0).await.granted, 100);
    h.set_clock(86_400);
    assert_eq!(lease(&h, 100, 0).await.granted, 100);
    h.set_clock(2);
    assert!(lease(&h, 100, 0).await.wait <= Duration::from_millis(1));
    h.set_clock(3);
    assert_eq!(lease(&h, 100, 0).await.granted, 100, "a clock set back");
}

pub async fn a_live_rate_survives_a_sync(h: Harness) {
    let spec = |rate: &str| KindSpec { rate: Some(rate.parse().unwrap()), ..KindSpec::new(KIND, QUEUE) };
    h.store.sync_registry(&[], &[spec("5/s")], None).await.unwrap();
    assert_eq!(stored(&h).await, spec("5/s").rate);
    set(&h, Some("30/m")).await;
    h.store.sync_registry(&[], &[spec("7/s")], None).await.unwrap();
    assert_eq!(stored(&h).await, spec("30/m").rate);
    set(&h, None).await;
    h.store.sync_registry(&[], &[spec("7/s")], None).await.unwrap();
    assert_eq!(stored(&h).await, None, "a lifted bound stays lifted");
    assert_eq!(lease(&h, 900, 0).await.granted, 900);
    let nothing = h.store.update_kind(KindId(9_999), &KindUpdate::default()).await.unwrap();
    assert!(!nothing, "there is no such kind");
}
