//! Many writes: in one call, in a caller's transaction, from two processes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::entity::{Change, EntityWrite, IndexState, Operation};
use windlass_core::store::{JobFilter, Wake};
use windlass_core::{JobState, QueueId, Strategy, TxRef};

use super::Harness;
use super::entity_fixture::{EntityFixture, FeedReader, fields, saying, taken};
use crate::signal::{Seen, wait_until};

const DEADLINE: Duration = Duration::from_secs(10);

/// Both versions count and each has a box; only the last box waits.
pub async fn the_same_entity_twice_in_one_call(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let patch = entities.write("a", Change::Patch(fields(r#"{"price":2}"#)));
    let saved = entities
        .save(&[entities.put("a", "one"), entities.put("b", "x"), entities.put("a", "two"), patch])
        .await;
    let saved: Vec<_> = saved.into_iter().map(taken).collect();
    assert_eq!(saved.iter().map(|w| w.version).collect::<Vec<_>>(), [1, 1, 2, 3]);
    assert!(saved[0].no == saved[2].no && saved[2].no == saved[3].no && saved[0].no != saved[1].no);
    assert_eq!((saved[0].operation, saved[2].operation), (Operation::Create, Operation::Update));
    let found = entities.get("a").await;
    assert_eq!((found.version, found.job), (3, saved[3].job));
    let wanted = r#"{"title":"t","text":"two","price":2}"#;
    assert_eq!(serde_json::to_string(&found.fields).unwrap(), wanted);
    for (n, state) in [(0, JobState::Superseded), (2, JobState::Superseded), (3, JobState::Pending)] {
        assert_eq!(h.state(saved[n].job.unwrap()).await, state, "the box of write {n}");
    }
    assert_eq!(h.count(JobState::Pending).await, 2);
}

pub async fn created_deleted_and_created_again_in_one_call(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let call = [
        entities.put("a", "one"),
        entities.delete("a"),
        entities.put("b", "x"),
        entities.delete("b"),
        entities.put("a", "two"),
    ];
    let saved: Vec<_> = entities.save(&call).await.into_iter().map(taken).collect();
    assert_eq!(saved.iter().map(|w| w.version).collect::<Vec<_>>(), [1, 2, 1, 2, 3]);
    assert_eq!((entities.text("a").await.as_str(), entities.get("b").await.fields), ("two", None));
    assert_eq!(h.state(saved[4].job.unwrap()).await, JobState::Pending);
    for gone in [0, 2] {
        assert_eq!(h.state(saved[gone].job.unwrap()).await, JobState::Superseded, "write {gone}");
    }
    assert_eq!(h.count(JobState::Pending).await, 1);
    let mixed =
        [entities.prepared("a", "three", &[3]), entities.delete("a"), entities.prepared("a", "four", &[4])];
    entities.save(&mixed).await;
    let mut reader = FeedReader::default();
    reader.drain(&*h.store, 10).await;
    let seen = &reader.seen["a"];
    assert_eq!((seen.version, seen.vector.as_deref(), seen.indexed), (6, Some(&[4][..]), true));
    assert_eq!(h.count(JobState::Pending).await, 0, "its box had nothing left to do");
    entities.save(&[entities.prepared("a", "five", &[5]), entities.delete("a")]).await;
    reader.drain(&*h.store, 10).await;
    assert!(reader.seen.is_empty());
    entities.saved(entities.put("a", "six")).await;
    reader.drain(&*h.store, 10).await;
    assert_eq!(reader.seen["a"].vector, None, "no vector outlives a delete");
}

pub async fn a_thousand_in_one_call(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let put = |text: &str| (0..1_000).map(|n| entities.put(&format!("e{n}"), text)).collect::<Vec<_>>();
    let first: Vec<_> = entities.save(&put("one")).await.into_iter().map(taken).collect();
    assert!(first.iter().all(|w| w.version == 1 && w.state == IndexState::Pending));
    assert_eq!(first.iter().map(|w| w.no).collect::<HashSet<_>>().len(), 1_000);
    assert_eq!(h.count(JobState::Pending).await, 1_000);
    assert!(
        first.windows(2).all(|pair| pair[0].job < pair[1].job),
        "boxes are run in the order of the writes"
    );
    let second: Vec<_> = entities.save(&put("two")).await.into_iter().map(taken).collect();
    assert!(first.iter().zip(&second).all(|(a, b)| a.no == b.no && b.version == 2 && a.job != b.job));
    assert_eq!(h.count(JobState::Pending).await, 1_000);
    assert_eq!(h.count(JobState::Superseded).await, 1_000);
    let gone: Vec<_> = (0..1_000).map(|n| entities.delete(&format!("e{n}"))).collect();
    assert!(entities.save(&gone).await.into_iter().map(taken).all(|w| w.version == 3));
    assert_eq!(h.count(JobState::Pending).await, 0);
    assert_eq!(h.store.pending_entities(1).await.unwrap(), 0);
}

pub async fn any_id_and_any_script_is_accepted(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let long = "ö".repeat(256);
    let ids = [
        "it's \"quoted\" \\ {a,b} NULL",
        "null",
        "",
        "line\nbreak\r\n\ttab",
        "مرحبا بالعالم",
        "\u{202e}abc\u{202c}",
        "😀👩‍👩‍👧",
        "%_*?",
        "\u{1}\u{7f}\u{85}",
        " ",
        "日本語",
        "e\u{301}",
        "é",
        "a/b#c?d=e&f",
        "--",
        "$1",
        &long,
    ];
    let texts = [
        "Grüße aus Köln",
        "Ελληνικά κείμενα",
        "Русский текст",
        "עברית מימין לשמאל",
        "العربية",
        "हिन्दी पाठ",
        "ไทยไม่มีช่องว่าง",
        "中文没有空格",
        "日本語のテキスト",
        "한국어 문장",
        "አማርኛ",
        "ქართული",
        "Tiếng Việt",
        "\u{0}nul\u{0}",
        "a\u{2028}b\u{feff}c",
        "",
        "🏳️‍🌈",
    ];
    let all: Vec<(&str, &str)> = ids.iter().copied().zip(texts).filter(|(id, _)| !id.is_empty()).collect();
    let writes: Vec<EntityWrite> = all.iter().map(|(id, text)| entities.put(id, text)).collect();
    let saved: Vec<_> = entities.save(&writes).await.into_iter().map(taken).collect();
    let mut reader = FeedReader::default();
    reader.drain(&*h.store, 100).await;
    for ((id, text), written) in all.iter().zip(&saved) {
        assert_eq!(entities.text(id).await, *text, "{id:?}");
        assert_eq!(entities.get(id).await.id, *id);
        let job = h.detail(written.job.unwrap()).await.job;
        assert_eq!(job.entity.unwrap().entity_id, *id);
        let boxed: windlass_core::entity::Boxed = serde_json::from_slice(&job.payload).unwrap();
        assert_eq!((boxed.id.as_str(), boxed.version, boxed.fields), (*id, 1, saying(text)));
        let fed = reader.seen[*id].fields.clone().unwrap();
        assert_eq!(String::from_utf8(fed).unwrap(), serde_json::to_string(&saying(text)).unwrap());
    }
    let gone: Vec<_> = all.iter().map(|(id, _)| entities.delete(id)).collect();
    assert!(entities.save(&gone).await.into_iter().map(taken).all(|w| w.version == 2));
    assert_eq!(h.count(JobState::Pending).await, 0);
}

pub async fn a_rollback_leaves_no_row_and_no_box(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("old", "one")).await;
    let mut tx = h.store.begin().await.unwrap();
    let call = [entities.put("new", "x"), entities.put("old", "two"), entities.prepared("sync", "y", &[1])];
    let saved = h.store.save_in(tx.tx(), &entities.boxes, &call).await.unwrap();
    let job = taken(saved[0].clone()).job.unwrap();
    assert!(entities.found("new").await.is_none(), "not before the commit");
    tx.rollback().await.unwrap();
    assert!(entities.found("new").await.is_none() && entities.found("sync").await.is_none());
    assert!(h.store.job(job).await.unwrap().is_none());
    assert_eq!((entities.text("old").await.as_str(), entities.get("old").await.version), ("one", 1));
    assert_eq!(h.store.count(&JobFilter::default()).await.unwrap(), 1);
    assert_eq!(h.count(JobState::Pending).await, 1, "the old box waits as it did");
    let mut foreign = String::from("a connection of another driver");
    assert!(h.store.save_in(TxRef::new(&mut foreign), &entities.boxes, &call).await.is_err());
}

pub async fn a_commit_shows_rows_and_boxes(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let mut tx = h.store.begin().await.unwrap();
    let own = h.store.enqueue_in(tx.tx(), &[h.job()]).await.unwrap()[0].id;
    let first = h.store.save_in(tx.tx(), &entities.boxes, &[entities.put("a", "one")]).await.unwrap();
    let second = h.store.save_in(tx.tx(), &entities.boxes, &[entities.put("a", "two")]).await.unwrap();
    assert_eq!((taken(first[0].clone()).version, taken(second[0].clone()).version), (1, 2));
    tx.commit().await.unwrap();
    assert_eq!((entities.text("a").await.as_str(), entities.get("a").await.version), ("two", 2));
    assert_eq!(h.state(taken(first[0].clone()).job.unwrap()).await, JobState::Superseded);
    let leased: HashSet<_> = h.claim(entities.worker, 10).await.into_iter().map(|j| j.id).collect();
    assert_eq!(leased, HashSet::from([own, taken(second[0].clone()).job.unwrap()]));
}

/// Workers are woken for a box after the commit, as for any job.
pub async fn a_box_wakes_its_queue(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let writer = seen.clone();
    h.store.on_wake(Box::new(move |wake| {
        writer.lock().unwrap().push(wake);
        true
    }));
    let woken = async |queue: QueueId| {
        let all = |all: &Vec<Wake>| all.iter().any(|wake| wake.concerns(queue));
        wait_until("a wake", DEADLINE, || async { Seen::when(seen.lock().unwrap().clone(), all) }).await;
        seen.lock().unwrap().clear();
    };
    entities.saved(entities.put("a", "x")).await;
    woken(h.queue).await;
    entities.saved(entities.with(Strategy::Batch, entities.put("b", "x"))).await;
    woken(h.other_queue).await;
    let mut tx = h.store.begin().await.unwrap();
    h.store.save_in(tx.tx(), &entities.boxes, &[entities.put("c", "x")]).await.unwrap();
    assert!(
        !seen.lock().unwrap().iter().any(|wake| wake.queue() == Some(h.queue)),
        "before the end of the transaction"
    );
    tx.commit().await.unwrap();
    woken(h.queue).await;
}
