//! The change feed: first every entity, then each change, without missing one.

use windlass_core::Store;
use windlass_core::entity::{Change, EntityWrite};
use windlass_core::store::Settled;

use super::Harness;
use super::entity_fixture::{EntityFixture, FeedReader, fields, taken};

const PAGE: u32 = 100;

fn puts(entities: &EntityFixture<'_>, ids: &[&str]) -> Vec<EntityWrite> {
    ids.iter().map(|id| entities.put(id, "x")).collect()
}

pub async fn a_new_reader_gets_every_entity_and_no_tombstone(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let mut early = FeedReader::default();
    assert!(early.drain(&*h.store, PAGE).await.is_empty());
    entities.save(&puts(&entities, &["a", "b", "c", "d", "e", "f", "g"])).await;
    for gone in ["g", "a", "d"] {
        entities.saved(entities.delete(gone)).await;
    }
    entities.saved(entities.put("b", "again")).await;
    for limit in [1, 2, 3, PAGE] {
        let mut late = FeedReader::default();
        let shown = late.drain(&*h.store, limit).await;
        assert!(shown.iter().all(|entity| entity.fields.is_some()), "no tombstone at {limit} a page");
        let mut ids: Vec<&str> = shown.iter().map(|entity| entity.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["b", "c", "e", "f"], "each once at {limit} a page");
        assert!(late.drain(&*h.store, limit).await.is_empty(), "and then quiet");
    }
    early.drain(&*h.store, PAGE).await;
    assert_eq!(early.seen.keys().collect::<Vec<_>>(), ["b", "c", "e", "f"]);
}

pub async fn each_change_is_shown_once_in_its_current_state(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.open().await;
    let mut reader = FeedReader::default();
    entities.save(&puts(&entities, &["a", "b", "c"])).await;
    reader.drain(&*h.store, PAGE).await;
    for text in ["one", "two", "three"] {
        entities.save_on(&*other, &[entities.put("a", text)]).await;
    }
    entities.saved(entities.write("b", Change::Patch(fields(r#"{"price":7}"#)))).await;
    let shown = reader.drain(&*h.store, PAGE).await;
    assert_eq!(shown.iter().map(|e| (e.id.as_str(), e.version)).collect::<Vec<_>>(), [("a", 4), ("b", 2)]);
    let text = String::from_utf8(shown[0].fields.clone().unwrap()).unwrap();
    assert_eq!(text, r#"{"title":"t","text":"three"}"#);
    assert_eq!((shown[0].entity_type, shown[0].no), (entities.type_id, entities.get("a").await.no));
    let mark = reader.mark.clone();
    assert!(reader.drain(&*h.store, PAGE).await.is_empty(), "a change is shown once");
    assert!(entities.save(&[entities.delete("nobody")]).await.len() == 1);
    assert!(reader.drain(&*h.store, PAGE).await.is_empty(), "a refused write is no change");
    // A reader that starts from an old mark sees the changes again, so a crash loses nothing.
    let mut crashed = FeedReader { mark, ..FeedReader::default() };
    entities.saved(entities.put("c", "new")).await;
    assert_eq!(crashed.ids(&*h.store, PAGE).await, ["c"]);
    assert_eq!(reader.ids(&*other, PAGE).await, ["c"], "through another process");
}

pub async fn a_delete_is_shown_as_a_tombstone(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.indexed("a", "x", &[1]).await;
    let mut reader = FeedReader::default();
    reader.drain(&*h.store, PAGE).await;
    let gone = entities.saved(entities.delete("a")).await;
    let shown = reader.drain(&*h.store, PAGE).await;
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].no, shown[0].version), (gone.no, 2));
    assert_eq!((&shown[0].fields, &shown[0].vector, shown[0].indexed), (&None, &None, false));
    entities.save(&[entities.put("b", "x"), entities.delete("b")]).await;
    entities.saved(entities.put("a", "again")).await;
    assert_eq!(reader.ids(&*h.store, PAGE).await, ["a", "b"]);
    assert_eq!(reader.seen.keys().collect::<Vec<_>>(), ["a"]);
}

/// An entity that was already shown may be deleted before the last page; its tombstone must follow.
pub async fn a_delete_during_the_first_read_is_shown(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.save(&puts(&entities, &["a", "b", "c", "d"])).await;
    let mut reader = FeedReader::default();
    let first = h.store.changes(&reader.mark, super::entity_fixture::SPACE, 2).await.unwrap();
    assert_eq!((first.entities.len(), first.more), (2, true));
    reader.mark = first.mark;
    for entity in first.entities {
        reader.seen.insert(entity.id.clone(), entity);
    }
    assert_eq!(reader.seen.keys().collect::<Vec<_>>(), ["a", "b"]);
    entities.saved(entities.delete("a")).await;
    entities.saved(entities.put("b", "newer")).await;
    entities.saved(entities.put("e", "new")).await;
    reader.drain(&*h.store, 2).await;
    assert_eq!(reader.seen.keys().collect::<Vec<_>>(), ["b", "c", "d", "e"]);
    assert_eq!(reader.seen["b"].version, 2);
    assert!(reader.drain(&*h.store, 2).await.is_empty());
}

pub async fn a_vector_is_a_change(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let mut reader = FeedReader::default();
    entities.saved(entities.put("a", "x")).await;
    reader.drain(&*h.store, PAGE).await;
    assert_eq!((&reader.seen["a"].vector, reader.seen["a"].indexed), (&None, false));
    let job = entities.run().await;
    assert_eq!(entities.index(entities.embedded(&job, "a", "x", &[5])).await, Settled::Accepted);
    let shown = reader.drain(&*h.store, PAGE).await;
    assert_eq!((shown.len(), shown[0].version), (1, 1));
    assert_eq!((shown[0].vector.as_deref(), shown[0].indexed), (Some(&[5][..]), true));
    entities.saved(entities.put("a", "y")).await;
    let shown = reader.drain(&*h.store, PAGE).await;
    assert_eq!(
        (shown[0].vector.as_deref(), shown[0].indexed),
        (Some(&[5][..]), false),
        "of the content before"
    );
    entities.saved(entities.prepared("a", "z", &[6])).await;
    let shown = reader.drain(&*h.store, PAGE).await;
    assert_eq!((shown[0].vector.as_deref(), shown[0].indexed), (Some(&[6][..]), true));
}

/// Two overlapping transactions commit in the other order. SQLite has one writer, so there they run one after the
/// other.
pub async fn a_late_commit_is_not_missed(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let overlap = h.store.name() != "sqlite";
    entities.save(&puts(&entities, &["old", "older"])).await;
    let mut reader = FeedReader::default();
    for round in 0..3 {
        let (late, early) = (format!("late {round}"), format!("early {round}"));
        let mut tx = h.store.begin().await.unwrap();
        let writes = [entities.put(&late, "x"), entities.delete("old")];
        let saved = h
            .store
            .save_in(tx.tx(), &entities.boxes, &writes[..if round == 1 { 2 } else { 1 }])
            .await
            .unwrap();
        let late_no = taken(saved[0].clone()).no;
        if overlap {
            let early_no = entities.saved(entities.put(&early, "x")).await.no;
            assert!(late_no < early_no, "the one that commits last was numbered first");
            // In the first round the reader starts during the open transaction; later it continues.
            reader.drain(&*h.store, PAGE).await;
            assert!(reader.seen.contains_key(&early) && !reader.seen.contains_key(&late), "round {round}");
            assert!(reader.drain(&*h.store, PAGE).await.is_empty(), "no change while it is open");
            entities.saved(entities.put("older", &early)).await;
            assert_eq!(reader.ids(&*h.store, PAGE).await, ["older"]);
        }
        tx.commit().await.unwrap();
        if !overlap {
            entities.save(&[entities.put(&early, "x"), entities.put("older", &early)]).await;
        }
        let shown = reader.ids(&*h.store, PAGE).await;
        assert!(shown.contains(&late), "round {round}: {shown:?}");
        assert!(reader.seen.contains_key(&late) && reader.seen.contains_key(&early));
        assert_eq!(reader.seen.contains_key("old"), round == 0);
        assert!(reader.drain(&*h.store, PAGE).await.is_empty(), "round {round}");
    }
}

/// A reader that reads while two processes write ends with the final state.
pub async fn a_reader_misses_nothing_during_writes(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.open().await;
    let mut reader = FeedReader::default();
    let write = async |handle: &dyn Store, who: &str| {
        for round in 0..25 {
            let own = format!("{who} {round}");
            let call = [
                entities.put(&own, "x"),
                entities.put("shared", &own),
                entities.put(&format!("{who} short"), &own),
            ];
            entities.save_on(handle, &call).await;
            if round % 3 == 0 {
                entities.save_on(handle, &[entities.delete(&own)]).await;
            }
        }
    };
    let follow = async {
        for _ in 0..40 {
            reader.drain(&*h.store, 7).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(write(&*h.store, "here"), write(&*other, "there"), follow);
    reader.drain(&*h.store, 7).await;
    let there = h.store.entities(entities.type_id, None, 1_000).await.unwrap();
    let wanted: Vec<(&str, u64)> = there.iter().map(|e| (e.id.as_str(), e.version)).collect();
    let seen: Vec<(&str, u64)> = reader.seen.values().map(|e| (e.id.as_str(), e.version)).collect();
    assert_eq!(seen, wanted);
    assert_eq!(wanted.len(), 2 * 16 + 3);
}

pub async fn small_pages_show_everything(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let ids: Vec<String> = (0..23).map(|n| format!("e{n:02}")).collect();
    let all = |text: &str| ids.iter().map(|id| entities.put(id, text)).collect::<Vec<_>>();
    for (limit, calls) in [(1, 1), (5, 1), (5, 23), (23, 1), (24, 1)] {
        let mut reader = FeedReader::default();
        entities.save(&all("before")).await;
        assert_eq!(reader.ids(&*h.store, limit).await, ids, "to begin with, {limit} a page");
        for some in all("after").chunks(ids.len().div_ceil(calls)) {
            entities.save(some).await;
        }
        assert_eq!(reader.ids(&*h.store, limit).await, ids, "then, {limit} a page, {calls} calls");
        assert!(reader.drain(&*h.store, limit).await.is_empty());
    }
}
