//! Migrations, and the golden schema.

use sqlx::{AssertSqlSafe, Row};
use windlass_core::pack::{PackStep, SqlText, check_steps};
use windlass_core::store::PackStore;
use windlass_core::{Store, StoreError};

use crate::place::Place;

/// The catalog as text, without the day partitions, whose names are dates.
async fn dump(place: &Place) -> String {
    let sql = r"
        with rel as (
            select c.oid, c.relname, c.relkind, c.reloptions from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'SCHEMA' and c.relname !~ '_d\d{8}'),
        lines as (
            select 1 as part, relname as a, 0 as b,
                   case relkind when 'p' then 'partitioned table ' when 'S' then 'sequence ' else 'table ' end || relname
                   || coalesce(' with (' || array_to_string(reloptions, ', ') || ')', '') as line
            from rel where relkind in ('r', 'p', 'S')
            union all
            select 1, relname, a.attnum, '    ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                   || case when a.attnotnull then ' not null' else '' end
                   || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
                   || case a.attidentity when 'a' then ' identity' else '' end
                   || case when a.attstorage <> t.typstorage then ' storage ' || a.attstorage::text else '' end
            from rel join pg_attribute a on a.attrelid = rel.oid and a.attnum > 0 and not a.attisdropped
            join pg_type t on t.oid = a.atttypid
            left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
            where relkind in ('r', 'p')
            union all
            select 1, relname, 1000, '    ' || conname || ': ' || pg_get_constraintdef(c.oid)
            from rel join pg_constraint c on c.conrelid = rel.oid
            union all
            select 2, relname, 0, pg_get_indexdef(rel.oid) from rel where relkind in ('i', 'I')
            union all
            select 3, relname, 0, 'view ' || relname || E'\n' || pg_get_viewdef(rel.oid) from rel where relkind = 'v'
            union all
            select 4, p.proname, 0, rtrim(pg_get_functiondef(p.oid), E'\n') from pg_proc p
            join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'SCHEMA'
            union all
            select 5, relname, 0, pg_get_triggerdef(t.oid) from rel
            join pg_trigger t on t.tgrelid = rel.oid and not t.tgisinternal)
        select line from lines order by part, a, b, line";
    let sql = sql.replace("SCHEMA", &place.schema);
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&place.pool).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get::<String, _>("line")).collect();
    lines.join("\n").replace(&format!("{}.", place.schema), "windlass.") + "\n"
}

#[tokio::test]
async fn all_migrations_give_the_golden_schema() {
    let place = Place::new().await;
    let found = dump(&place).await;
    place.end().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/schema.sql");
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == found, "the schema differs from {path}; WINDLASS_BLESS=1 rewrites it\n{found}");
}

#[tokio::test]
async fn up_twice_is_harmless_and_up_works_again_after_down() {
    let place = Place::bare().await;
    assert!(matches!(place.store.check_schema().await, Err(StoreError::SchemaMissing)));
    let all = place.store.migrate_up(None).await.unwrap();
    assert!(!all.is_empty());
    let first = dump(&place).await;
    assert!(place.store.migrate_up(None).await.unwrap().is_empty());
    place.store.check_schema().await.unwrap();
    let mut down = place.store.migrate_down(0).await.unwrap();
    down.reverse();
    assert_eq!(down, all);
    assert!(matches!(place.store.check_schema().await, Err(StoreError::SchemaMissing)));
    let tables = "select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace
                  where nspname || '.' = 'windlass.' and relkind = 'r'";
    assert_eq!(place.number(tables).await, 1, "only the migrations table stays");
    let functions = "select count(*) from pg_proc p join pg_namespace n on n.oid = pronamespace
                     where nspname || '.' = 'windlass.'";
    assert_eq!(place.number(functions).await, 0);
    assert_eq!(place.store.migrate_up(None).await.unwrap(), all);
    assert_eq!(dump(&place).await, first);
    assert!(place.store.migrations().await.unwrap().iter().all(|m| m.applied_at.is_some()));
    place.end().await;
}

#[tokio::test]
async fn two_processes_migrate_at_once() {
    let place = Place::bare().await;
    let other = place.other().await;
    let (here, there) = tokio::join!(place.store.migrate_up(None), other.migrate_up(None));
    let mut applied = [here.unwrap(), there.unwrap()].concat();
    applied.sort_unstable();
    assert_eq!(applied, [1], "the step is applied by one of them");
    other.close().await;
    place.end().await;
}

#[tokio::test]
async fn a_newer_schema_and_a_changed_step_have_different_errors() {
    let place = Place::new().await;
    place.sql("update windlass.migrations set checksum = 'x' where version = 1").await;
    assert!(matches!(place.store.check_schema().await, Err(StoreError::SchemaChanged { version: 1 })));
    assert!(matches!(place.store.migrate_up(None).await, Err(StoreError::SchemaChanged { version: 1 })));
    place
        .sql("delete from windlass.migrations; insert into windlass.migrations values (99, 'x', 'x', now())")
        .await;
    assert!(matches!(place.store.check_schema().await, Err(StoreError::SchemaNew { found: 99, .. })));
    place.end().await;
}

/// A transaction has read `ready`, which the step locks last, and then needs `kinds`, which the step has locked.
#[tokio::test]
async fn a_migration_gives_way_to_running_transactions() {
    let place = Place::new().await;
    let mut tx = place.pool.begin().await.unwrap();
    // If the step did not give way, this session would detect the deadlock first and be aborted.
    for sql in ["set local deadlock_timeout = '700ms'", "select count(*) from windlass.ready"] {
        sqlx::raw_sql(AssertSqlSafe(place.rendered(sql))).execute(&mut *tx).await.unwrap();
    }
    let reader = async {
        place.wait_for_blocked_session().await;
        let kinds = place.rendered("select name from windlass.kinds");
        let names: Vec<String> = sqlx::query_scalar(AssertSqlSafe(kinds)).fetch_all(&mut *tx).await.unwrap();
        assert_eq!(names, ["k"]);
        // The step waits again while others continue.
        place.wait_for_blocked_session().await;
        place.put(1).await;
        tx.commit().await.unwrap();
    };
    let (reverted, ()) = tokio::join!(place.store.migrate_down(0), reader);
    assert_eq!(reverted.unwrap(), [1]);
    place.store.migrate_up(None).await.unwrap();
    place.end().await;
}

/// Otherwise its tables could be mistaken for ours.
#[tokio::test]
async fn packs_may_not_use_our_names() {
    let place = Place::new().await;
    let sql =
        format!("select relname::text from pg_class where relnamespace = '{}'::regnamespace", place.schema);
    let names: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&place.pool).await.unwrap();
    let text = SqlText::Same("delete from x");
    for name in names.iter().filter(|name| name.contains('_')) {
        let pack = name.split('_').next().unwrap();
        let step = PackStep { version: 1, name: "x", up: text, down: text };
        assert!(check_steps(pack, &[step]).is_err(), "a pack `{pack}` might have `{name}`");
    }
    place.end().await;
}

#[tokio::test]
async fn a_step_of_a_pack_gives_way_to_running_transactions() {
    let place = Place::new().await;
    let steps = [PackStep {
        version: 1,
        name: "entries",
        up: SqlText::Same("create table windlass.guest_entries (id bigint)"),
        down: SqlText::Same("drop table windlass.guest_entries"),
    }];
    place.store.migrate_pack_up("guest", &steps).await.unwrap();
    let read = place.rendered("select count(*) from windlass.guest_entries");
    let mut tx = place.pool.begin().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(read.clone())).execute(&mut *tx).await.unwrap();
    let reader = async {
        // Others get through between two tries of the step.
        place.wait_for_blocked_session().await;
        assert_eq!(place.number(&read).await, 0);
        tx.commit().await.unwrap();
    };
    let (reverted, ()) = tokio::join!(place.store.migrate_pack_down("guest", &steps, 0), reader);
    assert_eq!(reverted.unwrap(), [1]);
    place.end().await;
}
