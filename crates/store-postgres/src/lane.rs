//! Lanes: slots, looks, and the promotion of what stands first in line.
//!
//! Owns the looks, and the promotion that follows them. A settlement offers its slot to the next (`turn`); whoever else
//! frees a slot, and whoever puts a job in line, leaves a look in the same transaction; claims follow them. Never locks
//! a lane where a caller's transaction or a settlement would have to wait for it.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::{KindId, NewJob, QueueId, StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, count, get, time};

/// Claims take turns on the row of a kind, which is locked and not written: two that looked at one lane at once could
/// pass over who stands first. So a look needs no lock: followed twice, it finds nothing the second time. A claim that
/// had to wait sees the tables as they were before, so nothing here trusts them: who was promoted meanwhile is no
/// longer in line when its row is locked, a slot taken meanwhile is in conflict, and a row that changed meanwhile
/// cannot be moved by its address. The looks at a lane where that happened stay for the next claim, and so do those at
/// a lane with room where somebody who is due could not be locked: whoever holds him may let go of him as he was.
///
/// What it deletes draws a number (a trigger), which tells whoever remembers lines (`line`) that somebody may have got in.
///
/// Whatever the statistics say, each lane is one probe of `ready_lined`, whose condition no other index answers, and
/// parts are put together by hash or by address: `is true` keeps the subquery from becoming a join.
const PROMOTE: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    k as materialized (
        select k.id, k.key_concurrency as room
        from n cross join windlass.kinds k cross join lateral (
            select from windlass.looks o where o.kind = k.id and o.at >= $3 and o.at <= n.now limit 1) o
        where k.id = any ($2::int[])
        order by k.id for no key update of k),
    most as materialized (
        select greatest($4::bigint / count(*), 1) as looks, greatest($5::bigint / count(*), 1) as lanes
        from k having count(*) > 0),
    o as materialized (
        select o.ctid, k.id as kind, o.lane, o.at, o.freed, k.room
        from k cross join n cross join lateral (
            select o.ctid, o.lane, o.at, o.freed from windlass.looks o
            where o.kind = k.id and o.at >= $3 and o.at <= n.now
            order by o.at limit (select looks from most)) o),
    l as materialized (
        select g.lane, g.freed_at, array(
                   select x.slot::smallint from generate_series(1, g.room) x (slot)
                   where x.slot <> all (g.taken) order by 1 limit greatest(g.room - cardinality(g.taken), 0)) as free
        from (select x.lane, x.room, x.freed_at,
                     array(select s.slot from windlass.slots s where s.lane = x.lane) as taken
              from (select o.lane, o.room, max(o.at) filter (where o.freed) as freed_at,
                           row_number() over (partition by o.kind order by min(o.at)) as nth
                    from o group by o.kind, o.lane, o.room) x
              where x.nth <= (select lanes from most)) g),
    f as materialized (
        select l.lane, l.freed_at, r.id, r.ctid,
               (select true from windlass.ready z where z.ctid = r.ctid) as seen,
               l.free[(row_number() over (partition by l.lane order by r.priority, r.run_at, r.id))::int] as slot
        from l cross join n cross join lateral (
            select r.id, r.ctid, r.priority, r.run_at from windlass.ready r
            where -r.queue > 0 and r.lane = l.lane and r.run_at <= n.now
            order by r.priority, r.run_at, r.id limit cardinality(l.free) for update skip locked) r),
    s as (
        insert into windlass.slots (lane, slot) select lane, slot from f where seen order by lane, slot
        on conflict do nothing returning lane, slot),
    p as (
        update windlass.ready r set queue = -r.queue, run_at = greatest(r.run_at, f.freed_at), slot = f.slot
        from f where r.ctid = f.ctid and ((f.lane, f.slot) in (select lane, slot from s)) is true
        returning r.queue, r.run_at),
    stay as materialized (
        select lane from f where ((lane, slot) in (select lane, slot from s)) is not true
        union all
        select l.lane from l left join (select lane, count(*) as heads from f group by lane) got on got.lane = l.lane
        cross join n
        where cardinality(l.free) > coalesce(got.heads, 0)
          and (select true from windlass.ready r
               where -r.queue > 0 and r.lane = l.lane and r.run_at <= n.now
                 and (r.id in (select id from f)) is not true limit 1)),
    d as (
        delete from windlass.looks where ctid = any (array(
            select ctid from o
            where (lane in (select lane from l)) is true and (lane in (select lane from stay)) is not true))
        returning lane)
    select queue, min(run_at) as run_at, count(*) as heads from p group by queue
    union all
    select null, null, count(*) from d
    where exists (select from o where (lane in (select lane from l)) is not true)
       or exists (select from o group by kind having count(*) >= (select looks from most))";

const RELEASE: &str = "
    with n as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    s as materialized (
        select s.ctid, u.kind, u.lane
        from unnest($2::bigint[], $3::smallint[], $4::int[]) u (lane, slot, kind) cross join lateral (
            select s.ctid from windlass.slots s where s.lane = u.lane and s.slot = u.slot limit 1) s),
    d as (delete from windlass.slots where ctid = any (array(select ctid from s)))
    insert into windlass.looks (kind, at, lane, freed) select distinct s.kind, n.now, s.lane, true from s, n";

const LOOK_EVERYWHERE: &str = "
    insert into windlass.looks (kind, at, lane, freed)
    select distinct r.kind, statement_timestamp() + $1::bigint * interval '1 microsecond', r.lane, true
    from windlass.ready r join windlass.kinds k on k.id = r.kind
    where -r.queue > 0 and k.name = any ($2)";

const ANNOUNCE: &str = "update windlass.queues set laned = true where id = any ($1::int[]) and not laned";

/// What a claim follows: so many looks, at so many lanes, of each of its kinds that have some an equal part. The next goes on.
/// Many looks at a lane cost little more than one, and whoever enqueues in bulk leaves many.
struct Most {
    looks: i64,
    lanes: i64,
}

const MOST: Most = Most { looks: 20_000, lanes: 5_000 };
const OP: &str = "promote";

/// What a claim brought to the front.
pub(crate) struct Promoted {
    pub(crate) heads: u64,
    /// Where the first of them stands, per queue.
    pub(crate) places: Vec<(QueueId, Time)>,
    /// Looks were followed and there are more than one claim follows.
    pub(crate) more: bool,
}

impl PostgresStore {
    /// Says in the rows of their queues, once and for good, that there are lanes. In a transaction of its own, before the
    /// jobs are written: a caller that keeps his own open holds nobody up.
    pub(crate) async fn announce_lanes<'j>(
        &self,
        jobs: impl IntoIterator<Item = &'j NewJob>,
    ) -> Result<(), StoreError> {
        let laned = jobs.into_iter().filter(|job| job.lane().is_some()).map(|job| job.queue);
        let queues: BTreeSet<QueueId> = laned.filter(|queue| !self.laned.contains(*queue)).collect();
        if queues.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i32> = queues.iter().map(|queue| queue.0).collect();
        let query = sqlx::query(self.sql(ANNOUNCE)).bind(numbers);
        query.execute(&self.pool).await.map_err(failed("announce lanes"))?;
        for queue in queues {
            self.laned.set(queue, true);
        }
        Ok(())
    }

    /// Follows the looks from `low` on that are due in the lanes of these kinds.
    pub(crate) async fn promote(&self, kinds: &[KindId], low: Time) -> Result<Promoted, StoreError> {
        self.promote_within(MOST, kinds, low).await
    }

    async fn promote_within(&self, most: Most, kinds: &[KindId], low: Time) -> Result<Promoted, StoreError> {
        let rows = sqlx::query(self.sql(PROMOTE))
            .bind(self.offset())
            .bind(kinds.iter().map(|kind| kind.0).collect::<Vec<_>>())
            .bind(PgTime(low))
            .bind(most.looks)
            .bind(most.lanes)
            .fetch_all(&self.pool)
            .await
            .map_err(failed(OP))?;
        let mut promoted = Promoted { heads: 0, places: Vec::with_capacity(rows.len()), more: false };
        for row in &rows {
            let heads = count(row, "heads")?;
            match get::<Option<i32>>(row, "queue")? {
                Some(queue) => {
                    promoted.heads += heads;
                    promoted.places.push((QueueId(queue), time(row, "run_at")?));
                }
                None => promoted.more = heads > 0,
            }
        }
        Ok(promoted)
    }

    /// Gives back the slots of heads that were taken out of `ready`: rows with `kind`, `lane`, and `slot` if
    /// the job was one.
    pub(crate) async fn release(&self, conn: &mut PgConnection, gone: &[PgRow]) -> Result<(), StoreError> {
        let (mut lanes, mut slots, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for row in gone {
            if let Some(slot) = get::<Option<i16>>(row, "slot")? {
                lanes.push(get::<i64>(row, "lane")?);
                slots.push(slot);
                kinds.push(get::<i32>(row, "kind")?);
            }
        }
        if lanes.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(self.sql(RELEASE)).bind(self.offset()).bind(lanes).bind(slots).bind(kinds);
        query.execute(conn).await.map_err(failed("give back slots"))?;
        Ok(())
    }

    /// There is room in every lane of these kinds.
    pub(crate) async fn look_everywhere(
        &self,
        conn: &mut PgConnection,
        kinds: &[String],
    ) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(LOOK_EVERYWHERE)).bind(self.offset()).bind(kinds);
        query.execute(conn).await.map_err(failed("look at lanes"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Executor};

    use super::*;
    use crate::hint::BOTTOM;
    use crate::plans::{end, worked};

    const FEW: Most = Most { looks: 9, lanes: 2 };

    /// Jobs `from..=to` of a kind, each in a lane of its own with two looks at it.
    async fn line_up(store: &PostgresStore, kind: i32, from: i32, to: i32) {
        let sql = format!(
            "insert into windlass.ready (queue, priority, run_at, id, kind, lane)
             select -1, 5, now() - interval '1 minute', n, {kind}, n from generate_series({from}, {to}) n;
             insert into windlass.looks (kind, at, lane, freed)
             select {kind}, now() - interval '1 minute', n, false
             from generate_series({from}, {to}) n, generate_series(1, 2)"
        );
        store.pool.execute(sqlx::raw_sql(AssertSqlSafe(store.render(&sql)))).await.unwrap();
    }

    /// More lanes than one claim looks at, and more looks than it reads: each is looked at, and none of those left is forgotten.
    #[tokio::test]
    async fn what_one_claim_does_not_look_at_is_left_for_the_next() {
        let (store, conn, _) = worked("most").await;
        line_up(&store, 1, 1, 7).await;
        let mut heads = Vec::new();
        loop {
            let promoted = store.promote_within(FEW, &[KindId(1)], BOTTOM).await.unwrap();
            heads.push(promoted.heads);
            if !promoted.more {
                break;
            }
        }
        assert_eq!(heads.iter().sum::<u64>(), 7, "{heads:?}");
        assert!(heads.len() > 3 && heads.iter().all(|heads| *heads <= 2), "{heads:?}");
        let left: i64 = sqlx::query_scalar(store.sql("select count(*) from windlass.looks"))
            .fetch_one(&store.pool)
            .await
            .unwrap();
        assert_eq!(left, 0);
        end(store, conn).await;
    }

    /// Somebody holds all of one kind that a claim would look at.
    #[tokio::test]
    async fn lanes_that_are_stuck_leave_other_kinds_alone() {
        let (store, mut conn, _) = worked("stuck").await;
        let other = windlass_core::KindSpec::new("other", "Q");
        windlass_core::Store::sync_registry(&store, &[], &[other], None).await.unwrap();
        line_up(&store, 1, 1, 3).await;
        line_up(&store, 2, 4, 4).await;
        let hold = store.render("begin; select from windlass.ready where kind = 1 for update");
        conn.execute(sqlx::raw_sql(AssertSqlSafe(hold))).await.unwrap();
        let promoted = store.promote_within(FEW, &[KindId(1), KindId(2)], BOTTOM).await.unwrap();
        assert_eq!((promoted.heads, promoted.more), (1, true));
        let stuck = store.promote_within(FEW, &[KindId(1), KindId(2)], BOTTOM).await.unwrap();
        assert_eq!((stuck.heads, stuck.more), (0, false), "nothing got on: no reason to come again");
        conn.execute("rollback").await.unwrap();
        end(store, conn).await;
    }
}
