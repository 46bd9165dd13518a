//! Lanes: giving free slots to blocked jobs.
//!
//! Owns `lane_slots` and `lane_checks`. A settle fills the lanes of its jobs in its own transaction. Any other change
//! that frees a slot or blocks a job leaves a lane check, which claims follow. `windlass_core::order` decides which
//! job is next. Never waits for a row that another session has locked: such a job is left for the next check.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use windlass_core::lane::{Lane, place};
use windlass_core::order::next_in_lane;
use windlass_core::store::Claim;
use windlass_core::{JobId, KindId, LaneId, QueueId, StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::hint::NEVER;
use crate::row::{PgAddress, PgTime, count, duration_or_none, get, priority, time};

const FOLLOW: &str = include_str!("statements/lane_follow.sql");
pub(crate) const CANDIDATES: &str = include_str!("statements/lane_candidates.sql");
const MOVE: &str = include_str!("statements/lane_move.sql");

/// Removes the slots of jobs that left `ready`, and leaves a check for each lane.
const RELEASE: &str = "
    with clock as materialized (select statement_timestamp() + $1::bigint * interval '1 microsecond' as now),
    freed as materialized (
        select s.ctid, u.kind, u.lane
        from unnest($2::bigint[], $3::smallint[], $4::int[]) u (lane, slot, kind) cross join lateral (
            select s.ctid from windlass.lane_slots s where s.lane = u.lane and s.slot = u.slot limit 1) s),
    gone as (delete from windlass.lane_slots where ctid = any (array(select ctid from freed)))
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct f.kind, clock.now, f.lane, true from freed f, clock";

const CHECK_ALL: &str = "
    insert into windlass.lane_checks (kind, at, lane, freed)
    select distinct r.kind, statement_timestamp() + $1::bigint * interval '1 microsecond', r.lane, true
    from windlass.ready r join windlass.kinds k on k.id = r.kind
    where -r.queue > 0 and k.name = any ($2)";

/// Checks that one claim follows.
const MOST_CHECKS: i64 = 10_000;
/// When a lane is checked again if another session has locked its next job.
const RETRY_AFTER: Duration = Duration::from_millis(50);
const OP: &str = "fill lanes";

/// Why lanes are filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A settle freed slots. A slot that no job takes leaves a check: a job enqueued at this moment is not visible
    /// here, and a claim that follows that job's check may still see the slot as taken.
    Settle,
    /// Checks were due.
    Checks,
}

/// A lane with free slots, and the blocked jobs that may get them.
struct Open {
    lane: Lane,
    boost_after: Option<Duration>,
    free: Vec<i16>,
    /// Due, and locked by this transaction.
    candidates: Vec<Candidate>,
    /// Another session has locked a due job.
    held: bool,
}

struct Candidate {
    id: JobId,
    priority: u8,
    run_at: Time,
    address: PgAddress,
}

/// Changes to write for a set of lanes.
#[derive(Default)]
struct Moves {
    addresses: Vec<PgAddress>,
    lanes: Vec<i64>,
    slots: Vec<i16>,
    places: Vec<PgTime>,
    kinds: Vec<i32>,
    checks: Vec<(Lane, Time, bool)>,
}

impl PostgresStore {
    /// Follows the due checks of the claim's kinds, in its own transaction.
    pub(crate) async fn follow_checks(&self, claim: &Claim, low: Time) -> Result<(), StoreError> {
        self.follow_most(MOST_CHECKS, &claim.kinds, claim.queue, low).await.map(drop)
    }

    /// Returns how many jobs became ready.
    async fn follow_most(
        &self,
        most: i64,
        kinds: &[KindId],
        queue: QueueId,
        low: Time,
    ) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed(OP))?;
        let rows = sqlx::query(self.sql(FOLLOW))
            .bind(self.offset())
            .bind(kinds.iter().map(|kind| kind.0).collect::<Vec<_>>())
            .bind(PgTime(low))
            .bind(most)
            .fetch_all(&mut *tx)
            .await
            .map_err(failed(OP))?;
        let mut lanes: BTreeMap<i64, (Lane, Option<Time>)> = BTreeMap::new();
        for row in &rows {
            let id = get(row, "lane")?;
            let (_, freed_at) =
                lanes.entry(id).or_insert((Lane { id: LaneId(id), kind: KindId(get(row, "kind")?) }, None));
            if get(row, "freed")? {
                *freed_at = (*freed_at).max(Some(time(row, "at")?));
            }
        }
        let lanes: Vec<_> = lanes.into_values().collect();
        let ready = self.fill(&mut tx, &lanes, Cause::Checks).await?;
        tx.commit().await.map_err(failed(OP))?;
        self.announce(&ready);
        if rows.len() as i64 >= most {
            // More checks may be due than one claim follows.
            self.waker.jobs([(queue, NEVER)]);
        }
        Ok(ready.iter().map(|(_, _, jobs)| jobs).sum())
    }

    /// Gives the slots that a settle freed to the next jobs of their lanes. The caller announces the result after its
    /// commit.
    pub(crate) async fn refill(
        &self,
        conn: &mut PgConnection,
        lanes: impl Iterator<Item = Lane>,
    ) -> Result<Vec<(QueueId, Time, u64)>, StoreError> {
        let lanes: BTreeMap<i64, Lane> = lanes.map(|lane| (lane.id.0, lane)).collect();
        let lanes: Vec<_> = lanes.into_values().map(|lane| (lane, None)).collect();
        self.fill(conn, &lanes, Cause::Settle).await
    }

    /// Announces jobs that became ready at these times.
    pub(crate) fn announce(&self, ready: &[(QueueId, Time, u64)]) {
        for (queue, run_at, _) in ready {
            self.hints.lower(*queue, *run_at);
        }
        if !ready.is_empty() {
            self.waker.jobs(ready.iter().map(|(queue, run_at, _)| (*queue, *run_at)));
        }
    }

    /// Fills the free slots of these lanes, given with the time since which a slot is free. Returns, per queue, the
    /// earliest time of the jobs that became ready and their number.
    async fn fill(
        &self,
        conn: &mut PgConnection,
        lanes: &[(Lane, Option<Time>)],
        cause: Cause,
    ) -> Result<Vec<(QueueId, Time, u64)>, StoreError> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(self.sql(CANDIDATES))
            .bind(self.offset())
            .bind(lanes.iter().map(|(lane, _)| lane.id.0).collect::<Vec<_>>())
            .bind(lanes.iter().map(|(lane, _)| lane.kind.0).collect::<Vec<_>>())
            .fetch_all(&mut *conn)
            .await
            .map_err(failed(OP))?;
        let Some(now) = rows.first().map(|row| time(row, "now")).transpose()? else { return Ok(Vec::new()) };
        let freed: BTreeMap<i64, Option<Time>> = lanes.iter().map(|(lane, at)| (lane.id.0, *at)).collect();
        let mut moves = Moves::default();
        for open in open_lanes(&rows)? {
            let freed_at = match cause {
                Cause::Settle => Some(now),
                Cause::Checks => freed.get(&open.lane.id.0).copied().flatten(),
            };
            moves.decide(open, now, freed_at, cause);
        }
        self.write_moves(conn, &moves).await
    }

    async fn write_moves(
        &self,
        conn: &mut PgConnection,
        moves: &Moves,
    ) -> Result<Vec<(QueueId, Time, u64)>, StoreError> {
        if moves.addresses.is_empty() && moves.checks.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(self.sql(MOVE))
            .bind(&moves.addresses)
            .bind(&moves.lanes)
            .bind(&moves.slots)
            .bind(&moves.places)
            .bind(&moves.kinds)
            .bind(moves.checks.iter().map(|(lane, ..)| lane.kind.0).collect::<Vec<_>>())
            .bind(moves.checks.iter().map(|(_, at, _)| PgTime(*at)).collect::<Vec<_>>())
            .bind(moves.checks.iter().map(|(lane, ..)| lane.id.0).collect::<Vec<_>>())
            .bind(moves.checks.iter().map(|(.., freed)| *freed).collect::<Vec<_>>())
            .fetch_all(conn)
            .await
            .map_err(failed(OP))?;
        let read = |row| Ok((QueueId(get(row, "queue")?), time(row, "run_at")?, count(row, "jobs")?));
        rows.iter().map(read).collect()
    }

    /// Frees the slots of jobs that were removed from `ready`: rows with `kind`, `lane`, and `slot` if the job held
    /// one.
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
        query.execute(conn).await.map_err(failed("free slots"))?;
        Ok(())
    }

    /// The limit of these kinds was raised, so every lane may have room.
    pub(crate) async fn check_all_lanes(
        &self,
        conn: &mut PgConnection,
        kinds: &[String],
    ) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(CHECK_ALL)).bind(self.offset()).bind(kinds);
        query.execute(conn).await.map_err(failed("check lanes"))?;
        Ok(())
    }
}

impl Moves {
    fn decide(&mut self, open: Open, now: Time, freed_at: Option<Time>, cause: Cause) {
        let Open { lane, free, candidates, boost_after, held } = open;
        let due = candidates.iter().map(|c| (c.priority, c.run_at, c.id)).collect();
        let next = next_in_lane(due, now, boost_after, free.len());
        for (id, slot) in next.iter().zip(&free) {
            let Some(candidate) = candidates.iter().find(|candidate| candidate.id == *id) else { continue };
            self.addresses.push(candidate.address);
            self.lanes.push(lane.id.0);
            self.slots.push(*slot);
            self.places.push(PgTime(place(candidate.run_at, freed_at)));
            self.kinds.push(lane.kind.0);
        }
        if next.len() < free.len() {
            if held {
                self.checks.push((lane, now.plus(RETRY_AFTER), false));
            }
            if cause == Cause::Settle {
                self.checks.push((lane, now, true));
            }
        }
    }
}

fn open_lanes(rows: &[PgRow]) -> Result<Vec<Open>, StoreError> {
    let mut lanes: BTreeMap<i64, Open> = BTreeMap::new();
    for row in rows {
        let id: i64 = get(row, "lane")?;
        let open = match lanes.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Open {
                lane: Lane { id: LaneId(id), kind: KindId(get(row, "kind")?) },
                boost_after: duration_or_none(row, "boost_after_us")?,
                free: get(row, "free")?,
                candidates: Vec::new(),
                held: false,
            }),
        };
        let Some(address) = get::<Option<PgAddress>>(row, "address")? else { continue };
        if !get::<bool>(row, "locked")? {
            open.held = true;
            continue;
        }
        let (id, run_at) = (JobId(get(row, "id")?), time(row, "run_at")?);
        open.candidates.push(Candidate { id, priority: priority(row, "priority")?, run_at, address });
    }
    Ok(lanes.into_values().collect())
}
