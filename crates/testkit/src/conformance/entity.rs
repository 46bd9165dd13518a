//! Writes of entities: versions, expectations of the caller, patches, and reads.

use std::collections::HashSet;

use windlass_core::TypeSpec;
use windlass_core::entity::{Change, EntityWrite, Expected, IndexState, Operation, TextField, WriteRefusal};
use windlass_core::store::Saved;

use super::Harness;
use super::entity_fixture::{EntityFixture, fields, taken};

pub async fn types_are_stored_and_replaced(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let other = h.store.put_type(&TypeSpec::named("product"), None).await.unwrap();
    let text = vec![TextField { name: "näme \"quoted\"".to_owned(), weight: 3 }];
    let changed = TypeSpec { text, ..TypeSpec::named("product") };
    assert_eq!(h.store.put_type(&changed, None).await.unwrap(), other, "the same name is the same type");
    let types = h.store.types().await.unwrap();
    assert_eq!(types, [(entities.type_id, TypeSpec::document()), (other, changed)]);
}

pub async fn adding_a_type_does_not_overwrite_it(h: Harness) {
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
    let entities = EntityFixture::new(&h).await;
    let first = entities.saved(entities.put("a", "one")).await;
    assert_eq!((first.version, first.operation), (1, Operation::Create));
    let gone = entities.saved(entities.delete("a")).await;
    assert_eq!((gone.version, gone.operation, gone.state), (2, Operation::Delete, IndexState::Deleted));
    let tombstone = entities.get("a").await;
    assert_eq!((tombstone.version, tombstone.fields, tombstone.state), (2, None, IndexState::Deleted));
    assert_eq!(entities.refused(entities.delete("a")).await, WriteRefusal::Missing);
    let again = entities.saved(entities.put("a", "two")).await;
    assert_eq!((again.no, again.version, again.operation), (first.no, 3, Operation::Create));
    assert_eq!(entities.text("a").await, "two");
}

pub async fn an_expected_version_must_match(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let at = |version, write: EntityWrite| EntityWrite { expected: Expected::Version(version), ..write };
    assert_eq!(entities.refused(at(1, entities.put("a", "x"))).await, WriteRefusal::Missing);
    entities.saved(entities.put("a", "one")).await;
    assert_eq!(entities.saved(at(1, entities.put("a", "two"))).await.version, 2);
    assert_eq!(entities.refused(at(1, entities.put("a", "late"))).await, WriteRefusal::Version { found: 2 });
    assert_eq!(entities.refused(at(1, entities.delete("a"))).await, WriteRefusal::Version { found: 2 });
    assert_eq!(entities.text("a").await, "two");
    entities.saved(at(2, entities.delete("a"))).await;
    assert_eq!(
        entities.refused(at(3, entities.put("a", "x"))).await,
        WriteRefusal::Missing,
        "a tombstone has no version"
    );
}

pub async fn expected_absent_accepts_a_tombstone(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let new = |text| EntityWrite { expected: Expected::Absent, ..entities.put("a", text) };
    assert_eq!(entities.saved(new("one")).await.version, 1);
    assert_eq!(entities.refused(new("two")).await, WriteRefusal::Exists { version: 1 });
    assert_eq!(entities.text("a").await, "one");
    entities.saved(entities.delete("a")).await;
    assert_eq!(entities.saved(new("three")).await.version, 3);
}

/// Fields keep the order of the writer, also after a patch.
pub async fn a_patch_sets_and_removes(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let patch = |json| entities.write("a", Change::Patch(fields(json)));
    assert_eq!(entities.refused(patch("{}")).await, WriteRefusal::Missing);
    let all = r#"{"title":"t","text":"x","price":1.50,"big":12345678901234567890,"deep":{"z":[1,null],"a":"\u0000"}}"#;
    entities.saved(entities.write("a", Change::Put(fields(all)))).await;
    let written = entities.saved(patch(r#"{"price":2,"title":null,"new":false}"#)).await;
    assert_eq!((written.version, written.operation), (2, Operation::Update));
    let found = entities.get("a").await.fields.unwrap();
    let wanted =
        r#"{"text":"x","price":2,"big":12345678901234567890,"deep":{"z":[1,null],"a":"\u0000"},"new":false}"#;
    assert_eq!(serde_json::to_string(&found).unwrap(), wanted);
}

pub async fn a_refused_write_does_not_affect_the_others(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    entities.saved(entities.put("b", "old")).await;
    let fresh = EntityWrite { expected: Expected::Absent, ..entities.put("b", "new") };
    let saved =
        entities.save(&[entities.put("a", "x"), fresh, entities.delete("c"), entities.put("d", "y")]).await;
    assert!(matches!(saved[0], Saved::Written(_)) && matches!(saved[3], Saved::Written(_)));
    assert_eq!(saved[1], Saved::Refused(WriteRefusal::Exists { version: 1 }));
    assert_eq!(saved[2], Saved::Refused(WriteRefusal::Missing));
    assert_eq!(entities.text("b").await, "old");
    assert!(entities.found("c").await.is_none());
    assert_eq!((entities.text("a").await, entities.text("d").await), ("x".to_owned(), "y".to_owned()));
    assert!(entities.save(&[]).await.is_empty(), "nothing is no error");
}

pub async fn listed_by_the_bytes_of_the_id(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let mut ids =
        ["a", "B", "ä", "Z", "é", "e\u{301}", "_", "a b", "aa", "ß", "ss", "10", "9", "😀", "\u{ffee}"];
    let writes: Vec<EntityWrite> = ids.iter().map(|id| entities.put(id, "x")).collect();
    entities.save(&writes).await;
    entities.saved(entities.put("aab", "goes")).await;
    entities.saved(entities.delete("aab")).await;
    let elsewhere = h.store.put_type(&TypeSpec::named("other"), None).await.unwrap();
    entities.saved(EntityWrite { type_id: elsewhere, ..entities.put("ab", "x") }).await;
    ids.sort_unstable();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let after = listed.last().map(String::as_str);
        let page = h.store.entities(entities.type_id, after, 4).await.unwrap();
        assert!(page.len() <= 4);
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|entity| entity.id));
    }
    assert_eq!(listed, ids);
    let page = h.store.entities(entities.type_id, Some("a\0b"), 1).await.unwrap();
    assert_eq!(page[0].id, "a b", "any text may be asked for");
    assert!(h.store.entity(entities.type_id, "a\0b").await.unwrap().is_none());
}

pub async fn entities_are_found_by_number(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let saved =
        entities.save(&[entities.put("a", "x"), entities.put("b", "y"), entities.put("c", "z")]).await;
    let numbers: Vec<_> = saved.into_iter().map(|saved| taken(saved).no).collect();
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 3);
    entities.saved(entities.delete("b")).await;
    let found = h.store.entities_numbered(&numbers).await.unwrap();
    let mut ids: Vec<&str> = found.iter().map(|entity| entity.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "c"], "without tombstones");
    assert_eq!(found.iter().find(|e| e.id == "c").unwrap(), &entities.get("c").await);
    assert!(h.store.entities_numbered(&[]).await.unwrap().is_empty());
}

pub async fn pending_is_counted_to_the_cap(h: Harness) {
    let entities = EntityFixture::new(&h).await;
    let pending = async |cap| h.store.pending_entities(cap).await.unwrap();
    assert_eq!(pending(10).await, 0);
    let writes: Vec<EntityWrite> = (0..7).map(|n| entities.put(&n.to_string(), "x")).collect();
    entities.save(&writes).await;
    assert_eq!((pending(100).await, pending(5).await, pending(0).await), (7, 5, 0));
    entities.saved(entities.delete("0")).await;
    entities.saved(entities.prepared("1", "x", &[1])).await;
    assert_eq!(pending(100).await, 5);
}
