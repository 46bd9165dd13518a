//! Leasing jobs that have been due too long, whatever their priority.
//!
//! Owns the look for them, and their way ahead in the line of a lane. Who of them comes first is decided by
//! `windlass_core::order`; each is then leased by the claim of its priority. Never follows looks at lanes: a claim of all
//! priorities comes right after.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::Duration;

use sqlx::postgres::PgRow;
use windlass_core::order::{Waiting, late_after, longest_due};
use windlass_core::store::{Boosted, Claim, LateJobs};
use windlass_core::{JobId, LaneId, QueueId, StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, delay_in, duration_or_none, get, priority, time, time_or_none};
use crate::turn::first_due;

/// The first of each priority, each straight from its index range: at most eleven times as many rows as are wanted, and
/// nothing is sorted here, however many wait. Offers count as ready, and are read in the same way.
pub(crate) const LATE: &str = "
    with n as materialized (
        select statement_timestamp() + ($1::bigint - $2::bigint) * interval '1 microsecond' as before)
    select r.priority, r.run_at
    from n cross join unnest($5::timestamptz[]) with ordinality p (low, n)
    cross join lateral (
        select r.priority, r.run_at from windlass.ready r
        where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low and r.run_at <= n.before
          and r.suspect is null and r.kind = any ($4::int[])
        order by r.run_at, r.id limit $6) r
    union all
    select t.priority, t.run_at
    from n cross join unnest($5::timestamptz[]) with ordinality p (low, n)
    cross join lateral (
        select t.priority, t.run_at
        from (select t.priority, t.run_at, t.ids from windlass.turns t
              where t.queue = $3 and t.priority = (p.n - 1)::smallint and t.run_at >= p.low and t.run_at <= n.before
                and t.kind = any ($4::int[])
              order by t.run_at limit $6) t
        cross join unnest(t.ids) limit $6) t";

/// From lane to lane by one probe each, and one for the first that is due. Most lines have one priority, and that there is
/// no other is one probe too; otherwise the longest due of each. `offset 0` keeps that one where it saves the others.
pub(crate) const LINES: &str = concat!(
    "
    with recursive n as materialized (
        select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    lanes (lane) as (
        (select r.lane from windlass.ready r where -r.queue > 0 and r.lane > $2 order by r.lane limit 1)
        union all
        select (select r.lane from windlass.ready r where -r.queue > 0 and r.lane > l.lane order by r.lane limit 1)
        from lanes l where l.lane is not null),
    seen as materialized (select lane from lanes where lane is not null limit $3)
    select n.now, s.lane, f.queue, f.priority as first, f.run_at as since, f.id as standing, b.id, b.priority, b.run_at
    from n cross join seen s left join lateral (select r.* from ",
    first_due!("s.lane"),
    ") f on true
    cross join lateral (
        select (select r.priority from windlass.ready r
                where -r.queue > 0 and r.lane = s.lane and r.priority > f.priority
                order by r.priority limit 1) as next offset 0) m
    left join lateral (
        select r.* from generate_series(m.next::int, 10) p (no) cross join lateral (
            select r.id, r.priority, r.run_at from windlass.ready r
            where -r.queue > 0 and r.lane = s.lane and r.priority = p.no::smallint and r.suspect is null
            order by r.run_at, r.id limit 1) r) b
        on b.run_at < f.run_at
    order by s.lane"
);

/// Whoever another session has locked is left for the next look; one who was made more urgent meanwhile stays so. Who had
/// been offered the slot stands at another address now: the claim that finds the offer void leaves a look, and he is next. The
/// look here is for those who remember the line as it was.
const AHEAD: &str = "
    with w as materialized (
        select r.ctid, u.priority
        from unnest($1::bigint[], $2::smallint[]) u (id, priority) join windlass.ready r on r.id = u.id
        where -r.queue > 0 and r.priority > u.priority order by r.id for update of r skip locked),
    a as (
        update windlass.ready r set priority = w.priority from w where r.ctid = w.ctid returning r.kind, r.lane)
    insert into windlass.looks (kind, at, lane, freed)
    select kind, statement_timestamp() + $3::bigint * interval '1 microsecond', lane, false from a";

const PATIENCE: &str = "
    select id, nullif(coalesce(live_boost_after_us, boost_after_us), 0) as boost_after_us, sla_us
    from windlass.queues where laned";

/// Lines in one look.
const MOST: usize = 1_000;
const OP: &str = "claim late jobs";
const BOOST: &str = "boost late jobs in line";

impl PostgresStore {
    pub(crate) async fn claim_late(&self, claim: &Claim, after: Duration) -> Result<LateJobs, StoreError> {
        if claim.limit == 0 || claim.kinds.is_empty() {
            return Ok(LateJobs::default());
        }
        let late = self.late(claim, after).await?;
        let mut jobs = Vec::new();
        for (priority, limit) in longest_due(&late, claim.limit) {
            jobs.extend(self.claim_of(&Claim { limit, ..claim.clone() }, Some(priority)).await?);
        }
        jobs.sort_unstable_by_key(|job| (job.run_at, job.priority, job.id));
        let waiting = jobs.len() < late.len();
        Ok(LateJobs { jobs, waiting })
    }

    async fn late(&self, claim: &Claim, after: Duration) -> Result<Vec<(u8, Time)>, StoreError> {
        let low = self.hints.low(claim.queue, &claim.kinds);
        let rows = sqlx::query(self.sql(LATE))
            .bind(self.offset())
            .bind(delay_in(after))
            .bind(claim.queue.0)
            .bind(claim.kinds.iter().map(|kind| kind.0).collect::<Vec<_>>())
            .bind(low.ready.map(PgTime).to_vec())
            .bind(i64::from(claim.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed(OP))?;
        rows.iter().map(|row| Ok((priority(row, "priority")?, time(row, "run_at")?))).collect()
    }

    /// A process that never met a lane does not ask.
    pub(crate) async fn boost_lines(&self, after: Option<LaneId>) -> Result<Boosted, StoreError> {
        if !self.laned.any() {
            return Ok(Boosted::default());
        }
        let rows = sqlx::query(self.sql(LINES))
            .bind(self.offset())
            .bind(after.map_or(i64::MIN, |lane| lane.0))
            .bind(MOST as i64)
            .fetch_all(&self.pool)
            .await
            .map_err(failed(BOOST))?;
        let lines = lines(&rows)?;
        let last = lines.keys().next_back().filter(|_| lines.len() >= MOST).copied().map(LaneId);
        let patience = match lines.values().flatten().all(|(_, line)| line.behind.is_empty()) {
            true => HashMap::new(),
            false => self.patience().await?,
        };
        let now = rows.first().map_or(Ok(Time(0)), |row| time(row, "now"))?;
        let ahead = self.who_goes_ahead(&lines, &patience, now, last.is_none());
        let jobs = self.go_ahead(&ahead).await?;
        Ok(Boosted { jobs, last })
    }

    fn who_goes_ahead(
        &self,
        lines: &Lines,
        patience: &HashMap<QueueId, Duration>,
        now: Time,
        round_ends: bool,
    ) -> Vec<(JobId, u8)> {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(lane, line): (&i64, &Option<(QueueId, Waiting)>)| {
            let (queue, line) = line.as_ref()?;
            passed.lets_ahead(LaneId(*lane), line, patience.get(queue).map(|after| now.minus(*after)))
        };
        let ahead = lines.iter().filter_map(of).collect();
        if round_ends {
            passed.round_ended();
        }
        ahead
    }

    async fn go_ahead(&self, ahead: &[(JobId, u8)]) -> Result<u64, StoreError> {
        if ahead.is_empty() {
            return Ok(0);
        }
        let query = sqlx::query(self.sql(AHEAD))
            .bind(ahead.iter().map(|(job, _)| job.0).collect::<Vec<_>>())
            .bind(ahead.iter().map(|(_, priority)| i16::from(*priority)).collect::<Vec<_>>())
            .bind(self.offset());
        Ok(query.execute(&self.pool).await.map_err(failed(BOOST))?.rows_affected())
    }

    /// When a job of each queue with lanes is late, where it ever is.
    async fn patience(&self) -> Result<HashMap<QueueId, Duration>, StoreError> {
        let rows = sqlx::query(self.sql(PATIENCE)).fetch_all(&self.pool).await.map_err(failed(BOOST))?;
        let mut patience = HashMap::new();
        for row in &rows {
            let after =
                late_after(duration_or_none(row, "boost_after_us")?, duration_or_none(row, "sla_us")?);
            if let Some(after) = after {
                patience.insert(QueueId(get(row, "id")?), after);
            }
        }
        Ok(patience)
    }
}

/// By lane; none where nobody is due.
type Lines = BTreeMap<i64, Option<(QueueId, Waiting)>>;

fn lines(rows: &[PgRow]) -> Result<Lines, StoreError> {
    let mut lines = Lines::new();
    for row in rows {
        let line = lines.entry(get(row, "lane")?).or_default();
        let Some(queue) = get::<Option<i32>>(row, "queue")? else { continue };
        let first = (priority(row, "first")?, time(row, "since")?, JobId(get(row, "standing")?));
        let (_, line) = line.get_or_insert((QueueId(queue), Waiting { first, behind: Vec::new() }));
        if let Some(at) = time_or_none(row, "run_at")? {
            line.behind.push((priority(row, "priority")?, at, JobId(get(row, "id")?)));
        }
    }
    Ok(lines)
}
