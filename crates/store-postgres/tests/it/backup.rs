//! The list of what a backup contains matches the schema, and restored jobs are in the partitions of their days.

use sqlx::{AssertSqlSafe, Row};
use windlass_core::backup::{COLUMNS_LEFT_OUT, TABLES_LEFT_OUT};
use windlass_core::store::BackupStore;
use windlass_core::{NewJob, Store};
use windlass_testkit::conformance::backup_fixture::holdings;

use crate::place::Place;

#[tokio::test]
async fn every_column_is_in_a_backup_or_left_out_for_a_reason() {
    let place = Place::new().await;
    let sql = r"select c.relname::text as name, a.attname::text as col, a.attidentity::text as identity
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'SCHEMA'::regnamespace and c.relkind in ('r', 'p')
          and c.relname !~ '_d\d{8}$|_default$'";
    let sql = sql.replace("SCHEMA", &place.schema);
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&place.pool).await.unwrap();
    let found: Vec<(String, String, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), !row.get::<String, _>(2).is_empty())).collect();
    assert!(found.len() > 100, "{found:?}");
    for (name, column, numbered) in &found {
        if TABLES_LEFT_OUT.iter().any(|(left, _)| left == name)
            || COLUMNS_LEFT_OUT.iter().any(|(left, of, _)| (*left, *of) == (name, column))
        {
            continue;
        }
        let known = holdings().table(name).and_then(|table| Some(&table.columns[table.column(column)?]));
        let known = known.unwrap_or_else(|| {
            panic!("`{name}.{column}` is neither listed in a backup nor left out with a reason")
        });
        assert_eq!(
            known.serial, *numbered,
            "`{name}.{column}` is a sequence that has to continue after a restore"
        );
    }
    for table in holdings().tables {
        for column in table.columns {
            let there = found.iter().any(|(name, of, _)| name == table.name && of == column.name);
            assert!(there, "`{}.{}` is not in the schema", table.name, column.name);
        }
    }
    place.end().await;
}

/// Exports everything, recreates the schema, and imports everything.
async fn export_and_restore(place: &Place) {
    let mut export = place.store.export(&holdings()).await.unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = export.next().await.unwrap() {
        batches.push(batch);
    }
    place.store.migrate_down(0).await.unwrap();
    place.store.migrate_up(None).await.unwrap();
    let mut import = place.store.import(&holdings()).await.unwrap();
    for batch in batches {
        let columns: Vec<usize> = (0..batch.table.columns.len()).collect();
        import.put(batch.table, &columns, batch.rows).await.unwrap();
    }
    import.finish().await.unwrap();
}

/// A blocked job is claimed after the restore.
#[tokio::test]
async fn lanes_work_after_a_restore() {
    let place = Place::new().await;
    let keyed = NewJob { concurrency_key: Some("a".to_owned()), ..place.job() };
    let put = place.store.enqueue(&[keyed]).await.unwrap()[0].id;
    export_and_restore(&place).await;
    let other = place.other().await;
    let worker = place.worker().await;
    let leased = other.claim(&place.claim(worker, 5)).await.unwrap();
    assert_eq!(leased.iter().map(|job| job.id).collect::<Vec<_>>(), [put]);
    other.close().await;
    place.end().await;
}

#[tokio::test]
async fn restored_jobs_are_in_the_partitions_of_their_days() {
    let place = Place::new().await;
    place.store.set_clock_offset(-40 * 86_400_000_000);
    place.put(3).await;
    place.store.set_clock_offset(0);
    place.put(2).await;
    export_and_restore(&place).await;
    assert_eq!(place.number("select count(*) from windlass.jobs").await, 5);
    assert_eq!(place.number("select count(*) from windlass.jobs_default").await, 0);
    place.end().await;
}
