//! Limits: for every limit of the table, what is in force is what claims, lists and the audit have.

use serde_json::{Value as Json, json};
use windlass_core::limit::{Lift, Limit, LimitForm, LimitValue, Limited};
use windlass_core::store::{KindUpdate, Live, QueueUpdate};
use windlass_core::{KindSpec, QueueSpec, Resource};

use super::audit_fixture::me;
use super::{Harness, KIND, QUEUE};

/// Sets every limit there is, so that the next one needs no line here.
pub(super) fn filled<S: Limited>(mut spec: S) -> S {
    for limit in S::limits() {
        spec.set_limit(limit.name, Some(value(limit, ["7", "77s", "7/s"])));
    }
    spec
}

fn value(limit: &Limit, [number, duration, rate]: [&str; 3]) -> LimitValue {
    let text = match limit.form {
        LimitForm::Number { .. } => number,
        LimitForm::Duration => duration,
        LimitForm::Rate => rate,
    };
    limit.form.read(text).unwrap()
}

/// Another value, the same one pinned over it, back, pinned as it is configured, back again, lifted, and back.
fn steps(limit: &Limit) -> Vec<Live<Option<LimitValue>>> {
    let configured = Live::Set(Some(value(limit, ["7", "77s", "7/s"])));
    let other = Live::Set(Some(value(limit, ["9", "99s", "9/m"])));
    let mut steps = vec![other, configured, Live::Configured, configured, other, Live::Configured];
    if limit.lift != Lift::Never {
        steps.extend([Live::Set(None), Live::Configured]);
    }
    steps
}

async fn sync(h: &Harness) {
    let queue = QueueSpec { resource: Some(Resource::new("slot", 1)), ..QueueSpec::named(QUEUE) };
    let kind = KindSpec { resource: Some(Resource::new("browser", 1)), ..KindSpec::new(KIND, QUEUE) };
    h.store.sync_registry(&[filled(queue)], &[filled(kind)], None).await.unwrap();
}

async fn queue(h: &Harness) -> QueueSpec {
    h.store.queues().await.unwrap().into_iter().find(|queue| queue.id == h.queue).unwrap().spec
}

async fn kind(h: &Harness) -> KindSpec {
    h.store.kinds().await.unwrap().into_iter().find(|(id, _, _)| *id == h.kind).unwrap().2
}

/// One line per step. It has the values in force, and names the limit as live where the value alone does not say so.
async fn told(
    h: &Harness,
    limit: &Limit,
    [before, after]: [Option<LimitValue>; 2],
    live: Live<Option<LimitValue>>,
) {
    let lines = h.audit_lines().await;
    let detail = &lines.last().unwrap()[2];
    let side = |value: Option<LimitValue>| json!(value.map(LimitValue::audit_value));
    let of = format!("{} {live:?}: {detail}", limit.name);
    let expected = match before == after {
        true => Json::Null,
        false => json!({ "from": side(before), "to": side(after) }),
    };
    assert_eq!(detail.get(limit.audit_name()).unwrap_or(&Json::Null), &expected, "{of}");
    let named =
        |side: &str| detail["live"][side].as_array().is_some_and(|of| of.contains(&json!(limit.name)));
    let pinned = live.is_set() && before == after;
    assert_eq!((named("from"), named("to")), (live == Live::Configured, pinned), "{of}");
}

pub async fn every_limit_of_a_queue_is_told_as_it_is_in_force(h: Harness) {
    sync(&h).await;
    let worker = h.worker().await;
    let mut lines = 0;
    for limit in QueueSpec::limits() {
        for live in steps(limit) {
            let before = queue(&h).await;
            let mut update = QueueUpdate { actor: Some(me()), ..QueueUpdate::default() };
            QueueSpec::change(&mut update, &[(limit.name, live)].into_iter().collect());
            assert!(h.store.update_queue(h.queue, &update).await.unwrap());
            lines += 1;
            sync(&h).await;
            assert_eq!(h.audit_lines().await.len(), lines, "{} {live:?}", limit.name);
            let after = queue(&h).await;
            told(&h, limit, [before.limit(limit.name), after.limit(limit.name)], live).await;
            let expected = live.set().unwrap_or(Some(value(limit, ["7", "77s", "7/s"])));
            assert_eq!(after.limit(limit.name), expected, "{} {live:?}", limit.name);
            let due = h.poll(worker).await.queues.into_iter().find(|due| due.queue == h.queue).unwrap();
            assert_eq!((due.concurrency, due.bounds), (after.concurrency, after.bounds));
            let rest = (due.global_concurrency, due.boost_after);
            assert_eq!(rest, (after.global_concurrency, after.boost_after));
        }
    }
    assert_eq!(h.store.live_overrides().await.unwrap(), []);
}

pub async fn every_limit_of_a_kind_is_told_as_it_is_in_force(h: Harness) {
    sync(&h).await;
    let worker = h.worker().await;
    let mut lines = 0;
    for limit in KindSpec::limits() {
        for live in steps(limit) {
            let before = kind(&h).await;
            let mut update = KindUpdate { actor: Some(me()), ..KindUpdate::default() };
            KindSpec::change(&mut update, &[(limit.name, live)].into_iter().collect());
            assert!(h.store.update_kind(h.kind, &update).await.unwrap());
            lines += 1;
            sync(&h).await;
            assert_eq!(h.audit_lines().await.len(), lines, "{} {live:?}", limit.name);
            let after = kind(&h).await;
            told(&h, limit, [before.limit(limit.name), after.limit(limit.name)], live).await;
            let expected = live.set().unwrap_or(Some(value(limit, ["7", "77s", "7/s"])));
            assert_eq!(after.limit(limit.name), expected, "{} {live:?}", limit.name);
            let polled = h.poll(worker).await.limits.into_iter().find(|of| of.kind == h.kind).unwrap();
            let permits = polled.resource.map(|resource| resource.permits);
            assert_eq!((polled.rate, permits), (after.rate, after.resource.unwrap().permits));
        }
    }
    assert_eq!(h.store.live_overrides().await.unwrap(), []);
}

/// Two changes of one row at once both hold.
pub async fn changes_at_once_lose_nothing(h: Harness) {
    let second = h.open().await;
    for round in 1..20 {
        let cap = QueueUpdate { depth_cap: Some(Live::Set(Some(round))), ..QueueUpdate::default() };
        let most = Some(Live::Set(Some(round as u32)));
        let most = QueueUpdate { global_concurrency: most, ..QueueUpdate::default() };
        let (one, two) =
            tokio::join!(h.store.update_queue(h.queue, &cap), second.update_queue(h.queue, &most));
        assert!(one.unwrap() && two.unwrap());
        let queue = queue(&h).await;
        assert_eq!((queue.depth_cap, queue.global_concurrency), (Some(round), Some(round as u32)));
    }
}
