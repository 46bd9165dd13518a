//! Claims rows in memory while a command works on them.
//!
//! Owns: how the leased ids of a claim are stored (offsets from the smallest, as JSON text for `json_each`), and
//! the fence: a job is leased under a token only while the row of that token has its id. A row touched by many
//! settlements is read once and written once. Never outlives its transaction.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};
use windlass_core::sweep::Suspicion;
use windlass_core::{JobId, Time, Token, WorkerId};

use crate::error::{Answer, Fault};

/// The first id and the offsets of all ids from it.
pub(crate) fn pack(ids: &[i64]) -> (i64, String) {
    use std::fmt::Write;
    let first = ids.iter().copied().min().unwrap_or(0);
    let mut text = String::with_capacity(ids.len() * 6 + 2);
    text.push('[');
    for (n, id) in ids.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}", id - first);
    }
    text.push(']');
    (first, text)
}

/// No offsets when all times are equal.
pub(crate) fn pack_places(places: &[i64]) -> (i64, Option<String>) {
    match places.first() {
        Some(first) if places.iter().all(|place| place == first) => (*first, None),
        _ => {
            let (first, text) = pack(places);
            (first, Some(text))
        }
    }
}

pub(crate) fn unpack(first: i64, text: &str) -> Answer<Vec<i64>> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let broken = || Fault::corrupt(format!("the ids of a claim are `{}`", windlass_core::input::shown(text)));
    let inner = inner.ok_or_else(broken)?;
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    inner.split(',').map(|part| part.parse::<i64>().map(|d| first + d).map_err(|_| broken())).collect()
}

pub(crate) struct Held {
    pub(crate) token: Token,
    pub(crate) worker: WorkerId,
    pub(crate) queue: i32,
    pub(crate) attempt: u16,
    pub(crate) suspicion: Suspicion,
    pub(crate) alone: bool,
    /// Its queue had a global concurrency when it was leased.
    pub(crate) limited: bool,
    pub(crate) claimed_at: Time,
    /// Sorted for binary search.
    pub(crate) ids: Vec<i64>,
    places: Places,
    left: Vec<bool>,
    remaining: usize,
}

const BY_TOKEN: &str =
    "select token, worker, queue, attempt, suspicion, alone, claimed_at, place, first_id, ids, places, limited
     from windlass_claims where token = ?1";
const BY_WORKER: &str =
    "select token, worker, queue, attempt, suspicion, alone, claimed_at, place, first_id, ids, places, limited
     from windlass_claims where worker = ?1 order by token";

/// The `run_at` of each job before it was claimed. Needed only when a job returns without a settlement, so it is
/// kept as text and parsed on demand.
struct Places {
    place: i64,
    text: Option<String>,
}

/// A row with its ids still packed.
struct Packed {
    held: Held,
    first_id: i64,
    ids: String,
}

impl Held {
    fn read(row: &Row<'_>) -> rusqlite::Result<Packed> {
        let held = Held {
            token: Token(row.get(0)?),
            worker: WorkerId(row.get(1)?),
            queue: row.get(2)?,
            attempt: row.get(3)?,
            suspicion: Suspicion::new(row.get(4)?),
            alone: row.get(5)?,
            limited: row.get(11)?,
            claimed_at: Time(row.get(6)?),
            ids: Vec::new(),
            places: Places { place: row.get(7)?, text: row.get(10)? },
            left: Vec::new(),
            remaining: 0,
        };
        Ok(Packed { held, first_id: row.get(8)?, ids: row.get(9)? })
    }

    fn unpack_ids(Packed { mut held, first_id, ids }: Packed) -> Answer<Held> {
        held.ids = unpack(first_id, &ids)?;
        held.left = vec![true; held.ids.len()];
        held.remaining = held.ids.len();
        if !held.ids.is_sorted() {
            return Err(Fault::corrupt(format!("the ids of claim {} are not in order", held.token)));
        }
        Ok(held)
    }

    /// The `run_at` of each id, in the order of [`Held::ids`].
    pub(crate) fn places(&self) -> Answer<Vec<Time>> {
        let places = match &self.places.text {
            None => vec![self.places.place; self.ids.len()],
            Some(text) => unpack(self.places.place, text)?,
        };
        if places.len() != self.ids.len() {
            return Err(Fault::corrupt(format!(
                "claim {} has more or fewer run times than jobs",
                self.token
            )));
        }
        Ok(places.into_iter().map(Time).collect())
    }

    fn position(&self, id: JobId) -> Option<usize> {
        self.ids.binary_search(&id.0).ok().filter(|at| self.left[*at])
    }

    pub(crate) fn holds(&self, id: JobId) -> bool {
        self.position(id).is_some()
    }

    /// Returns false when the job is not leased under this token.
    pub(crate) fn release(&mut self, id: JobId) -> bool {
        let Some(at) = self.position(id) else { return false };
        self.left[at] = false;
        self.remaining -= 1;
        true
    }
}

pub(crate) fn load(connection: &Connection, token: Token) -> Answer<Option<Held>> {
    let row = connection.prepare_cached(BY_TOKEN)?.query_row([token.0], Held::read).optional()?;
    row.map(Held::unpack_ids).transpose()
}

pub(crate) fn of_worker(connection: &Connection, worker: WorkerId) -> Answer<Vec<Held>> {
    let mut statement = connection.prepare_cached(BY_WORKER)?;
    let rows = statement.query_map([worker.0], Held::read)?.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter().map(Held::unpack_ids).collect()
}

#[derive(Default)]
pub(crate) struct Leases {
    held: HashMap<Token, Option<Held>>,
}

impl Leases {
    pub(crate) fn get(&mut self, connection: &Connection, token: Token) -> Answer<Option<&mut Held>> {
        use std::collections::hash_map::Entry;
        let held = match self.held.entry(token) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(load(connection, token)?),
        };
        Ok(held.as_mut())
    }

    /// Writes back the claims that lost jobs.
    pub(crate) fn store(self, connection: &Connection) -> Answer<()> {
        for held in self.held.into_values().flatten() {
            if held.remaining == 0 {
                connection
                    .prepare_cached("delete from windlass_claims where token = ?1")?
                    .execute([held.token.0])?;
            } else if held.remaining < held.ids.len() {
                let kept = held.ids.iter().copied().zip(held.places()?).zip(&held.left);
                let (ids, places): (Vec<i64>, Vec<i64>) =
                    kept.filter(|(_, left)| **left).map(|((id, place), _)| (id, place.0)).unzip();
                let ((first_id, ids), (place, places)) = (pack(&ids), pack_places(&places));
                connection
                    .prepare_cached(
                        "update windlass_claims set first_id = ?2, ids = ?3, place = ?4, places = ?5
                         where token = ?1",
                    )?
                    .execute((held.token.0, first_id, ids, place, places))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_ids_unpack_to_the_same() {
        for ids in [vec![7], vec![9, 7, 8], vec![i64::MAX - 1, 3]] {
            let (first, text) = pack(&ids);
            assert_eq!(unpack(first, &text).unwrap(), ids);
        }
        assert!(unpack(1, "[1,x]").is_err());
        assert!(unpack(1, "1,2").is_err());
    }
}
