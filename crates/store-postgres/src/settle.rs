//! Ending attempts, fenced by token.
//!
//! Owns what a settlement writes: `finished`, or `ready` again with a row in `attempts`. The fence is the claims row:
//! while it holds the id under that token, the lease is valid. Slots are handed over as `turn` says. Claims rows are
//! locked in token order, so batches that overlap wait for each other in one direction. Never aborts a batch because one
//! of its jobs met a twin.

use std::collections::{BTreeSet, HashSet};

use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use windlass_core::entity::why_settled;
use windlass_core::outcome::{Return, ReturnAt};
use windlass_core::store::Settled;
use windlass_core::workflow;
use windlass_core::{JobState, QueueId, Settlement, StoreError, Time, TxRef, Verdict};

use crate::PostgresStore;
use crate::error::{failed, is_conflict};
use crate::hint::{BOTTOM, Noted};
use crate::line::{Next, Read, Recalled};
use crate::row::{PgTime, delay_in, get, small_in, sparse, text_in};
use crate::turn::{hand_over, offer_first, offer_known};
use crate::tx;
use crate::workflow::Woken;

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
                 select c.token, c.worker, c.ids, c.slots, case when c.alone or c.crashes > 0 then c.crashes end as crashes
                 from windlass.claims c
                 where c.token = any (array(select distinct token from u)) order by c.token for update),
             h as materialized (
                 select u.*, s.worker, s.crashes, s.slot
                 from (select token, worker, crashes, unnest(ids) as id, unnest(slots) as slot from c) s
                 join u on u.token = s.token and u.id = s.id),
             m as materialized (select token, array_agg(id) as ids from h group by token),
             gone as (
                 delete from windlass.claims k using m, c
                 where k.token = m.token and c.token = m.token and cardinality(c.ids) = cardinality(m.ids)),
             kept as (
                 update windlass.claims k
                 set (ids, run_ats, slots) = (
                     select array_agg(i.id), array_agg(i.run_at), case when k.slots is not null then array_agg(i.slot) end
                     from unnest(k.ids, k.run_ats, k.slots) i (id, run_at, slot)
                     where not exists (select from unnest(m.ids) s (id) where s.id = i.id))
                 from m, c
                 where k.token = m.token and c.token = m.token and cardinality(c.ids) > cardinality(m.ids)),"
        )
    };
}

/// All completed: the answer lists only those that were stale.
macro_rules! settle_done {
    ($columns:literal, $types:literal, $lanes:expr, $answer:literal, $told:literal) => {
        concat!(
            fenced!($columns, $types),
            $lanes,
            " f as (
                  insert into windlass.finished (id, state, attempt, token, worker, started_at, finished_at, result)
                  select h.id, 3, h.attempt, h.token, h.worker, h.started_at, n.now, h.result from h, n order by h.id),
              k as (delete from windlass.cancels where job_id = any (array(
                        select id from h where exists (select from windlass.cancels))))
              select ord, 3::smallint as answer",
            $answer,
            " from u where not exists (select from h where h.ord = u.ord)",
            $told
        )
    };
}

const SETTLE_DONE: &str = settle_done!(", result", ", $6::bytea[]", "", "", "");

/// Told beside who was stale: who stands behind whom, and the number that was drawn last.
pub(crate) const SETTLE_DONE_LANED: &str = settle_done!(
    ", result, lane, kind, next_queue, next_priority, next_id, next_address",
    ", $6::bytea[], $7::bigint[], $8::int[], $9::int[], $10::smallint[], $11::bigint[], $12::tid[]",
    concat!(
        " j as materialized (
              select h.ord, h.id, h.lane, h.kind, h.slot, h.next_queue, h.next_priority, h.next_id, h.next_address
              from h where h.slot is not null),",
        hand_over!(offer_known!()),
        " o as (insert into windlass.looks (kind, at, lane, freed)
                select distinct u.kind, n.now, u.lane, true from unwanted u, n),"
    ),
    ", null::int as queue, null::smallint as priority, null::bigint[] as ids, null::tid[] as addresses, null::bigint as drawn",
    " union all select ord, null, queue, priority, ids, addresses, null from line
      union all select null, null, null, null, null, null, drawn from quiet"
);

/// Anything: `state` null means the job returns; a suspect that is handed back was not run to an end and stays one. The
/// answer lists what was not simply accepted: 1 superseded, 2 cancelled, 3 stale.
macro_rules! settle_any {
    ($given:literal, $types:literal, $columns:literal, $values:literal, $lanes:expr) => {
        concat!(
            fenced!($given, $types),
            " k as (delete from windlass.cancels where job_id in (select id from h) returning job_id),
              back as materialized (
                  select h.id, j.priority, j.kind, j.unique_key, h.used,
                         case when h.outcome = 'handed_back' then h.crashes end as suspect,
                         coalesce(h.place, n.now + h.delay * interval '1 microsecond') as run_at, ",
            $values,
            "
                  from n, h join windlass.jobs j on j.id = h.id
                  where h.state is null and not exists (select from k where k.job_id = h.id)),
              r as (
                  insert into windlass.ready (priority, run_at, id, kind, attempt, suspect, unique_key, ",
            $columns,
            ")
                  select priority, run_at, id, kind, used, suspect, unique_key, ",
            $columns,
            " from back
                  order by unique_key, id
                  on conflict (unique_key) where unique_key is not null do nothing
                  returning id),
              e as materialized (
                  select h.*, case when h.state is not null then h.state
                                   when exists (select from k where k.job_id = h.id) then 6
                                   when not exists (select from r where r.id = h.id) then 7 end as ended
                  from h),",
            $lanes,
            " f as (
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
        )
    };
}

const SETTLE_ANY: &str = settle_any!(
    ", result, state, error, outcome, used, delay, place",
    ", $6::bytea[], $7::smallint[], $8::text[], $9::text[], $10::smallint[], $11::bigint[], $12::timestamptz[]",
    "queue",
    "j.queue",
    ""
);

/// A job that was not run stays its lane's head and keeps its slot; any other that returns goes back in line. Slots are
/// looked at when all that wait for a unique key have got it: after that nothing here waits.
const SETTLE_ANY_LANED: &str = settle_any!(
    ", result, state, error, outcome, used, delay, place, lane, kind",
    ", $6::bytea[], $7::smallint[], $8::text[], $9::text[], $10::smallint[], $11::bigint[], $12::timestamptz[],
       $13::bigint[], $14::int[]",
    "queue, lane, slot",
    "j.lane, case when j.lane is null or h.outcome = 'handed_back' then 1 else -1 end * j.queue as queue,
     case when h.outcome = 'handed_back' then h.slot end as slot",
    concat!(
        " j as materialized (
              select e.ord, e.id, e.lane, e.kind, e.slot from e
              where e.slot is not null and (e.ended is not null or e.outcome <> 'handed_back')
                and (select count(*) from r) >= 0),",
        hand_over!(offer_first!()),
        " o as (
              insert into windlass.looks (kind, at, lane, freed)
              select u.kind, n.now, u.lane, true from unwanted u, n
              union select b.kind, b.run_at, b.lane, false from back b
                    where b.queue < 0 and (b.id in (select id from r)) is true),"
    )
);

/// A job returned to a place that may lie anywhere; heard by every process, this one included.
const NOTIFY_BOTTOM: &str = "select pg_notify($1, '0 ' || $2::int || ':0')";

const BOXES: &str = "select id from windlass.jobs where id = any ($1) and entity_type is not null";

const OP: &str = "settle";
const ROWS: usize = 5_000;
const TRIES: usize = 5;

impl PostgresStore {
    pub(crate) async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut released = Woken::default();
        let mut answers = vec![Settled::Stale; settlements.len()];
        for part in Part::of(settlements) {
            for some in part.chunks() {
                let mut tries = 0;
                let settled = loop {
                    match self.settle_once(&some, &mut released).await {
                        Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
                        other => break other?,
                    }
                };
                some.answer(&mut answers, settled);
                if part.laned {
                    for queue in some.batch.iter().map(|settlement| settlement.queue).collect::<BTreeSet<_>>()
                    {
                        self.turned.set(queue, true);
                        self.laned.set(queue, true);
                    }
                }
            }
        }
        let mut woken = places(settlements, &self.limited);
        woken.extend(released.places());
        if !woken.is_empty() {
            self.waker.jobs(woken);
        }
        Ok(answers)
    }

    async fn settle_once(&self, part: &Part<'_>, released: &mut Woken) -> Result<Vec<Settled>, StoreError> {
        let mut session = self.pool.session().await.map_err(failed(OP))?;
        let concerned = self.concerned(&mut session, part).await?;
        let answers = if concerned.nobody() {
            self.settle_recalling(&mut session, part).await?
        } else {
            let mut tx = session.begin().await.map_err(failed(OP))?;
            let (answers, mut woken) = self.settle_telling(&mut tx, part, &concerned).await?;
            tx.commit().await.map_err(failed(OP))?;
            released.queues.append(&mut woken.queues);
            answers
        };
        session.commit().await.map_err(failed(OP))?;
        Ok(answers)
    }

    /// Whom the ends of a batch may concern. Which jobs are about an entity or belong to a workflow never changes, so this may
    /// be asked before anything is locked; a batch of plain successes asks nothing.
    async fn concerned(&self, conn: &mut PgConnection, part: &Part<'_>) -> Result<Concerned, StoreError> {
        let workflows: BTreeSet<i64> = part.batch.iter().filter_map(|s| Some(s.workflow?.0)).collect();
        let open: Vec<i64> = part.batch.iter().filter(|s| !completed(s)).map(|s| s.id.0).collect();
        let boxes = match open.is_empty() {
            true => Vec::new(),
            false => {
                sqlx::query_scalar(self.sql(BOXES)).bind(open).fetch_all(conn).await.map_err(failed(OP))?
            }
        };
        Ok(Concerned { boxes, workflows: workflows.into_iter().collect() })
    }

    /// In a transaction of its own, of which it knows when it began.
    async fn settle_recalling(
        &self,
        conn: &mut PgConnection,
        part: &Part<'_>,
    ) -> Result<Vec<Settled>, StoreError> {
        let ended = part.batch.iter().map(|s| Some((s.slot?.lane.id, s.id)));
        let recalled = self.lines.recall(ended);
        let known = recalled.known;
        let told = self.settle_part(conn, part, recalled).await.inspect_err(|_| self.lines.forget())?;
        if let Some(now) = told.drawn {
            let lane = |place: usize| Some(part.batch.get(place)?.slot?.lane.id);
            let read = told.lines.into_iter().filter_map(|(place, read)| Some((lane(place)?, read)));
            self.lines.learn(known, now, read.collect());
        }
        Ok(told.answers)
    }

    async fn settle_inside(
        &self,
        conn: &mut PgConnection,
        settlement: &Settlement,
    ) -> Result<(Settled, Woken), StoreError> {
        let part = Part::one(settlement);
        let concerned = self.concerned(conn, &part).await?;
        let (answers, woken) = match concerned.nobody() {
            true => (self.settle_part(conn, &part, Recalled::nothing()).await?.answers, Woken::default()),
            false => self.settle_telling(conn, &part, &concerned).await?,
        };
        Ok((answers.first().copied().unwrap_or(Settled::Stale), woken))
    }

    /// In a transaction: settles, and tells entities and workflows what became of their jobs.
    async fn settle_telling(
        &self,
        conn: &mut PgConnection,
        part: &Part<'_>,
        concerned: &Concerned,
    ) -> Result<(Vec<Settled>, Woken), StoreError> {
        let waiting = self.lock_waiting(conn, &concerned.boxes).await?;
        self.lock_workflows(conn, &concerned.workflows).await?;
        let answers = self.settle_part(conn, part, Recalled::nothing()).await?.answers;
        let both = || part.batch.iter().zip(&answers);
        let failed = both().filter_map(|(s, a)| Some((s.id.0, why_settled(s, *a)?)));
        self.fail_waiting(conn, &waiting, failed).await?;
        let members = both().filter(|(s, _)| s.workflow.is_some());
        let ended = members.filter_map(|(s, a)| Some((s.id.0, workflow::ended(s, *a)?)));
        let woken = self.jobs_ended(conn, ended).await?;
        Ok((answers, woken))
    }

    pub(crate) async fn settle_in(
        &self,
        tx: TxRef<'_>,
        settlement: &Settlement,
    ) -> Result<Settled, StoreError> {
        let conn = tx::connection(tx)?;
        tx::savepoint(conn).await?;
        let (answer, woken) = match self.settle_inside(conn, settlement).await {
            Ok(settled) => settled,
            Err(error) => {
                tx::undo(conn).await?;
                return Err(error);
            }
        };
        tx::release(conn).await?;
        self.notify_in(conn, &woken.queues, Time(i64::MAX)).await?;
        let returns = matches!(settlement.verdict, Verdict::Return(_));
        if returns || is_laned(settlement) || self.limited.contains(settlement.queue) {
            // It, or what its slot is given to, may come to stand below the hints: ours are lowered now, everybody's when
            // the caller commits.
            self.hints.lower(settlement.queue, BOTTOM);
            if self.waker.is_on() {
                let told = sqlx::query(NOTIFY_BOTTOM).bind(&self.waker.channel).bind(settlement.queue.0);
                told.execute(conn).await.map_err(failed(OP))?;
            }
        }
        Ok(answer)
    }

    pub(crate) async fn settle_on(
        &self,
        conn: &mut PgConnection,
        some: &[Settlement],
    ) -> Result<Vec<Settled>, StoreError> {
        let mut answers = vec![Settled::Stale; some.len()];
        for part in Part::of(some) {
            let told = self.settle_part(conn, &part, Recalled::nothing()).await?;
            part.answer(&mut answers, told.answers);
        }
        Ok(answers)
    }

    async fn settle_part(
        &self,
        conn: &mut PgConnection,
        Part { laned, batch: first, .. }: &Part<'_>,
        recalled: Recalled,
    ) -> Result<Told, StoreError> {
        let all_done = first.iter().all(|s| completed(s));
        let statement = match (all_done, laned) {
            (true, false) => SETTLE_DONE,
            (true, true) => SETTLE_DONE_LANED,
            (false, false) => SETTLE_ANY,
            (false, true) => SETTLE_ANY_LANED,
        };
        let query = sqlx::query(self.sql(statement))
            .bind(self.offset())
            .bind(first.iter().map(|s| s.id.0).collect::<Vec<_>>())
            .bind(first.iter().map(|s| s.token.0).collect::<Vec<_>>())
            .bind(first.iter().map(|s| small_in(s.attempt)).collect::<Vec<_>>())
            .bind(first.iter().map(|s| PgTime(s.started_at)).collect::<Vec<_>>())
            .bind(sparse(first.iter().map(|s| result(s)).collect()));
        let query = if all_done { query } else { bind_rest(query, first) };
        let query = if *laned { bind_lanes(query, first) } else { query };
        let query = match (all_done, laned) {
            (true, true) => {
                let queues = first.iter().map(|s| s.queue).collect::<BTreeSet<_>>();
                let told = self.waker.is_on();
                let low = queues.into_iter().filter(|_| told).map(|queue| self.hints.looks(queue)).min();
                let low = low.unwrap_or(BOTTOM);
                bind_recalled(query, &recalled).bind(PgTime(low)).bind(recalled.length)
            }
            _ => query,
        };
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        Told::read(&rows, first.len(), statement == SETTLE_DONE_LANED)
    }
}

/// What a settlement answers.
struct Told {
    answers: Vec<Settled>,
    /// Where `line_seq` stands.
    drawn: Option<i64>,
    /// Those behind who was offered a slot, by the place of who had it.
    lines: Vec<(usize, Read)>,
}

impl Told {
    fn read(rows: &[PgRow], jobs: usize, with_lines: bool) -> Result<Told, StoreError> {
        let mut told = Told { answers: vec![Settled::Accepted; jobs], drawn: None, lines: Vec::new() };
        for row in rows {
            let Some(ord) = get::<Option<i64>>(row, "ord")? else {
                told.drawn = get(row, "drawn")?;
                continue;
            };
            let answer: Option<i16> = get(row, "answer")?;
            let place = usize::try_from(ord - 1).ok().filter(|place| *place < jobs);
            let Some(place) = place else {
                return Err(StoreError::Corrupt { what: format!("answer {ord}") });
            };
            match answer {
                None if with_lines => told.lines.push((place, Read::of(row)?)),
                Some(1) => told.answers[place] = Settled::Superseded,
                Some(2) => told.answers[place] = Settled::Cancelled,
                _ => told.answers[place] = Settled::Stale,
            }
        }
        Ok(told)
    }
}

/// Whom the ends of a batch concern.
struct Concerned {
    /// Jobs whose end may be held against an entity.
    boxes: Vec<i64>,
    workflows: Vec<i64>,
}

impl Concerned {
    fn nobody(&self) -> bool {
        self.boxes.is_empty() && self.workflows.is_empty()
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

fn bind_lanes<'q>(query: Query<'q>, batch: &[&Settlement]) -> Query<'q> {
    let lanes = batch.iter().map(|s| s.slot.map(|slot| slot.lane.id.0)).collect::<Vec<_>>();
    query.bind(lanes).bind(batch.iter().map(|s| s.slot.map(|slot| slot.lane.kind.0)).collect::<Vec<_>>())
}

fn bind_recalled<'q>(query: Query<'q>, recalled: &Recalled) -> Query<'q> {
    fn column<T>(recalled: &Recalled, f: impl Fn(&Next) -> T) -> Vec<Option<T>> {
        sparse(recalled.next.iter().map(|next| next.as_ref().map(&f)).collect())
    }
    query
        .bind(column(recalled, |next| next.queue))
        .bind(column(recalled, |next| next.priority))
        .bind(column(recalled, |next| next.id))
        .bind(column(recalled, |next| next.address))
        .bind(recalled.known)
}

/// Settlements for one statement: all of claims with lanes, or none. Without repeats, which are answered as stale: the
/// second settlement of one lease finds it gone, as it would in a call of its own.
struct Part<'a> {
    laned: bool,
    batch: Vec<&'a Settlement>,
    /// Where each stood in the call.
    places: Vec<usize>,
}

impl<'a> Part<'a> {
    fn one(settlement: &'a Settlement) -> Part<'a> {
        Part { laned: is_laned(settlement), batch: vec![settlement], places: vec![0] }
    }

    fn of(some: &'a [Settlement]) -> impl Iterator<Item = Part<'a>> {
        let part = |laned| Part { laned, batch: Vec::with_capacity(some.len()), places: Vec::new() };
        let mut parts = [part(false), part(true)];
        let mut seen = HashSet::with_capacity(some.len());
        for (n, settlement) in some.iter().enumerate() {
            if seen.insert((settlement.id, settlement.token)) {
                let part = &mut parts[usize::from(is_laned(settlement))];
                part.batch.push(settlement);
                part.places.push(n);
            }
        }
        parts.into_iter().filter(|part| !part.batch.is_empty())
    }

    fn chunks(&self) -> impl Iterator<Item = Part<'a>> {
        let chunks = self.batch.chunks(ROWS).zip(self.places.chunks(ROWS));
        chunks.map(|(batch, places)| Part {
            laned: self.laned,
            batch: batch.to_vec(),
            places: places.to_vec(),
        })
    }

    fn answer(&self, answers: &mut [Settled], settled: Vec<Settled>) {
        for (n, settled) in self.places.iter().zip(settled) {
            answers[*n] = settled;
        }
    }
}

/// The claim says so in its token.
fn is_laned(settlement: &Settlement) -> bool {
    settlement.token.0 % 2 != 0
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

/// Where returned jobs stand now; one that kept its place may stand below the hints. A slot that got free makes its
/// queue due for a look, and every end makes room where a global concurrency is.
pub(crate) fn places(settlements: &[Settlement], limited: &Noted) -> Vec<(QueueId, Time)> {
    let mut places = Vec::new();
    for settlement in settlements {
        let at = match &settlement.verdict {
            Verdict::Return(back) if matches!(back.run_at, ReturnAt::Place(_)) => BOTTOM,
            Verdict::Return(_) => Time(i64::MAX),
            Verdict::End { .. } if is_laned(settlement) || limited.contains(settlement.queue) => {
                Time(i64::MAX)
            }
            Verdict::End { .. } => continue,
        };
        places.push((settlement.queue, at));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::outcome::ReturnWhy;

    /// Of what comes back through a settlement, the literal names what core lets keep its slot.
    #[test]
    fn the_literal_is_what_keeps_its_slot() {
        let keep = [ReturnWhy::Retry, ReturnWhy::Snooze, ReturnWhy::HandBack].into_iter();
        let keep: Vec<&str> = keep.filter(|why| why.keeps_slot()).map(ReturnWhy::name).collect();
        assert_eq!(keep, ["handed_back"]);
        assert!(SETTLE_ANY_LANED.contains("j.lane is null or h.outcome = 'handed_back' then 1"));
        assert!(SETTLE_ANY_LANED.contains("e.outcome <> 'handed_back'"));
    }
}
