//! Queries on the read views.

use serde_json::Value;
use sqlx::AssertSqlSafe;
use windlass_testkit::view_queries::{QUERIES, fill};

use crate::place::Place;

#[tokio::test]
async fn the_view_queries_run() {
    let place = Place::bare().await;
    windlass_core::Store::migrate_up(&place.store, None).await.unwrap();
    fill(&place.store).await;
    for query in QUERIES {
        let sql = query.for_postgres();
        // The view names without a schema, found by the search path.
        let rows = format!(
            "set search_path = {}; select row_to_json(t)::text from ({}) t",
            place.schema,
            sql.trim_end_matches(';')
        );
        let mut connection = place.pool.acquire().await.unwrap();
        let rows = sqlx::raw_sql(AssertSqlSafe(rows)).fetch_all(&mut *connection).await;
        let rows = rows.unwrap_or_else(|error| panic!("{error}\n{sql}"));
        let text = |row: &sqlx::postgres::PgRow| sqlx::Row::get::<String, _>(row, 0);
        let answer: Vec<Value> = rows.iter().map(|row| serde_json::from_str(&text(row)).unwrap()).collect();
        assert!((query.answer)(&answer), "{}: {answer:#?}", query.name);
    }
    place.end().await;
}
