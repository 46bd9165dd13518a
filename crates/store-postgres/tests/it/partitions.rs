//! Day partitions: made ahead, filled, dropped.

use std::time::Duration;

use windlass_core::store::{Prune, PruneWhat};
use windlass_core::{JobState, Store};

use crate::place::{Place, done, ended, settlement};

const WEEK: Duration = Duration::from_secs(7 * 86_400);

fn finished(dry_run: bool) -> Prune {
    Prune { what: PruneWhat::Finished, older_than: WEEK, dry_run }
}

/// A day partition pair `days` ago with one finished job of the given state.
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
async fn today_and_three_days_ahead_are_made_and_used() {
    let place = Place::new().await;
    assert_eq!(place.number(DAYS).await, 5, "four days and the default");
    place.put(10).await;
    assert_eq!(place.number("select count(*) from windlass.jobs_default").await, 0);
    assert!(place.store.examine().await.unwrap().iter().any(|f| f.name == "partitions" && f.ok));
    place.end().await;
}

#[tokio::test]
async fn a_spent_day_is_dropped_whole_and_one_with_a_dead_letter_row_by_row() {
    let place = Place::new().await;
    old_day(&place, 30, JobState::Completed.code()).await;
    old_day(&place, 20, JobState::DeadLetter.code()).await;
    old_day(&place, 3, JobState::Completed.code()).await;
    let days = place.number(DAYS).await;
    assert_eq!(place.store.prune(&finished(true)).await.unwrap(), 1);
    assert_eq!(place.store.prune(&finished(false)).await.unwrap(), 1);
    assert_eq!(place.number(DAYS).await, days - 1);
    assert_eq!(place.number("select count(*) from windlass.jobs").await, 2);
    let dead = Prune { what: PruneWhat::DeadLetters, older_than: WEEK, dry_run: false };
    assert_eq!(place.store.prune(&dead).await.unwrap(), 1);
    assert_eq!(place.store.prune(&finished(false)).await.unwrap(), 0);
    assert_eq!(place.number(DAYS).await, days - 2, "the emptied day goes too");
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
    assert_eq!(place.store.prune(&finished(false)).await.unwrap(), 2);
    assert!(place.store.job(ids[0]).await.unwrap().is_none());
    assert_eq!(place.state(ids[1]).await, JobState::Failed);
    assert_eq!(place.state(ids[4]).await, JobState::Pending);
    place.end().await;
}
