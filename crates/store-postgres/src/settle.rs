//! Ending attempts, fenced by token.
//!
//! Owns what a settlement writes: `finished`, or `ready` again with a row in `attempts`. The fence is the claims row:
//! while it holds the id under that token, the lease is valid. Claims rows are locked in token order, so batches that
//! overlap wait for each other in one direction. Never aborts a batch because one of its jobs met a twin.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool, Row};
use windlass_core::outcome::{Return, ReturnAt};
use windlass_core::store::Settled;
use windlass_core::{JobState, QueueId, Settlement, StoreError, Time, TxRef, Verdict};

use crate::PostgresStore;
use crate::error::{failed, is_conflict, translate};
use crate::hint::BOTTOM;
use crate::row::{PgTime, delay_in, small_in, sparse, text_in};
use crate::tx;

/// The batch (`u`), the claims it names under lock (`c`), and the part of it whose lease holds (`h`). No predicate
/// but token and id: a plan that starts from anything else flips with the statistics. A claim all of whose ids are
/// settled goes; another keeps the rest.
macro_rules! fenced {
    ($columns:literal, $types:literal) => {
        concat!(
            "with n as materialized (
                 select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
             u as materialized (
                 select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::timestamptz[]",
            $types,
            ") with ordinality u (id, token, attempt, started_at",
            $columns,
            ", ord)),
             c as materialized (
                 select c.token, c.worker, c.ids, case when c.alone or c.crashes > 0 then c.crashes end as crashes
                 from windlass.claims c
                 where c.token = any (array(select distinct token from u)) order by c.token for update),
             h as materialized (
                 select u.*, s.worker, s.crashes
                 from (select token, worker, crashes, unnest(ids) as id from c) s
                 join u on u.token = s.token and u.id = s.id),
             m as materialized (select token, array_agg(id) as ids from h group by token),
             gone as (
                 delete from windlass.claims k using m, c
                 where k.token = m.token and c.token = m.token and cardinality(c.ids) = cardinality(m.ids)),
             kept as (
                 update windlass.claims k
                 set (ids, run_ats) = (
                     select array_agg(i.id), array_agg(i.run_at) from unnest(k.ids, k.run_ats) i (id, run_at)
                     where not exists (select from unnest(m.ids) s (id) where s.id = i.id))
                 from m, c
                 where k.token = m.token and c.token = m.token and cardinality(c.ids) > cardinality(m.ids)),"
        )
    };
}

/// All completed: the answer lists only those that were stale.
const SETTLE_DONE: &str = concat!(
    fenced!(", result", ", $6::bytea[]"),
    " f as (
          insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result)
          select h.id, 3, h.attempt, h.token, h.worker, h.started_at, n.now, h.result from h, n order by h.id),
      k as (delete from windlass.cancels where job_id = any (array(
                select id from h where exists (select from windlass.cancels))))
      select ord, 3::smallint as answer from u where not exists (select from h where h.ord = u.ord)"
);

/// Anything: `state` null means the job returns; a suspect that is handed back was not run to an end and stays one. The answer lists what was not simply accepted: 1 superseded,
/// 2 cancelled, 3 stale.
const SETTLE_ANY: &str = concat!(
    fenced!(
        ", result, state, error, outcome, used, delay, place",
        ", $6::bytea[], $7::smallint[], $8::text[], $9::text[], $10::smallint[], $11::bigint[], $12::timestamptz[]"
    ),
    " k as (delete from windlass.cancels where job_id in (select id from h) returning job_id),
      back as materialized (
          select h.id, j.queue, j.priority, j.kind, j.unique_key, h.used,
                 case when h.outcome = 'handed_back' then h.crashes end as suspect,
                 coalesce(h.place, n.now + h.delay * interval '1 microsecond') as run_at
          from n, h join windlass.jobs j on j.id = h.id
          where h.state is null and not exists (select from k where k.job_id = h.id)),
      r as (
          insert into windlass.ready (queue, priority, run_at, id, kind, attempt, suspect, unique_key)
          select queue, priority, run_at, id, kind, used, suspect, unique_key from back
          order by unique_key, id
          on conflict (unique_key) where unique_key is not null do nothing
          returning id),
      e as materialized (
          select h.*, case when h.state is not null then h.state
                           when exists (select from k where k.job_id = h.id) then 6
                           when not exists (select from r where r.id = h.id) then 7 end as ended
          from h),
      f as (
          insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result, error)
          select e.id, e.ended, e.attempt, e.token, e.worker, e.started_at, n.now, e.result, e.error
          from e, n where e.ended is not null order by e.id),
      a as (
          insert into windlass.attempts (id, token, attempt, worker, started_at, ended_at, outcome, error)
          select e.id, e.token, e.attempt, e.worker, e.started_at, n.now, e.outcome, e.error
          from e, n where e.ended is null)
      select u.ord, case when e.ord is null then 3 when e.ended = 7 then 1 else 2 end::smallint as answer
      from u left join e on e.ord = u.ord
      where e.ord is null or (e.state is null and e.ended is not null)"
);

/// A job returned to a place that may lie anywhere; heard by every process, this one included.
const NOTIFY_BOTTOM: &str = "select pg_notify($1, '0 ' || $2::int || ':0')";

const OP: &str = "settle";
const ROWS: usize = 5_000;
const TRIES: usize = 5;

impl PostgresStore {
    pub(crate) async fn end(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut answers = Vec::with_capacity(settlements.len());
        for some in settlements.chunks(ROWS) {
            let mut tries = 0;
            answers.extend(loop {
                match self.end_once(some).await {
                    Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
                    other => break other?,
                }
            });
        }
        let woken = places(settlements);
        if !woken.is_empty() {
            self.waker.jobs(woken);
        }
        Ok(answers)
    }

    async fn end_once(&self, some: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let pool: &PgPool = &self.pool;
        let mut conn = pool.acquire().await.map_err(failed(OP))?;
        self.end_on(&mut conn, some).await
    }

    pub(crate) async fn end_in(&self, tx: TxRef<'_>, settlement: &Settlement) -> Result<Settled, StoreError> {
        let conn = tx::connection(tx)?;
        tx::savepoint(conn).await?;
        let answers = match self.end_on(&mut *conn, std::slice::from_ref(settlement)).await {
            Ok(answers) => answers,
            Err(error) => {
                tx::undo(conn).await?;
                return Err(error);
            }
        };
        tx::release(conn).await?;
        if matches!(settlement.verdict, Verdict::Return(_)) {
            // It may come to stand below the hints: ours are lowered now, everybody's when the caller commits.
            self.hints.lower(settlement.queue, BOTTOM);
            if self.waker.is_on() {
                let told = sqlx::query(NOTIFY_BOTTOM).bind(&self.waker.channel).bind(settlement.queue.0);
                told.execute(conn).await.map_err(failed(OP))?;
            }
        }
        Ok(answers.first().copied().unwrap_or(Settled::Stale))
    }

    pub(crate) async fn end_on(
        &self,
        conn: &mut PgConnection,
        some: &[Settlement],
    ) -> Result<Vec<Settled>, StoreError> {
        let Batch { first, repeated } = Batch::of(some);
        let all_done = first.iter().all(|s| completed(s));
        let query = sqlx::query(self.sql(if all_done { SETTLE_DONE } else { SETTLE_ANY }))
            .bind(self.offset())
            .bind(first.iter().map(|s| s.id.0).collect::<Vec<_>>())
            .bind(first.iter().map(|s| s.token.0).collect::<Vec<_>>())
            .bind(first.iter().map(|s| small_in(s.attempt)).collect::<Vec<_>>())
            .bind(first.iter().map(|s| PgTime(s.started_at)).collect::<Vec<_>>())
            .bind(sparse(first.iter().map(|s| result(s)).collect()));
        let query = if all_done { query } else { bind_rest(query, &first) };
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        let mut answers = vec![Settled::Accepted; first.len()];
        for row in rows {
            let ord: i64 = row.try_get("ord").map_err(|e| translate(OP, e))?;
            let answer: i16 = row.try_get("answer").map_err(|e| translate(OP, e))?;
            let place = usize::try_from(ord - 1).ok().and_then(|n| answers.get_mut(n));
            let Some(place) = place else {
                return Err(StoreError::Corrupt { what: format!("answer {ord}") });
            };
            *place = match answer {
                1 => Settled::Superseded,
                2 => Settled::Cancelled,
                _ => Settled::Stale,
            };
        }
        for n in repeated {
            answers.insert(n, Settled::Stale);
        }
        Ok(answers)
    }
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>;

fn bind_rest<'q>(query: Query<'q>, batch: &[&Settlement]) -> Query<'q> {
    fn column<'s, T>(batch: &[&'s Settlement], f: impl Fn(&'s Return) -> Option<T>) -> Vec<Option<T>> {
        batch
            .iter()
            .map(|s| match &s.verdict {
                Verdict::Return(back) => f(back),
                Verdict::End { .. } => None,
            })
            .collect()
    }
    let error = |s: &&Settlement| match &s.verdict {
        Verdict::End { error, .. } => error.as_deref().map(|e| text_in(e).into_owned()),
        Verdict::Return(back) => back.error.as_deref().map(|e| text_in(e).into_owned()),
    };
    query
        .bind(sparse(
            batch
                .iter()
                .map(|s| match &s.verdict {
                    Verdict::End { state, .. } => Some(state.code()),
                    Verdict::Return(_) => None,
                })
                .collect(),
        ))
        .bind(sparse(batch.iter().map(error).collect()))
        .bind(sparse(column(batch, |b| Some(b.why.name()))))
        .bind(sparse(column(batch, |b| Some(small_in(b.attempts_used)))))
        .bind(sparse(column(batch, |b| match b.run_at {
            ReturnAt::In(delay) => Some(delay_in(delay)),
            ReturnAt::Place(_) => None,
        })))
        .bind(sparse(column(batch, |b| match b.run_at {
            ReturnAt::Place(time) => Some(PgTime(time)),
            ReturnAt::In(_) => None,
        })))
}

/// A batch without repeats: the second settlement of one lease finds it gone, as it would in a call of its own.
struct Batch<'a> {
    first: Vec<&'a Settlement>,
    /// Where the repeats stood, ascending.
    repeated: Vec<usize>,
}

impl<'a> Batch<'a> {
    fn of(some: &'a [Settlement]) -> Batch<'a> {
        let mut seen = HashMap::with_capacity(some.len());
        let mut batch = Batch { first: Vec::with_capacity(some.len()), repeated: Vec::new() };
        for (n, settlement) in some.iter().enumerate() {
            match seen.insert((settlement.id, settlement.token), ()) {
                None => batch.first.push(settlement),
                Some(()) => batch.repeated.push(n),
            }
        }
        batch
    }
}

fn completed(settlement: &Settlement) -> bool {
    matches!(&settlement.verdict, Verdict::End { state: JobState::Completed, error: None, .. })
}

fn result(settlement: &Settlement) -> Option<&[u8]> {
    match &settlement.verdict {
        Verdict::End { result, .. } => result.as_deref(),
        Verdict::Return(_) => None,
    }
}

/// Where returned jobs stand now; one that kept its place may stand below the hints.
pub(crate) fn places(settlements: &[Settlement]) -> Vec<(QueueId, Time)> {
    let mut places = Vec::new();
    for settlement in settlements {
        if let Verdict::Return(back) = &settlement.verdict {
            let at = match back.run_at {
                ReturnAt::In(_) => Time(i64::MAX),
                ReturnAt::Place(_) => BOTTOM,
            };
            places.push((settlement.queue, at));
        }
    }
    places
}
