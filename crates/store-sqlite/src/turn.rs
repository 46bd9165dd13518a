//! Turns: slots of lanes that are offered, in the order of claims.
//!
//! Owns: the rows of `windlass_turns`, each with a few offers of one place, and giving an offer to the job it was made to or
//! to who stands first in line by then. Never decides what is offered: `lane` does.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::lane::{Lane, Slot, place};
use windlass_core::store::{Claim, Wake};
use windlass_core::{JobId, KindId, LaneId, QueueId, Time};

use crate::claim::Due;
use crate::error::{Answer, Fault};
use crate::lane::{Lanes, release};
use crate::line::leave_line;
use crate::scope::Scope;

/// Offers per row: enough that the row costs nothing beside them, few enough that claims rarely leave a part of one.
const OF_ONE_ROW: usize = 16;

/// Where offers stand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stand {
    pub(crate) queue: QueueId,
    pub(crate) priority: u8,
    pub(crate) place: Time,
    pub(crate) kind: KindId,
}

/// A slot, and who stood first in its line.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) lane: LaneId,
    pub(crate) id: JobId,
    pub(crate) run_at: Time,
    /// None for a suspect.
    pub(crate) attempt: Option<u16>,
}

/// As it is written: lane, id, run_at, attempt.
type Written = (i64, i64, i64, Option<u16>);

fn unpack(text: &str) -> Answer<Vec<Offer>> {
    let written: Vec<Written> = serde_json::from_str(text)
        .map_err(|error| Fault::corrupt(format!("the offers of a turn cannot be read: {error}")))?;
    let offer = |(lane, id, run_at, attempt)| Offer {
        lane: LaneId(lane),
        id: JobId(id),
        run_at: Time(run_at),
        attempt,
    };
    Ok(written.into_iter().map(offer).collect())
}

fn pack(offers: &[Offer]) -> Answer<String> {
    let written: Vec<Written> =
        offers.iter().map(|offer| (offer.lane.0, offer.id.0, offer.run_at.0, offer.attempt)).collect();
    serde_json::to_string(&written).map_err(|error| Fault::corrupt(format!("offers of a turn: {error}")))
}

/// What a call offers, written together when it is over.
#[derive(Default)]
pub(crate) struct Offers {
    made: Vec<(Stand, i64, Offer)>,
}

impl Offers {
    /// Of one place the lower `tie` comes first.
    pub(crate) fn make(&mut self, stand: Stand, tie: i64, offer: Offer) {
        self.made.push((stand, tie, offer));
    }

    pub(crate) fn store(&mut self, connection: &Connection) -> Answer<()> {
        if self.made.is_empty() {
            return Ok(());
        }
        self.made.sort_unstable_by_key(|(stand, tie, _)| (*stand, *tie));
        let mut insert = connection.prepare_cached(
            "insert into windlass_turns (queue, priority, place, kind, offers) values (?1, ?2, ?3, ?4, ?5)",
        )?;
        for together in self.made.chunk_by(|(one, ..), (other, ..)| one == other) {
            let stand = together[0].0;
            for few in together.chunks(OF_ONE_ROW) {
                let offers: Vec<Offer> = few.iter().map(|(.., offer)| *offer).collect();
                let key = (stand.queue.0, stand.priority, stand.place.0, stand.kind.0);
                insert.execute((key.0, key.1, key.2, key.3, pack(&offers)?))?;
            }
        }
        self.made.clear();
        Ok(())
    }
}

/// One offer that a claim came to.
pub(crate) struct Turn {
    row: i64,
    /// Offers in its row.
    of: usize,
    pub(crate) priority: u8,
    pub(crate) place: Time,
    kind: KindId,
    offer: Offer,
}

impl Turn {
    pub(crate) fn id(&self) -> JobId {
        self.offer.id
    }
}

pub(crate) fn any(connection: &Connection, queue: QueueId) -> Answer<bool> {
    let mut statement =
        connection.prepare_cached("select exists (select 1 from windlass_turns where queue = ?1)")?;
    Ok(statement.query_row([queue.0], |row| row.get(0))?)
}

const OF_PRIORITY: &str = "select turn, place, kind, offers from windlass_turns
     where queue = ?1 and priority = ?2 and place <= ?3 order by place, turn";

/// Those of one priority, up to so many.
pub(crate) fn walk(
    connection: &Connection,
    claim: &Claim,
    priority: u8,
    before: Time,
    most: usize,
) -> Answer<Vec<Turn>> {
    let mut statement = connection.prepare_cached(OF_PRIORITY)?;
    let mut rows = statement.query((claim.queue.0, priority, before.0))?;
    let mut found = Vec::new();
    while found.len() < most {
        let Some(row) = rows.next()? else { break };
        let (key, place, kind) = (row.get(0)?, Time(row.get(1)?), KindId(row.get(2)?));
        if !claim.kinds.contains(&kind) {
            continue;
        }
        let offers = unpack(&row.get::<_, String>(3)?)?;
        let of = offers.len();
        let turn = |offer| Turn { row: key, of, priority, place, kind, offer };
        found.extend(offers.into_iter().take(most - found.len()).map(turn));
    }
    Ok(found)
}

/// Takes these out of their rows, of which each is a beginning.
pub(crate) fn serve(connection: &Connection, turns: &[&Turn]) -> Answer<()> {
    for of_row in turns.chunk_by(|one, other| one.row == other.row) {
        let Turn { row, of, .. } = of_row[0];
        if of_row.len() == *of {
            connection.prepare_cached("delete from windlass_turns where turn = ?1")?.execute([row])?;
        } else {
            keep(connection, *row, |n, _| n >= of_row.len())?;
        }
    }
    Ok(())
}

/// Keeps those of a row's offers that are wanted, and says how many went.
fn keep(connection: &Connection, row: i64, wanted: impl Fn(usize, &Offer) -> bool) -> Answer<usize> {
    let text: Option<String> = connection
        .prepare_cached("select offers from windlass_turns where turn = ?1")?
        .query_row([row], |row| row.get(0))
        .optional()?;
    let all = text.map_or(Ok(Vec::new()), |text| unpack(&text))?;
    let kept: Vec<Offer> =
        all.iter().enumerate().filter(|(n, offer)| wanted(*n, offer)).map(|(_, o)| *o).collect();
    match kept.is_empty() {
        true => connection.prepare_cached("delete from windlass_turns where turn = ?1")?.execute([row])?,
        false => connection
            .prepare_cached("update windlass_turns set offers = ?2 where turn = ?1")?
            .execute((row, pack(&kept)?))?,
    };
    Ok(all.len() - kept.len())
}

/// Who it was offered to goes, if still there, else who stands first in line now. None when nobody is due there any more:
/// the slot is given up, and what the claim has room for is left to the next one.
pub(crate) fn take(
    scope: &mut Scope<'_>,
    lanes: &mut Lanes<'_>,
    queue: QueueId,
    turn: &Turn,
) -> Answer<Option<Due>> {
    let Turn { offer, priority, .. } = turn;
    let lane = Lane { id: offer.lane, kind: turn.kind };
    if let Some(attempt) = offer.attempt
        && lanes.line.leave(queue, *priority, offer.run_at, offer.id)?
    {
        let slot = Slot { lane, stood: Some((*priority, offer.run_at)) };
        return Ok(Some(Due::of_lane((*priority, turn.place, offer.id), attempt, slot)));
    }
    let first = match lanes.line.first(scope, queue, lane.id)? {
        Ok(first) => first,
        Err(next) => {
            scope.wake(Wake::Queue(queue));
            lanes.give_up(scope, lane, next)?;
            return Ok(None);
        }
    };
    let stands = place(first.run_at, Some(turn.place));
    let Some(attempt) = first.attempt else {
        leave_line(scope.connection, lane.id, (first.priority, first.run_at, first.id))?;
        return stand_alone(scope, queue, first.id, stands).map(|()| None);
    };
    if !lanes.line.leave(queue, first.priority, first.run_at, first.id)? {
        return Err(Fault::corrupt(format!("job {} left its line while it was leased", first.id)));
    }
    let slot = Slot { lane, stood: Some((first.priority, first.run_at)) };
    Ok(Some(Due::of_lane((first.priority, stands, first.id), attempt, slot)))
}

/// A suspect first in line holds its slot from here on and waits to be claimed alone.
fn stand_alone(scope: &mut Scope<'_>, queue: QueueId, id: JobId, stands: Time) -> Answer<()> {
    scope
        .connection
        .prepare_cached("update windlass_ready set queue = ?2, run_at = ?3 where id = ?1")?
        .execute((id.0, queue.0, stands.0))?;
    scope.wake(Wake::Queue(queue));
    Ok(())
}

/// The place of a turn for one of these kinds; whichever it is, it is due.
pub(crate) fn next_due(connection: &Connection, queue: QueueId, kinds: &[KindId]) -> Answer<Option<Time>> {
    let mut statement =
        connection.prepare_cached("select place, kind from windlass_turns where queue = ?1")?;
    let mut rows = statement.query([queue.0])?;
    while let Some(row) = rows.next()? {
        if kinds.contains(&KindId(row.get(1)?)) {
            return Ok(Some(Time(row.get(0)?)));
        }
    }
    Ok(None)
}

/// Takes back what is offered in a lane, to be offered anew. Walks over every turn of the queue: for what operators do.
pub(crate) fn withdraw(scope: &Scope<'_>, queue: QueueId, lane: Lane) -> Answer<()> {
    let mut statement = scope.connection.prepare_cached(
        "select distinct t.turn from windlass_turns t, json_each(t.offers) o
         where t.queue = ?1 and t.kind = ?2 and o.value ->> 0 = ?3",
    )?;
    let rows = statement.query_map((queue.0, lane.kind.0, lane.id.0), |row| row.get(0))?;
    for row in rows.collect::<Result<Vec<i64>, _>>()? {
        for _ in 0..keep(scope.connection, row, |_, offer| offer.lane != lane.id)? {
            release(scope, lane)?;
        }
    }
    Ok(())
}

/// How many are offered.
pub(crate) fn open(connection: &Connection, queue: QueueId) -> Answer<u64> {
    let offers: i64 = connection
        .prepare_cached(
            "select coalesce(sum(json_array_length(offers)), 0) from windlass_turns where queue = ?1",
        )?
        .query_row([queue.0], |row| row.get(0))?;
    Ok(offers.unsigned_abs())
}
