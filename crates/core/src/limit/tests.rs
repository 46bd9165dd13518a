//! Tests of the table and the layers.

use std::time::Duration;

use serde_json::json;

use super::{LayerChange, Layers, Lift, LimitOwner, LimitValue, Limited, LiveOverride};
use crate::scale::Bounds;
use crate::store::{KindUpdate, Live, QueueUpdate};
use crate::{KindSpec, QueueSpec, Resource};

fn some_value(form: super::LimitForm) -> LimitValue {
    form.read(match form {
        super::LimitForm::Number { .. } => "7",
        super::LimitForm::Duration => "90s",
        super::LimitForm::Rate => "500/s",
    })
    .unwrap()
}

fn round_trip<S: Limited>(spec: S, empty: impl Fn() -> S::Update) {
    let mut spec = spec;
    for limit in S::limits() {
        let value = some_value(limit.form);
        spec.set_limit(limit.name, Some(value));
        assert_eq!(spec.limit(limit.name), Some(value), "{}", limit.name);
        let mut changes = vec![Live::Configured, Live::Set(Some(value))];
        changes.extend((limit.lift != Lift::Never).then_some(Live::Set(None)));
        for live in changes {
            let mut update = empty();
            S::change(&mut update, &[(limit.name, live)].into_iter().collect());
            assert_eq!(S::changes(&update, limit.owner).get(limit.name), Some(live), "{}", limit.name);
        }
    }
}

#[test]
fn every_limit_has_a_field_in_spec_and_update() {
    let resource = || Some(Resource::new("slot", 1));
    round_trip(QueueSpec { resource: resource(), ..QueueSpec::named("Q") }, QueueUpdate::default);
    round_trip(KindSpec { resource: resource(), ..KindSpec::new("K", "Q") }, KindUpdate::default);
}

#[test]
fn bounds_are_one_pair() {
    let mut queue = QueueSpec::named("Q");
    queue.set_limit("concurrency_min", Some(LimitValue::Number(2)));
    queue.set_limit("concurrency_max", Some(LimitValue::Number(5)));
    assert_eq!(queue.bounds, Some(Bounds { min: 2, max: 5 }));
    queue.set_limit("concurrency_max", None);
    assert_eq!(queue.bounds, None);
}

fn queue_layers() -> Layers {
    let mut layers = Layers::read(LimitOwner::Queue, "{}", "{}").unwrap();
    assert!(layers.is_new());
    let bounds = Some(Bounds { min: 1, max: 9 });
    let queue = QueueSpec { bounds, depth_cap: Some(7), ..QueueSpec::named("Q") };
    layers.configure(queue.limits_of(LimitOwner::Queue));
    layers
}

fn changed(before: &Layers, changes: &[(&'static str, Live<Option<LimitValue>>)]) -> LayerChange {
    let mut after = before.clone();
    after.set(&changes.iter().copied().collect());
    LayerChange { before: before.clone(), after }
}

#[test]
fn a_live_value_is_in_force_until_it_is_reset() {
    let configured = queue_layers();
    assert_eq!(configured.in_force("depth_cap"), Some(LimitValue::Number(7)));
    let lifted = changed(&configured, &[("depth_cap", Live::Set(None))]).after;
    assert_eq!(
        (lifted.in_force("depth_cap"), lifted.configured("depth_cap")),
        (None, Some(LimitValue::Number(7)))
    );
    let kept = Layers::read(LimitOwner::Queue, &lifted.configured_text(), &lifted.live_text()).unwrap();
    assert_eq!(kept, lifted, "round trip through text");
    assert_eq!(changed(&lifted, &[("depth_cap", Live::Configured)]).after, configured);
}

#[test]
fn the_audit_shows_values_and_the_layer_in_force() {
    let layers = queue_layers();
    let detail = |change: &LayerChange| {
        serde_json::Value::Object(LayerChange::differences(std::slice::from_ref(change)))
    };
    let cap = |live| [("depth_cap", live)];
    let raised = changed(&layers, &cap(Live::Set(Some(LimitValue::Number(9)))));
    assert_eq!(detail(&raised), json!({ "depth_cap": { "from": 7, "to": 9 } }));
    let back = changed(&raised.after, &cap(Live::Configured));
    let reset = json!({ "depth_cap": { "from": 9, "to": 7 }, "live": { "from": ["depth_cap"], "to": [] } });
    assert_eq!(detail(&back), reset);
    let pinned = changed(&layers, &cap(Live::Set(Some(LimitValue::Number(7)))));
    assert_eq!(detail(&pinned), json!({ "live": { "from": [], "to": ["depth_cap"] } }));
    assert_eq!(detail(&changed(&pinned.after, &cap(Live::Set(Some(LimitValue::Number(7)))))), json!({}));
    assert!(raised.rose("depth_cap") && !back.rose("depth_cap") && !pinned.rose("depth_cap"));
}

#[test]
fn only_live_values_are_listed() {
    let layers = queue_layers();
    assert_eq!(LiveOverride::of("Q", &layers), []);
    let none = Live::Set(None);
    let changes = [
        ("concurrency_min", none),
        ("concurrency_max", none),
        ("depth_cap", none),
        ("boost_after", Live::Set(Some(LimitValue::Duration(Duration::from_secs(90))))),
    ];
    let listed: Vec<String> = LiveOverride::of("Q", &changed(&layers, &changes).after)
        .into_iter()
        .map(|of| format!("{} {} not {}", of.key, of.live, of.configured))
        .collect();
    assert_eq!(
        listed,
        [
            "queues.Q.concurrency_min and _max none not 1 to 9",
            "queues.Q.depth_cap none not 7",
            "queues.Q.boost_after 1m30s not 10m",
        ]
    );
}
