//! Query plans at a million waiting jobs.
//!
//! A claim and the query for late jobs read what they take straight from the index, without a sort, which would cost
//! seconds per claim. Blocked jobs that are not due are not read. The end of a job of a workflow reads only its
//! children and their unfinished parents.

use std::time::Duration;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use windlass_core::store::WorkerInfo;
use windlass_core::{KindSpec, Store};

use crate::claim::CLAIM;
use crate::hint::{BOTTOM, PRIORITIES};
use crate::lane::CANDIDATES;
use crate::late::LATE;
use crate::row::PgTime;
use crate::workflow::RELEASABLE;
use crate::{Options, PostgresStore};

const FILL: &str = "
    insert into windlass.ready (queue, priority, run_at, id, kind)
    select 1, n % 11, now() - n % 7200 * interval '1 second', n, 1 from generate_series(1, 1000000) n;
    analyze windlass.ready";

pub(crate) fn url() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned())
}

/// All nodes of a plan, parents first.
fn nodes<'p>(plan: &'p Value, all: &mut Vec<&'p Value>) {
    all.push(plan);
    for below in plan["Plans"].as_array().into_iter().flatten() {
        nodes(below, all);
    }
}

fn reads_ready(plan: &Value) -> bool {
    let mut all = Vec::new();
    nodes(plan, &mut all);
    all.iter().any(|node| node["Relation Name"] == "ready")
}

fn assert_no_sort(row: &PgRow) {
    let plan: Value = serde_json::from_str(row.try_get_unchecked(0).unwrap()).unwrap();
    let mut all = Vec::new();
    nodes(&plan[0]["Plan"], &mut all);
    let mut scans = 0;
    for node in all {
        let kind = node["Node Type"].as_str().unwrap_or_default();
        assert!(!(kind.contains("Sort") && reads_ready(node)), "waiting jobs are sorted: {plan:#}");
        if node["Relation Name"] == "ready" && !matches!(kind, "ModifyTable" | "Tid Scan") {
            assert_eq!((kind, node["Index Name"].as_str()), ("Index Scan", Some("ready_pkey")), "{plan:#}");
            scans += 1;
        }
    }
    assert_eq!(scans, 1, "{plan:#}");
}

#[tokio::test]
async fn nothing_is_sorted_at_a_million_rows() {
    let schema = format!("wl_plans_{}", std::process::id());
    let store =
        PostgresStore::connect(&format!("{}?schema={schema}", url()), Options::default()).await.unwrap();
    store.migrate_up(None).await.unwrap();
    let mut conn = PgConnection::connect(&url()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(store.render(FILL))).execute(&mut conn).await.unwrap();
    let low = || [PgTime(BOTTOM); PRIORITIES].to_vec();
    let explain = |sql| AssertSqlSafe(format!("explain (format json) {}", store.render(sql)));
    let claim = sqlx::query(explain(CLAIM))
        .bind(0_i64)
        .bind(1_i64)
        .bind(1_i32)
        .bind(500_i64)
        .bind(vec![1_i32])
        .bind(low())
        .bind(PgTime(BOTTOM))
        .bind(None::<i64>);
    assert_no_sort(&claim.fetch_one(&store.pool).await.unwrap());
    let late = sqlx::query(explain(LATE))
        .bind(0_i64)
        .bind(600_000_000_i64)
        .bind(1_i32)
        .bind(vec![1_i32])
        .bind(low())
        .bind(100_i64);
    assert_no_sort(&late.fetch_one(&store.pool).await.unwrap());
    let end = AssertSqlSafe(format!("drop schema {schema} cascade"));
    sqlx::raw_sql(end).execute(&mut conn).await.unwrap();
    store.close().await;
}

/// A store with a kind and a worker of queue 1.
pub(crate) async fn store_with_worker(name: &str) -> (PostgresStore, PgConnection, i64) {
    let url = format!("{}?schema=wl_plans_{name}_{}", url(), std::process::id());
    let store = PostgresStore::connect(&url, Options::default()).await.unwrap();
    store.migrate_up(None).await.unwrap();
    store.sync_registry(&[], &[KindSpec::new("k", "Q")], None).await.unwrap();
    let (kind, queue, _) = store.kinds().await.unwrap().remove(0);
    assert_eq!((kind.0, queue.0), (1, 1));
    let info = WorkerInfo { label: "host:1".to_owned(), queues: vec![queue], lease: Duration::from_secs(60) };
    let worker = store.register_worker(&info).await.unwrap();
    (store, PgConnection::connect(&self::url()).await.unwrap(), worker.0)
}

pub(crate) async fn end(store: PostgresStore, mut conn: PgConnection) {
    let end = AssertSqlSafe(format!("drop schema {} cascade", store.schema));
    sqlx::raw_sql(end).execute(&mut conn).await.unwrap();
    store.close().await;
}

/// How many pages of a table the statement read.
fn pages(row: &PgRow, table: &str) -> u64 {
    let plan: Value = serde_json::from_str(row.try_get_unchecked(0).unwrap()).unwrap();
    let mut all = Vec::new();
    nodes(&plan[0]["Plan"], &mut all);
    let of_table = |node: &&&Value| {
        node["Relation Name"] == table
            && node["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan"))
    };
    let page = |node: &&Value| {
        node["Shared Hit Blocks"].as_u64().unwrap_or(0) + node["Shared Read Blocks"].as_u64().unwrap_or(0)
    };
    assert!(all.iter().any(|node| of_table(&node)), "{plan:#}");
    all.iter().filter(of_table).map(page).sum()
}

const AHEAD: &str = "
    insert into windlass.ready (queue, priority, run_at, id, kind, lane)
    select -1, 0, now() + n * interval '1 hour', n, 1, 1 from generate_series(2, 20000) n
    union all select -1, 5, now() - interval '1 hour', 1000000, 1, 1;
    analyze windlass.ready";

/// The next job of a lane is found behind any number of more urgent jobs that are not due.
#[tokio::test]
async fn jobs_that_are_not_due_are_not_read() {
    let (store, mut conn, _) = store_with_worker("ahead").await;
    sqlx::raw_sql(AssertSqlSafe(store.render(AHEAD))).execute(&mut conn).await.unwrap();
    let bound = |sql| sqlx::query(AssertSqlSafe(sql)).bind(0_i64).bind(vec![1_i64]).bind(vec![1_i32]);
    let found = bound(store.render(CANDIDATES)).fetch_all(&store.pool).await.unwrap();
    let found: Vec<i64> = found.iter().map(|row| row.get("id")).collect();
    let sql = format!("explain (analyze, buffers, format json) {}", store.render(CANDIDATES));
    let read = pages(&bound(sql).fetch_one(&store.pool).await.unwrap(), "ready");
    assert!(found == [1_000_000] && read < 80, "{read} pages to find {found:?}");
    end(store, conn).await;
}

const FILL_WORKFLOWS: &str = "
    insert into windlass.workflow_jobs (workflow, no, job_id, name, state, goes_on, parents, children)
    select n / 1000, n % 1000, n, n, case when n % 1000 = 999 then 0 when n % 3 = 0 then 3 else 1 end, false,
           case when n % 1000 = 999 then (select array_agg(p) from generate_series(0, 998) p) else '{}' end,
           case when n % 1000 = 999 then '{}' else '{999}' end::int[]
    from generate_series(0, 99999) n;
    analyze windlass.workflow_jobs";

#[tokio::test]
async fn the_end_of_a_parent_reads_only_its_children() {
    let schema = format!("wl_plans_ripe_{}", std::process::id());
    let store =
        PostgresStore::connect(&format!("{}?schema={schema}", url()), Options::default()).await.unwrap();
    store.migrate_up(None).await.unwrap();
    let mut conn = PgConnection::connect(&url()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(store.render(FILL_WORKFLOWS))).execute(&mut conn).await.unwrap();
    let explain = AssertSqlSafe(format!("explain (analyze, format json) {}", store.render(RELEASABLE)));
    let ends = sqlx::query(explain).bind(vec![7_i64]).bind(vec![999_i32]).bind(vec![7_i64]);
    let row = ends.fetch_one(&store.pool).await.unwrap();
    let plan: Value = serde_json::from_str(row.try_get_unchecked(0).unwrap()).unwrap();
    let mut all = Vec::new();
    nodes(&plan[0]["Plan"], &mut all);
    let scans: Vec<&&Value> = all.iter().filter(|node| node["Relation Name"] == "workflow_jobs").collect();
    assert_eq!(scans.len(), 3, "{plan:#}");
    for scan in scans {
        assert!(scan["Node Type"].as_str().unwrap().starts_with("Index"), "{plan:#}");
        let read =
            scan["Actual Rows"].as_f64().unwrap() + scan["Rows Removed by Filter"].as_f64().unwrap_or(0.0);
        assert!(read <= 1.0, "a lookup reads one row: {plan:#}");
    }
    let end = AssertSqlSafe(format!("drop schema {schema} cascade"));
    sqlx::raw_sql(end).execute(&mut conn).await.unwrap();
    store.close().await;
}
