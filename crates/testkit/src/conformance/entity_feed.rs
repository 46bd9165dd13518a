//! The change feed: everything to begin with, then each change, and never one missed.

use windlass_core::Store;
use windlass_core::entity::{Change, EntityWrite};
use windlass_core::store::Settled;

use super::Harness;
use super::shelf::{Follower, Shelf, fields, taken};

const PAGE: u32 = 100;

fn puts(shelf: &Shelf<'_>, ids: &[&str]) -> Vec<EntityWrite> {
    ids.iter().map(|id| shelf.put(id, "x")).collect()
}

pub async fn it_begins_with_every_entity_and_no_tombstone(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let mut early = Follower::default();
    assert!(early.drain(&*h.store, PAGE).await.is_empty());
    shelf.save(&puts(&shelf, &["a", "b", "c", "d", "e", "f", "g"])).await;
    for gone in ["g", "a", "d"] {
        shelf.saved(shelf.delete(gone)).await;
    }
    shelf.saved(shelf.put("b", "again")).await;
    for limit in [1, 2, 3, PAGE] {
        let mut late = Follower::default();
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

pub async fn each_change_once_as_it_is_now(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.open().await;
    let mut follower = Follower::default();
    shelf.save(&puts(&shelf, &["a", "b", "c"])).await;
    follower.drain(&*h.store, PAGE).await;
    for text in ["one", "two", "three"] {
        shelf.save_on(&*other, &[shelf.put("a", text)]).await;
    }
    shelf.saved(shelf.write("b", Change::Patch(fields(r#"{"price":7}"#)))).await;
    let shown = follower.drain(&*h.store, PAGE).await;
    assert_eq!(shown.iter().map(|e| (e.id.as_str(), e.version)).collect::<Vec<_>>(), [("a", 4), ("b", 2)]);
    let text = String::from_utf8(shown[0].fields.clone().unwrap()).unwrap();
    assert_eq!(text, r#"{"title":"t","text":"three"}"#);
    assert_eq!((shown[0].entity_type, shown[0].no), (shelf.type_id, shelf.get("a").await.no));
    let mark = follower.mark.clone();
    assert!(follower.drain(&*h.store, PAGE).await.is_empty(), "a change is shown once");
    assert!(shelf.save(&[shelf.delete("nobody")]).await.len() == 1);
    assert!(follower.drain(&*h.store, PAGE).await.is_empty(), "a refused write is no change");
    // From an old mark the same is shown again: a follower that crashed loses nothing.
    let mut crashed = Follower { mark, ..Follower::default() };
    shelf.saved(shelf.put("c", "new")).await;
    assert_eq!(crashed.ids(&*h.store, PAGE).await, ["c"]);
    assert_eq!(follower.ids(&*other, PAGE).await, ["c"], "through another process");
}

pub async fn a_delete_is_shown_as_a_tombstone(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.indexed("a", "x", &[1]).await;
    let mut follower = Follower::default();
    follower.drain(&*h.store, PAGE).await;
    let gone = shelf.saved(shelf.delete("a")).await;
    let shown = follower.drain(&*h.store, PAGE).await;
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].no, shown[0].version), (gone.no, 2));
    assert_eq!((&shown[0].fields, &shown[0].vector, shown[0].indexed), (&None, &None, false));
    shelf.save(&[shelf.put("b", "x"), shelf.delete("b")]).await;
    shelf.saved(shelf.put("a", "again")).await;
    assert_eq!(follower.ids(&*h.store, PAGE).await, ["a", "b"]);
    assert_eq!(follower.seen.keys().collect::<Vec<_>>(), ["a"]);
}

/// What was shown may be deleted before the last page: the tombstone must come.
pub async fn a_delete_while_it_begins_is_shown(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.save(&puts(&shelf, &["a", "b", "c", "d"])).await;
    let mut follower = Follower::default();
    let first = h.store.changes(&follower.mark, super::shelf::SPACE, 2).await.unwrap();
    assert_eq!((first.entities.len(), first.more), (2, true));
    follower.mark = first.mark;
    for entity in first.entities {
        follower.seen.insert(entity.id.clone(), entity);
    }
    assert_eq!(follower.seen.keys().collect::<Vec<_>>(), ["a", "b"]);
    shelf.saved(shelf.delete("a")).await;
    shelf.saved(shelf.put("b", "newer")).await;
    shelf.saved(shelf.put("e", "new")).await;
    follower.drain(&*h.store, 2).await;
    assert_eq!(follower.seen.keys().collect::<Vec<_>>(), ["b", "c", "d", "e"]);
    assert_eq!(follower.seen["b"].version, 2);
    assert!(follower.drain(&*h.store, 2).await.is_empty());
}

pub async fn a_vector_is_a_change(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let mut follower = Follower::default();
    shelf.saved(shelf.put("a", "x")).await;
    follower.drain(&*h.store, PAGE).await;
    assert_eq!((&follower.seen["a"].vector, follower.seen["a"].indexed), (&None, false));
    let job = shelf.run().await;
    assert_eq!(shelf.index(shelf.embedded(&job, "a", "x", &[5])).await, Settled::Accepted);
    let shown = follower.drain(&*h.store, PAGE).await;
    assert_eq!((shown.len(), shown[0].version), (1, 1));
    assert_eq!((shown[0].vector.as_deref(), shown[0].indexed), (Some(&[5][..]), true));
    shelf.saved(shelf.put("a", "y")).await;
    let shown = follower.drain(&*h.store, PAGE).await;
    assert_eq!(
        (shown[0].vector.as_deref(), shown[0].indexed),
        (Some(&[5][..]), false),
        "of the content before"
    );
    shelf.saved(shelf.prepared("a", "z", &[6])).await;
    let shown = follower.drain(&*h.store, PAGE).await;
    assert_eq!((shown[0].vector.as_deref(), shown[0].indexed), (Some(&[6][..]), true));
}

/// Two transactions that overlap end in the other order. Where there is one writer at a time they cannot, and the same
/// steps are taken one after the other.
pub async fn a_late_commit_is_not_missed(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let overlap = h.store.name() != "sqlite";
    shelf.save(&puts(&shelf, &["old", "older"])).await;
    let mut follower = Follower::default();
    for round in 0..3 {
        let (late, early) = (format!("late {round}"), format!("early {round}"));
        let mut tx = h.store.begin().await.unwrap();
        let writes = [shelf.put(&late, "x"), shelf.delete("old")];
        let saved =
            h.store.save_in(tx.tx(), &shelf.boxes, &writes[..if round == 1 { 2 } else { 1 }]).await.unwrap();
        let late_no = taken(saved[0].clone()).no;
        if overlap {
            let early_no = shelf.saved(shelf.put(&early, "x")).await.no;
            assert!(late_no < early_no, "the one that commits last was numbered first");
            // The first round begins with the transaction under way, the others go on.
            follower.drain(&*h.store, PAGE).await;
            assert!(
                follower.seen.contains_key(&early) && !follower.seen.contains_key(&late),
                "round {round}"
            );
            assert!(follower.drain(&*h.store, PAGE).await.is_empty(), "and quiet while it is under way");
            shelf.saved(shelf.put("older", &early)).await;
            assert_eq!(follower.ids(&*h.store, PAGE).await, ["older"]);
        }
        tx.commit().await.unwrap();
        if !overlap {
            shelf.save(&[shelf.put(&early, "x"), shelf.put("older", &early)]).await;
        }
        let shown = follower.ids(&*h.store, PAGE).await;
        assert!(shown.contains(&late), "round {round}: {shown:?}");
        assert!(follower.seen.contains_key(&late) && follower.seen.contains_key(&early));
        assert_eq!(follower.seen.contains_key("old"), round == 0);
        assert!(follower.drain(&*h.store, PAGE).await.is_empty(), "round {round}");
    }
}

/// A follower that reads while two processes write ends up with what is there.
pub async fn a_follower_among_writers_misses_nothing(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.open().await;
    let mut follower = Follower::default();
    let write = async |handle: &dyn Store, who: &str| {
        for round in 0..25 {
            let own = format!("{who} {round}");
            let call =
                [shelf.put(&own, "x"), shelf.put("shared", &own), shelf.put(&format!("{who} short"), &own)];
            shelf.save_on(handle, &call).await;
            if round % 3 == 0 {
                shelf.save_on(handle, &[shelf.delete(&own)]).await;
            }
        }
    };
    let follow = async {
        for _ in 0..40 {
            follower.drain(&*h.store, 7).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(write(&*h.store, "here"), write(&*other, "there"), follow);
    follower.drain(&*h.store, 7).await;
    let there = h.store.entities(shelf.type_id, None, 1_000).await.unwrap();
    let wanted: Vec<(&str, u64)> = there.iter().map(|e| (e.id.as_str(), e.version)).collect();
    let seen: Vec<(&str, u64)> = follower.seen.values().map(|e| (e.id.as_str(), e.version)).collect();
    assert_eq!(seen, wanted);
    assert_eq!(wanted.len(), 2 * 16 + 3);
}

pub async fn small_pages_see_everything(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let ids: Vec<String> = (0..23).map(|n| format!("e{n:02}")).collect();
    let all = |text: &str| ids.iter().map(|id| shelf.put(id, text)).collect::<Vec<_>>();
    for (limit, calls) in [(1, 1), (5, 1), (5, 23), (23, 1), (24, 1)] {
        let mut follower = Follower::default();
        shelf.save(&all("before")).await;
        assert_eq!(follower.ids(&*h.store, limit).await, ids, "to begin with, {limit} a page");
        for some in all("after").chunks(ids.len().div_ceil(calls)) {
            shelf.save(some).await;
        }
        assert_eq!(follower.ids(&*h.store, limit).await, ids, "then, {limit} a page, {calls} calls");
        assert!(follower.drain(&*h.store, limit).await.is_empty());
    }
}
