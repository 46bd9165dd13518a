//! Idempotency keys of entity writes, stored in the transaction of the write.

use rusqlite::{Connection, OptionalExtension};
use windlass_core::Idempotency;
use windlass_core::entity::WriteRefusal;
use windlass_core::store::{Saved, Written};

use crate::enqueue::NO_JOB;
use crate::error::Answer;
use crate::scope::Scope;

/// The stored answer to a write with this key; `None` when the key is free.
pub(super) fn find(connection: &Connection, key: &Idempotency) -> Answer<Option<Saved>> {
    let known = connection
        .prepare_cached("select fingerprint, answer from windlass_idempotency where key = ?1")?
        .query_row([&key.key], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<String>>(1)?)))
        .optional()?;
    Ok(match known {
        None => None,
        Some((fingerprint, Some(answer))) if fingerprint == key.fingerprint => {
            Some(Saved::Replayed(Written::from_kept(&answer)?))
        }
        Some(_) => Some(Saved::Refused(WriteRefusal::KeyUsed)),
    })
}

pub(super) fn keep(scope: &Scope<'_>, key: &Idempotency, written: &Written) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_idempotency (key, job_id, fingerprint, created_at, answer) values (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((&key.key, NO_JOB.0, &key.fingerprint, scope.now.0, written.to_kept()))?;
    Ok(())
}

pub(super) fn replace_response(scope: &Scope<'_>, key: &str, written: &Written) -> Answer<()> {
    scope
        .connection
        .prepare_cached("update windlass_idempotency set answer = ?2 where key = ?1 and answer is not null")?
        .execute((key, written.to_kept()))?;
    Ok(())
}
