//! Ending attempts, fenced by token.
//!
//! Owns what a settlement writes: `finished`, or `ready` again with a row in `attempts`. Plain completions are one
//! statement. Everything else is a transaction that also takes the steps of the end and fills the lanes with free
//! slots. Never aborts a batch because the unique key of one job is held by another.

use std::collections::HashSet;

use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use windlass_core::end::Ended;
use windlass_core::outcome::{Return, ReturnAt};
use windlass_core::store::Settled;
use windlass_core::{JobState, QueueId, Settlement, StoreError, Time, TxRef, Verdict};

use crate::PostgresStore;
use crate::error::{failed, is_conflict};
use crate::hint::{BOTTOM, Noted};
use crate::row::{PgTime, delay_in, get, small_in, sparse, text_in};
use crate::tx;
use crate::workflow::Woken;

pub(crate) const SETTLE_DONE: &str = include_str!("statements/settle_done.sql");
pub(crate) const SETTLE: &str = include_str!("statements/settle.sql");

/// In a caller's transaction slots are not handed over: the next job would stay locked until the caller commits. Its
/// lane gets a check instead.
const CHECK_LANE: &str = "
    insert into windlass.lane_checks (kind, at, lane, freed)
    values ($2, statement_timestamp() + $1::bigint * interval '1 microsecond', $3, true)";

/// Tells every process, this one included, that a job may have become ready anywhere in the queue.
const NOTIFY_BOTTOM: &str = "select pg_notify($1, '0 ' || $2::int || ':0')";

const OP: &str = "settle";
const ROWS: usize = 5_000;
const TRIES: usize = 5;

impl PostgresStore {
    pub(crate) async fn do_settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut released = Woken::default();
        let mut answers = vec![Settled::Stale; settlements.len()];
        for batch in Batch::of(settlements) {
            for some in batch.chunks() {
                let mut tries = 0;
                let settled = loop {
                    match self.settle_batch(&some, &mut released).await {
                        Err(error) if is_conflict(&error) && tries < TRIES => tries += 1,
                        other => break other?,
                    }
                };
                some.answer(&mut answers, settled);
            }
        }
        let mut woken = places(settlements, &self.limited);
        woken.extend(released.places());
        if !woken.is_empty() {
            self.waker.jobs(woken);
        }
        Ok(answers)
    }

    async fn settle_batch(
        &self,
        batch: &Batch<'_>,
        released: &mut Woken,
    ) -> Result<Vec<Settled>, StoreError> {
        let mut session = self.pool.session().await.map_err(failed(OP))?;
        if batch.plain {
            let answers = self.settle_rows(&mut session, batch).await?;
            session.commit().await.map_err(failed(OP))?;
            return Ok(answers);
        }
        let mut tx = session.begin().await.map_err(failed(OP))?;
        let (answers, mut woken) = self.settle_whole(&mut tx, batch).await?;
        let ready = self.refill(&mut tx, batch.settlements.iter().filter_map(|s| s.lane)).await?;
        tx.commit().await.map_err(failed(OP))?;
        session.commit().await.map_err(failed(OP))?;
        self.announce(&ready);
        released.queues.append(&mut woken.queues);
        Ok(answers)
    }

    /// Settles in the given transaction, with every step of the end.
    async fn settle_whole(
        &self,
        conn: &mut PgConnection,
        batch: &Batch<'_>,
    ) -> Result<(Vec<Settled>, Woken), StoreError> {
        let ids = |wanted: fn(&Settlement) -> bool| -> Vec<i64> {
            batch.settlements.iter().filter(|s| wanted(s)).map(|s| s.id.0).collect()
        };
        let locks = self.lock_ends(conn, &ids(|s| !completed(s)), &ids(|s| s.workflow.is_some())).await?;
        let answers = self.settle_rows(conn, batch).await?;
        let ended: Vec<Ended> =
            batch.settlements.iter().zip(&answers).filter_map(|(s, a)| Ended::by(s, *a)).collect();
        let woken = self.end_steps(conn, &locks, &ended).await?;
        Ok((answers, woken))
    }

    pub(crate) async fn do_settle_in(
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
        if returns || settlement.lane.is_some() || self.limited.contains(settlement.queue) {
            // The job, or the next of its lane, may become ready below the hints. Ours are lowered now, those of other
            // processes when the caller commits.
            self.hints.lower(settlement.queue, BOTTOM);
            if self.waker.is_on() {
                let notify = sqlx::query(NOTIFY_BOTTOM).bind(&self.waker.channel).bind(settlement.queue.0);
                notify.execute(conn).await.map_err(failed(OP))?;
            }
        }
        Ok(answer)
    }

    async fn settle_inside(
        &self,
        conn: &mut PgConnection,
        settlement: &Settlement,
    ) -> Result<(Settled, Woken), StoreError> {
        let (answers, woken) = self.settle_whole(conn, &Batch::one(settlement)).await?;
        let answer = answers.first().copied().unwrap_or(Settled::Stale);
        if let Some(lane) = settlement.lane.filter(|_| answer != Settled::Stale) {
            let check =
                sqlx::query(self.sql(CHECK_LANE)).bind(self.offset()).bind(lane.kind.0).bind(lane.id.0);
            check.execute(conn).await.map_err(failed(OP))?;
        }
        Ok((answer, woken))
    }

    /// Without the steps of the end, for callers that take them themselves.
    pub(crate) async fn settle_on(
        &self,
        conn: &mut PgConnection,
        settlements: &[Settlement],
    ) -> Result<Vec<Settled>, StoreError> {
        let mut answers = vec![Settled::Stale; settlements.len()];
        for batch in Batch::of(settlements) {
            let settled = self.settle_rows(conn, &batch).await?;
            batch.answer(&mut answers, settled);
        }
        Ok(answers)
    }

    async fn settle_rows(
        &self,
        conn: &mut PgConnection,
        Batch { plain, settlements, .. }: &Batch<'_>,
    ) -> Result<Vec<Settled>, StoreError> {
        let query = sqlx::query(self.sql(if *plain { SETTLE_DONE } else { SETTLE }))
            .bind(self.offset())
            .bind(settlements.iter().map(|s| s.id.0).collect::<Vec<_>>())
            .bind(settlements.iter().map(|s| s.token.0).collect::<Vec<_>>())
            .bind(settlements.iter().map(|s| small_in(s.attempt)).collect::<Vec<_>>())
            .bind(settlements.iter().map(|s| PgTime(s.started_at)).collect::<Vec<_>>())
            .bind(sparse(settlements.iter().map(|s| result(s)).collect()));
        let query = if *plain { query } else { bind_rest(query, settlements) };
        let rows = query.fetch_all(conn).await.map_err(failed(OP))?;
        read_answers(&rows, settlements.len())
    }
}

/// Settlements that are not listed were accepted.
fn read_answers(rows: &[PgRow], jobs: usize) -> Result<Vec<Settled>, StoreError> {
    let mut answers = vec![Settled::Accepted; jobs];
    for row in rows {
        let ord: i64 = get(row, "ord")?;
        let place = usize::try_from(ord - 1).ok().and_then(|place| answers.get_mut(place));
        let place = place.ok_or_else(|| StoreError::Corrupt { what: format!("answer {ord}") })?;
        *place = match get::<&str>(row, "answer")? {
            "superseded" => Settled::Superseded,
            "cancelled" => Settled::Cancelled,
            _ => Settled::Stale,
        };
    }
    Ok(answers)
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>;

fn bind_rest<'q>(query: Query<'q>, batch: &[&Settlement]) -> Query<'q> {
    fn column<'s, T>(batch: &[&'s Settlement], f: impl Fn(&'s Return) -> Option<T>) -> Vec<Option<T>> {
        let of = |s: &&'s Settlement| match &s.verdict {
            Verdict::Return(back) => f(back),
            Verdict::End { .. } => None,
        };
        sparse(batch.iter().map(of).collect())
    }
    let state = |s: &&Settlement| match &s.verdict {
        Verdict::End { state, .. } => Some(state.code()),
        Verdict::Return(_) => None,
    };
    let error = |s: &&Settlement| match &s.verdict {
        Verdict::End { error, .. } => error.as_deref().map(|e| text_in(e).into_owned()),
        Verdict::Return(back) => back.error.as_deref().map(|e| text_in(e).into_owned()),
    };
    query
        .bind(sparse(batch.iter().map(state).collect()))
        .bind(sparse(batch.iter().map(error).collect()))
        .bind(column(batch, |b| Some(b.why.name())))
        .bind(column(batch, |b| Some(small_in(b.attempts_used))))
        .bind(column(batch, |b| match b.run_at {
            ReturnAt::In(delay) => Some(delay_in(delay)),
            ReturnAt::Place(_) => None,
        }))
        .bind(column(batch, |b| match b.run_at {
            ReturnAt::Place(time) => Some(PgTime(time)),
            ReturnAt::In(_) => None,
        }))
        .bind(sparse(batch.iter().map(|s| s.lane.map(|lane| lane.id.0)).collect()))
        .bind(sparse(batch.iter().map(|s| s.lane.map(|lane| lane.kind.0)).collect()))
}

/// Settlements for one statement, without repeats. The second settlement of a lease is answered as stale, as it would
/// be in a separate call.
struct Batch<'a> {
    /// Completed jobs without any step of the end.
    plain: bool,
    settlements: Vec<&'a Settlement>,
    /// The index of each in the call.
    places: Vec<usize>,
}

impl<'a> Batch<'a> {
    fn one(settlement: &'a Settlement) -> Batch<'a> {
        Batch { plain: is_plain(settlement), settlements: vec![settlement], places: vec![0] }
    }

    fn of(some: &'a [Settlement]) -> impl Iterator<Item = Batch<'a>> {
        let batch = |plain| Batch { plain, settlements: Vec::with_capacity(some.len()), places: Vec::new() };
        let mut batches = [batch(false), batch(true)];
        let mut seen = HashSet::with_capacity(some.len());
        for (n, settlement) in some.iter().enumerate() {
            if seen.insert((settlement.id, settlement.token)) {
                let batch = &mut batches[usize::from(is_plain(settlement))];
                batch.settlements.push(settlement);
                batch.places.push(n);
            }
        }
        batches.into_iter().filter(|batch| !batch.settlements.is_empty())
    }

    fn chunks(&self) -> impl Iterator<Item = Batch<'a>> {
        let chunks = self.settlements.chunks(ROWS).zip(self.places.chunks(ROWS));
        chunks.map(|(settlements, places)| Batch {
            plain: self.plain,
            settlements: settlements.to_vec(),
            places: places.to_vec(),
        })
    }

    fn answer(&self, answers: &mut [Settled], settled: Vec<Settled>) {
        for (n, settled) in self.places.iter().zip(settled) {
            answers[*n] = settled;
        }
    }
}

fn is_plain(settlement: &Settlement) -> bool {
    completed(settlement)
        && settlement.lane.is_none()
        && settlement.workflow.is_none()
        && !settlement.holds_key
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

/// The new places of returned jobs; a job that keeps its place may be below the hints. Every end makes room in a queue
/// with a global concurrency, and a freed slot may have left a lane check.
pub(crate) fn places(settlements: &[Settlement], limited: &Noted) -> Vec<(QueueId, Time)> {
    let mut places = Vec::new();
    for settlement in settlements {
        let at = match &settlement.verdict {
            Verdict::Return(back) if matches!(back.run_at, ReturnAt::Place(_)) => BOTTOM,
            Verdict::Return(_) => Time(i64::MAX),
            Verdict::End { .. } if settlement.lane.is_some() || limited.contains(settlement.queue) => {
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

    /// Core decides which outcome keeps a slot. The statement has to name the same one.
    #[test]
    fn the_statement_names_the_outcome_that_keeps_its_slot() {
        let keep = [ReturnWhy::Retry, ReturnWhy::Snooze, ReturnWhy::HandBack].into_iter();
        let keep: Vec<&str> = keep.filter(|why| why.keeps_slot()).map(ReturnWhy::name).collect();
        assert_eq!(keep, ["handed_back"]);
        assert!(SETTLE.contains("j.lane is null or h.outcome = 'handed_back' then 1"));
        assert!(SETTLE.contains("e.outcome <> 'handed_back'"));
    }
}
