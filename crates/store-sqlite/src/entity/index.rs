//! Settling boxes: settlement and vector in one transaction.

use rusqlite::OptionalExtension;
use windlass_core::entity::{ContentHash, IndexState};
use windlass_core::store::{BoxDone, BoxOutcome, Settled};
use windlass_core::{Settlement, Time};

use super::save::{next_seq, put_vector};
use crate::error::Answer;
use crate::scope::Scope;
use crate::settle::settle;

/// Also returns when an entity was written that this made indexed.
pub(super) fn index(scope: &mut Scope<'_>, done: &[BoxDone]) -> Answer<Vec<(Settled, Option<Time>)>> {
    let settlements: Vec<Settlement> = done.iter().map(|one| one.settlement.clone()).collect();
    let answers = settle(scope, &settlements)?;
    let mut seq = next_seq(scope.connection)?;
    let mut ends = Vec::with_capacity(done.len());
    for (one, answer) in done.iter().zip(answers) {
        let mut written = None;
        match &one.outcome {
            _ if answer != Settled::Accepted => {}
            BoxOutcome::Embedded { space, vector } => {
                if let Some(row) = entity_of(scope, one)? {
                    embedded(scope, &row, space, &one.hash, vector, seq)?;
                    written = (row.state != IndexState::Indexed.code()).then_some(row.updated_at);
                    seq += 1;
                }
            }
            BoxOutcome::Failed => {}
        }
        ends.push((answer, written));
    }
    Ok(ends)
}

struct Row {
    no: i64,
    state: i16,
    updated_at: Time,
}

/// `None` when the content has changed since it was embedded. A tombstone has no content.
fn entity_of(scope: &Scope<'_>, one: &BoxDone) -> Answer<Option<Row>> {
    let row = scope
        .connection
        .prepare_cached(
            "select no, state, updated_at from windlass_entities where type = ?1 and id = ?2 and hash = ?3",
        )?
        .query_row((one.entity_type.0, &one.id, &one.hash), |row| {
            Ok(Row { no: row.get(0)?, state: row.get(1)?, updated_at: Time(row.get(2)?) })
        })
        .optional()?;
    Ok(row)
}

fn embedded(
    scope: &Scope<'_>,
    row: &Row,
    space: &str,
    hash: &ContentHash,
    vector: &[u8],
    seq: i64,
) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "update windlass_entities set state = 2, waiting = null, error = null, indexed_version = version, seq = ?2
             where no = ?1",
        )?
        .execute((row.no, seq))?;
    put_vector(scope, row.no, space, hash, vector)
}
