//! Ending boxes: settlement and vector in one transaction.

use rusqlite::OptionalExtension;
use windlass_core::store::{BoxDone, BoxOutcome, Settled};
use windlass_core::{Settlement, Verdict};

use super::save::{next_seq, put_vector};
use crate::error::Answer;
use crate::scope::Scope;
use crate::settle::settle;

pub(super) fn index(scope: &mut Scope<'_>, done: &[BoxDone]) -> Answer<Vec<Settled>> {
    let settlements: Vec<Settlement> = done.iter().map(|one| one.settlement.clone()).collect();
    let answers = settle(scope, &settlements)?;
    let mut seq = next_seq(scope.connection)?;
    for (one, answer) in done.iter().zip(&answers) {
        if *answer != Settled::Accepted {
            continue;
        }
        match &one.outcome {
            BoxOutcome::Embedded { space, vector } => seq += embedded(scope, one, space, vector, seq)?,
            BoxOutcome::Failed { error } => {
                if matches!(one.settlement.verdict, Verdict::End { .. }) {
                    failed(scope, one, error)?;
                }
            }
        }
    }
    Ok(answers)
}

/// Writes the vector while the content is the one embedded; says how many places in the feed that took.
fn embedded(scope: &mut Scope<'_>, one: &BoxDone, space: &str, vector: &[u8], seq: i64) -> Answer<i64> {
    let no = scope
        .connection
        .prepare_cached(
            "update windlass_entities set state = 2, waiting = null, error = null, indexed_version = version, seq = ?4
             where type = ?1 and id = ?2 and hash = ?3 and state <> 4 returning no",
        )?
        .query_row((one.entity_type.0, &one.id, &one.hash, seq), |row| row.get(0))
        .optional()?;
    let Some(no) = no else { return Ok(0) };
    put_vector(scope, no, space, &one.hash, vector)?;
    Ok(1)
}

fn failed(scope: &mut Scope<'_>, one: &BoxDone, error: &str) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "update windlass_entities set state = 3, waiting = null, error = ?4
             where type = ?1 and id = ?2 and hash = ?3 and state = 1",
        )?
        .execute((one.entity_type.0, &one.id, &one.hash, error))?;
    Ok(())
}
