//! The list of backups made.

use rusqlite::Connection;
use windlass_core::Time;
use windlass_core::store::BackupNote;

use crate::error::Answer;
use crate::scope::Scope;

pub(super) fn put(scope: &mut Scope<'_>, note: &BackupNote) -> Answer<()> {
    scope
        .connection
        .prepare_cached(
            "insert into windlass_backups (digest, file, taken_at, rows, bytes, verified_at)
             values (?1, ?2, ?3, ?4, ?5, ?6)
             on conflict (digest) do update
             set file = excluded.file, verified_at = coalesce(excluded.verified_at, verified_at)",
        )?
        .execute((
            &note.digest,
            &note.file,
            note.taken_at.0,
            i64::try_from(note.rows).unwrap_or(i64::MAX),
            i64::try_from(note.bytes).unwrap_or(i64::MAX),
            note.verified_at.map(|at| at.0),
        ))?;
    Ok(())
}

pub(super) fn list(connection: &Connection, limit: u32) -> Answer<Vec<BackupNote>> {
    let mut statement = connection.prepare_cached(
        "select digest, file, taken_at, rows, bytes, verified_at from windlass_backups
         order by taken_at desc, digest limit ?1",
    )?;
    let notes = statement.query_map([limit], |row| {
        let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(BackupNote {
            digest: row.get(0)?,
            file: row.get(1)?,
            taken_at: Time(row.get(2)?),
            rows: count(3)?,
            bytes: count(4)?,
            verified_at: row.get::<_, Option<i64>>(5)?.map(Time),
        })
    })?;
    Ok(notes.collect::<Result<_, _>>()?)
}

pub(super) fn forget(scope: &mut Scope<'_>, digest: &str) -> Answer<bool> {
    let gone = scope
        .connection
        .prepare_cached("delete from windlass_backups where digest = ?1")?
        .execute([digest])?;
    Ok(gone > 0)
}
