//! Operator changes of schedules, workflows, types, kinds and queues, and clean-ups, write audit records with the
//! values in force before and after.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::audit::{Actor, NewAudit};
use windlass_core::scale::Bounds;
use windlass_core::store::{Action, AuditFilter, KindUpdate, Live, Prune, PruneWhat, QueueUpdate};
use windlass_core::workflow::OnFailure;
use windlass_core::{KindSpec, QueueSpec, Strategy, TypeSpec};

use super::audit_fixture::me;
use super::schedule_fixture::spec;
use super::workflow_fixture::WorkflowFixture;
use super::{Harness, KIND, QUEUE};

pub async fn records_of_a_schedule_have_the_differences(h: Harness) {
    let put = async |spec| h.store.put_schedule(&spec, Some(&me())).await.unwrap();
    let daily = spec("nightly", "@daily");
    put(daily.clone()).await;
    put(daily.clone()).await;
    put(windlass_core::schedule::ScheduleSpec {
        catch_up: Some(3),
        payload: b"[1]".to_vec(),
        ..daily.clone()
    })
    .await;
    put(daily).await;
    for paused in [true, true, false] {
        h.store.pause_schedule("nightly", paused, Some(&me())).await.unwrap();
    }
    assert!(h.store.delete_schedule("nightly", Some(&me())).await.unwrap());
    assert!(!h.store.delete_schedule("nightly", Some(&me())).await.unwrap());
    let lines = h.audit_lines().await;
    let acts: Vec<&Value> = lines.iter().map(|line| &line[0]).collect();
    let expected = ["put", "put", "put", "pause", "resume", "delete"].map(|act| format!("schedule.{act}"));
    assert_eq!(acts, expected.iter().map(|act| json!(act)).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    assert!(lines.iter().all(|line| line[1] == "schedule/nightly"));
    assert_eq!(lines[0][2]["kind"], json!({ "from": null, "to": KIND }));
    let before = lines[0][2]["payload"]["to"].clone();
    let changed = json!({ "catch_up": { "from": null, "to": 3 }, "payload": { "from": before, "to": [1] } });
    assert_eq!(lines[1][2], changed);
    assert_eq!(lines[2][2]["catch_up"], json!({ "from": 3, "to": null }), "what is taken away is lines");
    assert_eq!(lines[3][2], json!({ "paused": { "from": false, "to": true } }));
    assert_eq!(lines[5][2]["kind"], json!({ "from": KIND, "to": null }));
}

pub async fn records_of_a_workflow_have_its_states(h: Harness) {
    let flow = WorkflowFixture::diamond(&h, OnFailure::Stop).await;
    flow.run(&["a"]).await;
    let cancel = async || h.store.cancel_workflow(flow.id, Some(&me())).await.unwrap();
    cancel().await;
    cancel().await;
    h.store.retry_workflow(flow.id, Some(&me())).await.unwrap();
    let subject = format!("workflow/{}", flow.id);
    let stopped = json!({
        "state": { "from": "running", "to": "cancelled" }, "done": { "to": 3 }, "skipped": { "to": 1 }
    });
    let again = json!({
        "state": { "from": "cancelled", "to": "running" }, "done": { "to": 3 }, "skipped": { "to": 1 }
    });
    assert_eq!(
        h.audit_lines().await,
        [json!(["workflow.cancel", subject, stopped]), json!(["workflow.retry", subject, again])]
    );
}

pub async fn a_record_of_a_type_has_the_differences(h: Harness) {
    let put = async |spec: TypeSpec| h.store.put_type(&spec, Some(&me())).await.unwrap();
    put(TypeSpec::named("product")).await;
    put(TypeSpec::named("product")).await;
    put(TypeSpec { strategy: Some(Strategy::Batch), ..TypeSpec::named("product") }).await;
    h.store.put_type(&TypeSpec::named("other"), None).await.unwrap();
    let strategy = json!({ "strategy": { "from": null, "to": "batch" } });
    assert_eq!(
        h.audit_lines().await,
        [
            json!(["type.put", "type/product", { "text": { "from": null, "to": [] } }]),
            json!(["type.put", "type/product", strategy]),
        ]
    );
}

pub async fn a_kind_registered_by_an_operator_is_recorded(h: Harness) {
    let by_hand = [KindSpec::new("BY_HAND", QUEUE)];
    h.store.sync_registry(&[], &by_hand, Some(&me())).await.unwrap();
    h.store.sync_registry(&[], &by_hand, Some(&me())).await.unwrap();
    h.store.sync_registry(&[], &[KindSpec::new("BY_START", QUEUE)], None).await.unwrap();
    let lines = h.audit_lines().await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0][0], &lines[0][1]), (&json!("kind.register"), &json!("kind/BY_HAND")));
    assert_eq!(lines[0][2]["queue"], json!({ "from": null, "to": QUEUE }));
}

pub async fn a_change_without_effect_is_not_recorded(h: Harness) {
    let actor = Some(me());
    let paused = QueueUpdate { paused: Some(true), actor: actor.clone(), ..QueueUpdate::default() };
    let rate = Some(Live::Set(Some("5/s".parse().unwrap())));
    let rated = KindUpdate { rate, actor, ..KindUpdate::default() };
    for _ in 0..2 {
        h.store.update_queue(h.queue, &paused).await.unwrap();
        h.store.update_kind(h.kind, &rated).await.unwrap();
    }
    assert_eq!(
        h.audit_lines().await,
        [
            json!(["queue.change", format!("queue/{QUEUE}"), { "paused": { "from": false, "to": true } }]),
            json!(["kind.change", format!("kind/{KIND}"), { "rate": { "from": null, "to": "5/s" } }]),
        ]
    );
}

/// Bounds removed by an operator are not in force, although the configuration still has them.
pub async fn recorded_bounds_are_those_in_force(h: Harness) {
    let bounded = QueueSpec { bounds: Some(Bounds { min: 2, max: 20 }), ..QueueSpec::named(QUEUE) };
    h.store.sync_registry(&[bounded], &[], None).await.unwrap();
    let update = async |bounds| {
        let update = QueueUpdate { bounds: Some(bounds), actor: Some(me()), ..QueueUpdate::default() };
        h.store.update_queue(h.queue, &update).await.unwrap();
        let queues = h.store.queues().await.unwrap();
        queues.into_iter().find(|queue| queue.id == h.queue).unwrap().spec.bounds
    };
    assert_eq!(update(Live::Set(None)).await, None);
    assert_eq!(update(Live::Set(Some(Bounds { min: 3, max: 4 }))).await, Some(Bounds { min: 3, max: 4 }));
    assert_eq!(update(Live::Configured).await, Some(Bounds { min: 2, max: 20 }));
    let lines: Vec<Value> = h.audit_lines().await.into_iter().map(|line| line[2].clone()).collect();
    let moved = |min: [Value; 2], max: [Value; 2]| {
        let side = |[from, to]: [Value; 2]| json!({ "from": from, "to": to });
        json!({ "concurrency_min": side(min), "concurrency_max": side(max) })
    };
    let mut back = moved([json!(3), json!(2)], [json!(4), json!(20)]);
    back["live"] = json!({ "from": ["concurrency_min", "concurrency_max"], "to": [] });
    assert_eq!(
        lines,
        [
            moved([json!(2), Value::Null], [json!(20), Value::Null]),
            moved([Value::Null, json!(3)], [Value::Null, json!(4)]),
            back,
        ]
    );
}

/// One record for a whole run over several transactions.
pub async fn a_clean_up_is_recorded_once(h: Harness) {
    let ids = h.put_plain(600).await;
    h.act(&ids, Action::Cancel).await;
    h.advance(Duration::from_secs(10 * 86_400));
    let prune = async |what, dry_run| {
        let prune = Prune { what, older_than: Duration::from_secs(5 * 86_400), dry_run };
        h.store.prune(&prune, Some(&me())).await.unwrap()
    };
    assert_eq!(prune(PruneWhat::Finished, true).await, 600);
    assert_eq!(prune(PruneWhat::DeadLetters, false).await, 0);
    assert_eq!(prune(PruneWhat::Finished, false).await, 600);
    assert_eq!(prune(PruneWhat::Finished, false).await, 0);
    let detail = json!({ "older_than": { "from": "5d" }, "rows": { "to": 600 } });
    assert_eq!(h.audit_lines().await, [json!(["cleanup.run", "cleanup/finished", detail])]);
}

pub async fn a_callers_record_belongs_to_its_transaction(h: Harness) {
    let note = NewAudit::schedule_run("nightly", windlass_core::JobId(7)).unwrap();
    for commit in [false, true] {
        let mut tx = h.store.begin().await.unwrap();
        h.store.note_in(tx.tx(), &Actor::new("me"), &note).await.unwrap();
        match commit {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
    }
    assert_eq!(
        h.audit_lines().await,
        [json!(["schedule.run", "schedule/nightly", { "job": { "to": "7" } }])]
    );
}

pub async fn the_audit_is_filtered_by_actor_act_subject_and_time(h: Harness) {
    let began = h.now().await;
    for (n, (who, act, subject)) in [
        ("a", "job.retry", "job/1"),
        ("b", "job.cancel", "job/2"),
        ("a", "jobs.cancel", "jobs"),
        ("a", "job.delete", "job/1"),
    ]
    .into_iter()
    .enumerate()
    {
        h.set_clock(10 * n as i64);
        let detail = json!({ "n": { "to": n } }).as_object().cloned().unwrap_or_default();
        let note = NewAudit { act, subject: subject.to_owned(), detail };
        let mut tx = h.store.begin().await.unwrap();
        h.store.note_in(tx.tx(), &Actor::new(who), &note).await.unwrap();
        tx.commit().await.unwrap();
    }
    let newest = || AuditFilter::newest(10);
    let found = async |filter: AuditFilter| -> Vec<String> {
        let acts = h.store.audit(&filter).await.unwrap();
        acts.iter().map(|act| format!("{} {} {}", act.actor, act.act, act.subject)).collect()
    };
    let (one, two) = ("a job.delete job/1", "a job.retry job/1");
    assert_eq!(found(newest()).await, [one, "a jobs.cancel jobs", "b job.cancel job/2", two]);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found(AuditFilter { actor: text("b"), ..newest() }).await, ["b job.cancel job/2"]);
    assert_eq!(found(AuditFilter { act: text("job."), ..newest() }).await, [one, "b job.cancel job/2", two]);
    assert_eq!(found(AuditFilter { act: text("job.retry"), ..newest() }).await, [two]);
    assert_eq!(found(AuditFilter { subject: text("job/1"), ..newest() }).await, [one, two]);
    let nul = AuditFilter { actor: text("\0"), act: text("\0."), subject: text("'"), ..newest() };
    assert!(found(nul).await.is_empty());
    let at = |seconds| Some(began.plus(Duration::from_secs(seconds)));
    let between = AuditFilter { from: at(5), to: at(25), ..newest() };
    assert_eq!(found(between.clone()).await, ["a jobs.cancel jobs", "b job.cancel job/2"]);
    let last = h.store.audit(&AuditFilter { limit: 1, ..between.clone() }).await.unwrap();
    let rest = AuditFilter { before: Some(last[0].seq), ..between };
    assert_eq!(found(rest).await, ["b job.cancel job/2"], "in pages");
}
