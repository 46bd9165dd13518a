//! Entities and search as an application uses them.

use std::sync::atomic::Ordering;

use serde_json::json;
use windlass_core::JobState;
use windlass_core::entity::{Change, Expected, IndexState, Strategy, TextField, TypeSpec};
use windlass_core::store::JobFilter;
use windlass_index::filter::Filter;
use windlass_index::{EntityError, Mode, SaveRequest, SearchRequest};

use windlass_testkit::signal::{Seen, wait_until};

use crate::fixture::{DEADLINE, Fixture, POISON};

type Test = tempfile::TempDir;

fn folder() -> Test {
    tempfile::tempdir().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_found_at_once_and_meaning_when_indexed() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    assert_eq!(
        fixture.put("a", json!({"title": "Red bicycle", "text": "for children"})).await,
        IndexState::Pending
    );
    fixture.put("b", json!({"title": "Legal notice", "text": "terms and conditions"})).await;
    let hit =
        fixture.entities.search(SearchRequest::new("document", "bicycles")).await.unwrap().hits.remove(0);
    assert_eq!((hit.id.as_str(), hit.stale), ("a", true));
    let worker = fixture.work().await;
    fixture.indexed("a").await;
    fixture.indexed("b").await;
    let hits =
        fixture.entities.search(SearchRequest::new("document", "toy for a kid to ride")).await.unwrap().hits;
    assert_eq!((hits[0].id.as_str(), hits[0].stale), ("a", false));
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_filter_field_is_found_at_once_without_embedding() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    fixture.save("a", json!({"text": "garden chair", "price": 40}), Some(Strategy::Sync)).await;
    let embedded = fixture.embedder.texts.load(Ordering::Relaxed);
    assert_eq!(fixture.put("a", json!({"text": "garden chair", "price": 30})).await, IndexState::Indexed);
    assert_eq!(fixture.embedder.texts.load(Ordering::Relaxed), embedded);
    let cheap = SearchRequest {
        filter: Some(Filter::parse(&json!({"price": {"lt": 35}})).unwrap()),
        ..SearchRequest::new("document", "chair")
    };
    let hits = fixture.entities.search(cheap).await.unwrap().hits;
    assert_eq!((hits[0].fields["price"].as_i64(), hits[0].stale), (Some(30), false));
    assert_eq!(fixture.client.store().count(&JobFilter::default()).await.unwrap(), 0, "no box");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_an_entity_removes_it_and_its_indexing_job_at_once() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    fixture.put("a", json!({"text": "copper kettle"})).await;
    fixture.delete("a").await;
    assert!(fixture.ids("kettle").await.is_empty());
    assert!(matches!(fixture.entities.get("document", "a").await, Err(EntityError::Missing { .. })));
    let waiting = JobFilter { states: vec![JobState::Pending], ..JobFilter::default() };
    assert_eq!(fixture.client.store().count(&waiting).await.unwrap(), 0);
    let again =
        SaveRequest::new("document", "a", Change::Put(json!({"text": "x"}).as_object().unwrap().clone()));
    assert_eq!(fixture.entities.save(again).await.unwrap().version, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_save_is_indexed_when_it_returns() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    assert_eq!(
        fixture.save("a", json!({"text": "a loud trumpet"}), Some(Strategy::Sync)).await,
        IndexState::Indexed
    );
    let mut request = SearchRequest::new("document", "brass musical instrument");
    request.mode = Mode::Vector;
    assert_eq!(fixture.entities.search(request).await.unwrap().hits[0].id, "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_updates_of_one_entity_need_few_embeddings_and_the_last_wins() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    let worker = fixture.work().await;
    for n in 0..100 {
        let many = (0..100).map(|m| {
            let fields = json!({"text": format!("state number {}", n * 100 + m)});
            SaveRequest::new("document", "busy", Change::Put(fields.as_object().unwrap().clone()))
        });
        for saved in fixture.entities.save_many(many.collect()).await.unwrap() {
            saved.unwrap();
        }
    }
    fixture.indexed("busy").await;
    let embeddings = fixture.embedder.texts.load(Ordering::Relaxed);
    assert!(embeddings < 1_000, "{embeddings} embeddings for 10,000 updates");
    assert_eq!(fixture.entities.get("document", "busy").await.unwrap().version, 10_000);
    assert_eq!(fixture.ids("9999").await, ["busy"]);
    let words = SearchRequest { mode: Mode::Keyword, ..SearchRequest::new("document", "9998") };
    assert!(fixture.entities.search(words).await.unwrap().hits.is_empty(), "an older state is found");
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_finds_a_committed_write_at_once() {
    let folder = folder();
    let (one, other) = (Fixture::open(folder.path()).await, Fixture::open(folder.path()).await);
    one.save("a", json!({"text": "walnut table"}), Some(Strategy::Sync)).await;
    assert_eq!(other.ids("walnut").await, ["a"]);
    one.delete("a").await;
    assert!(other.ids("walnut").await.is_empty());
    let spec =
        TypeSpec { text: vec![TextField { name: "name".into(), weight: 1 }], ..TypeSpec::named("part") };
    one.entities.put_type(spec, None).await.unwrap();
    let fields = json!({"name": "hinge"}).as_object().unwrap().clone();
    other.entities.save(SaveRequest::new("part", "h", Change::Put(fields))).await.unwrap();
    assert_eq!(one.entities.search(SearchRequest::new("part", "hinges")).await.unwrap().hits.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_does_not_change_a_ranking() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    for n in 0..200 {
        let strategy = if n % 3 == 0 { None } else { Some(Strategy::Sync) };
        fixture
            .save(&format!("d{n}"), json!({"text": format!("wing {n} of aircraft {}", n % 7)}), strategy)
            .await;
    }
    fixture.delete("d7").await;
    let before = fixture.ids("aircraft wing 4").await;
    fixture.client.store().close().await;
    assert_eq!(Fixture::open(folder.path()).await.ids("aircraft wing 4").await, before);
    assert_eq!(before.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_text_and_any_id_is_accepted() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    let worker = fixture.work().await;
    let long = "lorem ipsum ".repeat(80_000);
    let texts =
        ["", " ", "東京タワー", "مرحبا بالعالم", "Ünïcödé ﬁ", "🦀🦀", "\u{0}\u{200b}", "ไทย ภาษา", &long];
    for (n, text) in texts.iter().enumerate() {
        let id = format!("'{n}\" \n🦀 ../%2f\u{202e}");
        fixture.put(&id, json!({ "text": text })).await;
        fixture.indexed(&id).await;
        assert_eq!(fixture.entities.get("document", &id).await.unwrap().fields.unwrap()["text"], *text);
    }
    for (query, n) in [("東京", "2"), ("مرحبا", "3"), ("unicode fi", "4"), ("ไทย", "7")] {
        assert!(fixture.ids(query).await[0].starts_with(&format!("'{n}")), "{query}");
    }
    assert!(fixture.ids("--- !").await.is_empty());
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_writes_say_why_and_write_nothing() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    let put = |entity_type: &str, id: &str| {
        SaveRequest::new(entity_type, id, Change::Put(json!({"text": "x"}).as_object().unwrap().clone()))
    };
    let unknown = fixture.entities.save(put("thing", "a")).await.unwrap_err().to_string();
    assert!(unknown.contains("`thing`") && unknown.contains("document"), "{unknown}");
    assert!(matches!(fixture.entities.save(put("document", "")).await, Err(EntityError::Invalid(_))));
    fixture.entities.save(put("document", "a")).await.unwrap();
    let stale = SaveRequest { expected: Expected::Version(7), ..put("document", "a") };
    assert!(matches!(fixture.entities.save(stale).await, Err(EntityError::Refused { .. })));
    let spec = TypeSpec { text: Vec::new(), ..TypeSpec::document() };
    assert!(matches!(fixture.entities.put_type(spec, None).await, Err(EntityError::TextChanged { .. })));
    assert_eq!(fixture.entities.get("document", "a").await.unwrap().version, 1);
    assert_eq!(fixture.client.store().count(&JobFilter::default()).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_cannot_be_embedded_fails_alone() {
    let folder = folder();
    let fixture = Fixture::open(folder.path()).await;
    let save = |id: String, text: String| {
        let fields = json!({ "text": text }).as_object().unwrap().clone();
        SaveRequest { max_attempts: Some(1), ..SaveRequest::new("document", &id, Change::Put(fields)) }
    };
    let many =
        (0..20).map(|n| save(format!("d{n}"), format!("{} {n}", if n == 7 { POISON } else { "good" })));
    for saved in fixture.entities.save_many(many.collect()).await.unwrap() {
        saved.unwrap();
    }
    let worker = fixture.work().await;
    for n in (0..20).filter(|n| *n != 7) {
        fixture.indexed(&format!("d{n}")).await;
    }
    let row = wait_until("the bad entity to fail", DEADLINE, || async {
        let row = fixture.entities.get("document", "d7").await.unwrap();
        Seen::when(row, |row| row.state != IndexState::Pending)
    })
    .await;
    assert_eq!(
        (row.state, row.error.as_deref().map(|why| why.contains("cannot be embedded"))),
        (IndexState::Failed, Some(true))
    );
    let dead = JobFilter { states: vec![JobState::DeadLetter], ..JobFilter::default() };
    assert_eq!(fixture.client.store().count(&dead).await.unwrap(), 1);
    fixture.entities.save(save("d7".to_owned(), "mended".to_owned())).await.unwrap();
    fixture.indexed("d7").await;
    worker.shutdown().await.unwrap();
}
