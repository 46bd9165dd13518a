//! Queries on the read views.

use rusqlite::types::ValueRef;
use serde_json::{Map, Value};
use windlass_testkit::view_queries::{QUERIES, fill};

use crate::setup::open;

fn ask(connection: &rusqlite::Connection, sql: &str) -> Vec<Value> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.query([]).unwrap();
    let mut answer = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let value = |at| match row.get_ref(at).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::from(number),
            ValueRef::Real(number) => Value::from(number),
            ValueRef::Text(text) => Value::from(std::str::from_utf8(text).unwrap()),
            ValueRef::Blob(_) => panic!("{sql} answers bytes"),
        };
        let object: Map<String, Value> =
            names.iter().enumerate().map(|(at, name)| (name.clone(), value(at))).collect();
        answer.push(Value::Object(object));
    }
    answer
}

#[tokio::test]
async fn the_view_queries_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("windlass.db");
    let store = open(&path);
    windlass_core::Store::migrate_up(&store, None).await.unwrap();
    fill(&store).await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    for query in QUERIES {
        let answer = ask(&connection, &query.for_sqlite());
        assert!((query.answer)(&answer), "{}: {answer:#?}", query.name);
    }
    let refused = connection.execute("update windlass_indexing_queue set status = 'PENDING'", []);
    assert!(refused.unwrap_err().to_string().contains("cannot modify"), "the views are read only");
}
