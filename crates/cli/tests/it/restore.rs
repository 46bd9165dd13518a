//! A refused restore leaves nothing behind: no file, no tables.

use sqlx::{Connection, PgConnection};

use crate::place::{Place, postgres};

/// Tables in the schema of this address.
fn tables(url: &str) -> Vec<String> {
    let (server, schema) = url.split_once("?schema=").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(server).await.unwrap();
        let named = "select tablename::text from pg_tables where schemaname = $1 order by 1";
        sqlx::query_scalar(named).bind(schema).fetch_all(&mut connection).await.unwrap()
    })
}

/// A backup with another first line.
fn changed(place: &Place, name: &str, change: impl Fn(&str) -> String) -> String {
    let text = std::fs::read_to_string(place.path().join("a.backup")).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    place.write(name, format!("{}\n{rest}", change(head)));
    name.to_owned()
}

#[test]
fn a_refused_restore_leaves_nothing_behind() {
    let place = Place::new();
    place.run(&["enqueue", "NOOP", "--in", "1h"]).ok();
    place.run(&["backup", "a.backup"]).ok();
    let packed = |head: &str| head.trim_end_matches('}').to_owned() + r#","packs":{"guestbook":1}}"#;
    let pack = changed(&place, "pack.backup", packed);
    let newer = changed(&place, "newer.backup", |head| head.replace("\"schema\":", "\"schema\":9"));
    let bytes = std::fs::read(place.path().join("a.backup")).unwrap();
    place.write("cut.backup", &bytes[..bytes.len() - 20]);
    for database in ["sqlite://new.db".to_owned(), postgres("refused")] {
        let restore = |file: &str| place.run(&["restore", file, "--database", &database]);
        let left = |file: &str, left: &[&str]| match database.starts_with("postgres") {
            true => assert_eq!(tables(&database), left, "{file}"),
            false => assert!(!place.path().join("new.db").exists(), "{file}"),
        };
        for (file, why) in [
            (pack.as_str(), "pack `guestbook`, which this binary does not have; use one that has it"),
            (&newer, "use a newer windlass"),
        ] {
            let refused = restore(file).fails(1, &["cannot be used", why, "hint: the copy is not to blame"]);
            assert!(!refused.err.contains("created a new database"), "{}", refused.err);
            left(file, &[]);
        }
        restore("cut.backup").fails(1, &["ends in the middle", "hint: use another copy"]);
        // The record of migrations stays, as after `migrate down`.
        left("cut.backup", &["migrations"]);
        restore("a.backup").ok().says(&["restored into"]);
        place.run(&["migrate", "down", "--to", "0", "--database", &database]).ok();
    }
}
