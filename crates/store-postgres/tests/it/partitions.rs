//! Day partitions: created ahead, filled, dropped.

use std::time::Duration;

use windlass_core::store::{Prune, PruneWhat};
use windlass_core::{JobState, Store};
use windlass_store_postgres::{Options, PostgresStore};

use crate::place::{Place, done, ended, open_with, settlement};

const WEEK: Duration = Duration::from_secs(7 * 86_400);

fn finished(dry_run: bool) -> Prune {
    Prune { what: PruneWhat::Finished, older_than: WEEK, dry_run }
}

/// Creates the partitions of the day `days` ago, with one finished job in the given state.
async fn old_day(place: &Place, days: i64, state: i16) {
    let sql = format!(
        "do $$
         declare d bigint := floor(extract(epoch from now()) / 86400)::bigint - {days};
                 lo bigint := (d * 86400000) << 22;
                 hi bigint := ((d + 1) * 86400000) << 22;
                 day text := to_char(to_timestamp(d * 86400) at time zone 'UTC', 'YYYYMMDD');
         begin
             execute format('create table windlass.jobs_d%s partition of windlass.jobs for values from (%s) to (%s)', day, lo, hi);
             execute format('create table windlass.finished_d%s partition of windlass.finished for values from (%s) to (%s)', day, lo, hi);
             insert into windlass.jobs (id, kind, queue, priority, max_attempts, created_at, payload)
             values (lo + 1, {kind}, {queue}, 5, 5, to_timestamp(d * 86400), '');
             insert into windlass.finished (id, state, attempt, finished_at) values (lo + 1, {state}, 1, to_timestamp(d * 86400));
         end $$",
        kind = place.kind.0,
        queue = place.queue.0
    );
    place.sql(&sql).await;
}

const DAYS: &str = "select count(*) from pg_inherits where inhparent = 'windlass.jobs'::regclass";

#[tokio::test]
async fn today_and_three_days_ahead_are_created_and_used() {
    let place = Place::new().await;
    assert_eq!(place.number(DAYS).await, 5, "four days and the default");
    place.put(10).await;
    assert_eq!(place.number("select count(*) from windlass.jobs_default").await, 0);
    assert!(place.store.examine().await.unwrap().iter().any(|f| f.name == "partitions" && f.ok));
    place.end().await;
}

#[tokio::test]
async fn an_expired_day_is_dropped_and_one_with_a_dead_letter_deleted_by_row() {
    let place = Place::new().await;
    old_day(&place, 30, JobState::Completed.code()).await;
    old_day(&place, 20, JobState::DeadLetter.code()).await;
    old_day(&place, 3, JobState::Completed.code()).await;
    let days = place.number(DAYS).await;
    assert_eq!(place.store.prune(&finished(true), None).await.unwrap(), 1);
    assert_eq!(place.store.prune(&finished(false), None).await.unwrap(), 1);
    assert_eq!(place.number(DAYS).await, days - 1);
    assert_eq!(place.number("select count(*) from windlass.jobs").await, 2);
    let dead = Prune { what: PruneWhat::DeadLetters, older_than: WEEK, dry_run: false };
    assert_eq!(place.store.prune(&dead, None).await.unwrap(), 1);
    assert_eq!(place.store.prune(&finished(false), None).await.unwrap(), 0);
    assert_eq!(place.number(DAYS).await, days - 2, "the empty day is dropped too");
    place.end().await;
}

#[tokio::test]
async fn expired_rows_of_a_day_in_use_are_deleted_and_the_rest_stays() {
    let place = Place::new().await;
    let ids = place.put(5).await;
    let worker = place.worker().await;
    let leased = place.lease(worker, 3).await;
    let batch = [
        settlement(&leased[0], done()),
        settlement(&leased[1], ended(JobState::Failed, "no")),
        settlement(&leased[2], done()),
    ];
    place.store.settle(&batch).await.unwrap();
    place.store.set_clock_offset(8 * 86_400_000_000);
    assert_eq!(place.store.prune(&finished(false), None).await.unwrap(), 2);
    assert!(place.store.job(ids[0]).await.unwrap().is_none());
    assert_eq!(place.state(ids[1]).await, JobState::Failed);
    assert_eq!(place.state(ids[4]).await, JobState::Pending);
    place.end().await;
}

/// A long reader keeps the day from being dropped. Either timeout may come first.
#[tokio::test]
async fn a_day_that_cannot_be_dropped_does_not_stop_the_rest() {
    for statement_timeout in [Duration::from_millis(150), Duration::from_secs(30)] {
        let place = Place::new().await;
        let days = place.number(DAYS).await;
        place
            .sql(
                "do $$
                 declare day text := to_char((now() + interval '3 days') at time zone 'UTC', 'YYYYMMDD');
                 begin
                     execute format('drop table windlass.jobs_d%s', day);
                     execute format('drop table windlass.finished_d%s', day);
                 end $$",
            )
            .await;
        old_day(&place, 30, JobState::Completed.code()).await;
        let store = open_with(&place.schema, Options { statement_timeout, ..Options::default() }).await;
        let mut reader = place.pool.begin().await.unwrap();
        let read = "do $$ begin
                        execute format('lock table windlass.jobs_d%s in access share mode',
                            to_char((now() - interval '30 days') at time zone 'UTC', 'YYYYMMDD'));
                    end $$";
        let read = read.replace("windlass.", &format!("{}.", place.schema));
        sqlx::raw_sql(sqlx::AssertSqlSafe(read)).execute(&mut *reader).await.unwrap();
        // On a busy machine any statement may exceed the short timeout; the next round does what is left.
        prune_until(&store, &place, days + 1).await;
        assert_eq!(place.number(DAYS).await, days + 1, "the missing day was created, the old one stays");
        assert_eq!(place.number("select count(*) from windlass.finished").await, 0, "the row went by itself");
        reader.rollback().await.unwrap();
        prune_until(&store, &place, days).await;
        assert_eq!(place.number(DAYS).await, days, "the empty day is dropped");
        store.close().await;
        place.end().await;
    }
}

async fn prune_until(store: &PostgresStore, place: &Place, days: i64) {
    for _ in 0..50 {
        let pruned = store.prune(&finished(false), None).await;
        let left = place.number("select count(*) from windlass.finished").await;
        if pruned.is_ok() && left == 0 && place.number(DAYS).await == days {
            return;
        }
    }
}

/// The retry is running when the day is examined, and commits while the pruning waits for it.
#[tokio::test]
async fn a_retry_in_a_day_about_to_be_dropped_is_kept() {
    let place = Place::new().await;
    old_day(&place, 30, JobState::Cancelled.code()).await;
    let days = place.number(DAYS).await;
    let mut replay = place.pool.begin().await.unwrap();
    let text = "with d as (delete from windlass.finished returning id)
                insert into windlass.ready (queue, priority, run_at, id, kind)
                select queue, priority, now(), id, kind from windlass.jobs where id in (select id from d)";
    let text = text.replace("windlass.", &format!("{}.", place.schema));
    sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut *replay).await.unwrap();
    let all = finished(false);
    let (pruned, ()) = tokio::join!(place.store.prune(&all, None), async {
        place.wait_for_blocked_session().await;
        replay.commit().await.unwrap();
    });
    assert_eq!(pruned.unwrap(), 0);
    assert_eq!(place.store.prune(&all, None).await.unwrap(), 0);
    assert_eq!(place.number(DAYS).await, days);
    let worker = place.worker().await;
    assert_eq!(place.lease(worker, 5).await.len(), 1);
    assert_eq!(place.store.prune(&all, None).await.unwrap(), 0);
    assert_eq!(place.number(DAYS).await, days, "it runs");
    place.end().await;
}
