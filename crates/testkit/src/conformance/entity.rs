//! What a write does to an entity's row: versions, what the caller expects, patches, and what a reader sees.

use std::collections::HashSet;

use windlass_core::TypeSpec;
use windlass_core::entity::{Change, EntityWrite, Expected, IndexState, Operation, TextField, WriteRefusal};
use windlass_core::store::Saved;

use super::Harness;
use super::shelf::{Shelf, fields, taken};

pub async fn types_are_kept_and_replaced(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let other = h.store.put_type(&TypeSpec::named("product"), None).await.unwrap();
    let text = vec![TextField { name: "näme \"quoted\"".to_owned(), weight: 3 }];
    let changed = TypeSpec { text, ..TypeSpec::named("product") };
    assert_eq!(h.store.put_type(&changed, None).await.unwrap(), other, "the same name is the same type");
    let types = h.store.types().await.unwrap();
    assert_eq!(types, [(shelf.type_id, TypeSpec::document()), (other, changed)]);
}

pub async fn a_type_that_is_there_is_not_added_over(h: Harness) {
    let new = h.store.add_type(&TypeSpec::named("product")).await.unwrap();
    assert_eq!(new.1, TypeSpec::named("product"));
    let text = vec![TextField { name: "name".to_owned(), weight: 2 }];
    let put = TypeSpec { text, ..TypeSpec::named("product") };
    h.store.put_type(&put, None).await.unwrap();
    let there = h.store.add_type(&TypeSpec::named("product")).await.unwrap();
    assert_eq!(there, (new.0, put), "an operator's word stays");
    assert_eq!(h.store.types().await.unwrap(), [there]);
}

pub async fn versions_only_grow_across_a_tombstone(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let first = shelf.saved(shelf.put("a", "one")).await;
    assert_eq!((first.version, first.operation), (1, Operation::Create));
    let gone = shelf.saved(shelf.delete("a")).await;
    assert_eq!((gone.version, gone.operation, gone.state), (2, Operation::Delete, IndexState::Deleted));
    let tombstone = shelf.get("a").await;
    assert_eq!((tombstone.version, tombstone.fields, tombstone.state), (2, None, IndexState::Deleted));
    assert_eq!(shelf.refused(shelf.delete("a")).await, WriteRefusal::Missing);
    let again = shelf.saved(shelf.put("a", "two")).await;
    assert_eq!((again.no, again.version, again.operation), (first.no, 3, Operation::Create));
    assert_eq!(shelf.text("a").await, "two");
}

pub async fn a_match_must_be_the_version_found(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let at = |version, write: EntityWrite| EntityWrite { expected: Expected::Version(version), ..write };
    assert_eq!(shelf.refused(at(1, shelf.put("a", "x"))).await, WriteRefusal::Missing);
    shelf.saved(shelf.put("a", "one")).await;
    assert_eq!(shelf.saved(at(1, shelf.put("a", "two"))).await.version, 2);
    assert_eq!(shelf.refused(at(1, shelf.put("a", "late"))).await, WriteRefusal::Version { found: 2 });
    assert_eq!(shelf.refused(at(1, shelf.delete("a"))).await, WriteRefusal::Version { found: 2 });
    assert_eq!(shelf.text("a").await, "two");
    shelf.saved(at(2, shelf.delete("a"))).await;
    assert_eq!(
        shelf.refused(at(3, shelf.put("a", "x"))).await,
        WriteRefusal::Missing,
        "a tombstone has no version"
    );
}

pub async fn absent_means_nothing_or_a_tombstone(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let new = |text| EntityWrite { expected: Expected::Absent, ..shelf.put("a", text) };
    assert_eq!(shelf.saved(new("one")).await.version, 1);
    assert_eq!(shelf.refused(new("two")).await, WriteRefusal::Exists { version: 1 });
    assert_eq!(shelf.text("a").await, "one");
    shelf.saved(shelf.delete("a")).await;
    assert_eq!(shelf.saved(new("three")).await.version, 3);
}

/// The order of the fields is the writer's, also after a patch.
pub async fn a_patch_sets_and_removes(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let patch = |json| shelf.write("a", Change::Patch(fields(json)));
    assert_eq!(shelf.refused(patch("{}")).await, WriteRefusal::Missing);
    let all = r#"{"title":"t","text":"x","price":1.50,"big":12345678901234567890,"deep":{"z":[1,null],"a":"\u0000"}}"#;
    shelf.saved(shelf.write("a", Change::Put(fields(all)))).await;
    let written = shelf.saved(patch(r#"{"price":2,"title":null,"new":false}"#)).await;
    assert_eq!((written.version, written.operation), (2, Operation::Update));
    let found = shelf.get("a").await.fields.unwrap();
    let wanted =
        r#"{"text":"x","price":2,"big":12345678901234567890,"deep":{"z":[1,null],"a":"\u0000"},"new":false}"#;
    assert_eq!(serde_json::to_string(&found).unwrap(), wanted);
}

pub async fn a_refused_one_leaves_the_others(h: Harness) {
    let shelf = Shelf::new(&h).await;
    shelf.saved(shelf.put("b", "old")).await;
    let fresh = EntityWrite { expected: Expected::Absent, ..shelf.put("b", "new") };
    let saved = shelf.save(&[shelf.put("a", "x"), fresh, shelf.delete("c"), shelf.put("d", "y")]).await;
    assert!(matches!(saved[0], Saved::Written(_)) && matches!(saved[3], Saved::Written(_)));
    assert_eq!(saved[1], Saved::Refused(WriteRefusal::Exists { version: 1 }));
    assert_eq!(saved[2], Saved::Refused(WriteRefusal::Missing));
    assert_eq!(shelf.text("b").await, "old");
    assert!(shelf.found("c").await.is_none());
    assert_eq!((shelf.text("a").await, shelf.text("d").await), ("x".to_owned(), "y".to_owned()));
    assert!(shelf.save(&[]).await.is_empty(), "nothing is no error");
}

pub async fn listed_by_the_bytes_of_the_id(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let mut ids =
        ["a", "B", "ä", "Z", "é", "e\u{301}", "_", "a b", "aa", "ß", "ss", "10", "9", "😀", "\u{ffee}"];
    let writes: Vec<EntityWrite> = ids.iter().map(|id| shelf.put(id, "x")).collect();
    shelf.save(&writes).await;
    shelf.saved(shelf.put("aab", "goes")).await;
    shelf.saved(shelf.delete("aab")).await;
    let elsewhere = h.store.put_type(&TypeSpec::named("other"), None).await.unwrap();
    shelf.saved(EntityWrite { type_id: elsewhere, ..shelf.put("ab", "x") }).await;
    ids.sort_unstable();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let after = listed.last().map(String::as_str);
        let page = h.store.entities(shelf.type_id, after, 4).await.unwrap();
        assert!(page.len() <= 4);
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|entity| entity.id));
    }
    assert_eq!(listed, ids);
    let page = h.store.entities(shelf.type_id, Some("a\0b"), 1).await.unwrap();
    assert_eq!(page[0].id, "a b", "any text may be asked for");
    assert!(h.store.entity(shelf.type_id, "a\0b").await.unwrap().is_none());
}

pub async fn numbers_find_what_is_there(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let saved = shelf.save(&[shelf.put("a", "x"), shelf.put("b", "y"), shelf.put("c", "z")]).await;
    let numbers: Vec<_> = saved.into_iter().map(|saved| taken(saved).no).collect();
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 3);
    shelf.saved(shelf.delete("b")).await;
    let found = h.store.entities_numbered(&numbers).await.unwrap();
    let mut ids: Vec<&str> = found.iter().map(|entity| entity.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "c"], "without tombstones");
    assert_eq!(found.iter().find(|e| e.id == "c").unwrap(), &shelf.get("c").await);
    assert!(h.store.entities_numbered(&[]).await.unwrap().is_empty());
}

pub async fn pending_is_counted_to_the_cap(h: Harness) {
    let shelf = Shelf::new(&h).await;
    let pending = async |cap| h.store.pending_entities(cap).await.unwrap();
    assert_eq!(pending(10).await, 0);
    let writes: Vec<EntityWrite> = (0..7).map(|n| shelf.put(&n.to_string(), "x")).collect();
    shelf.save(&writes).await;
    assert_eq!((pending(100).await, pending(5).await, pending(0).await), (7, 5, 0));
    shelf.saved(shelf.delete("0")).await;
    shelf.saved(shelf.prepared("1", "x", &[1])).await;
    assert_eq!(pending(100).await, 5);
}
