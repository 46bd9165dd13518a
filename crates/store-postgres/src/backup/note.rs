//! The list of backups made.

use windlass_core::StoreError;
use windlass_core::store::BackupNote;

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, big_in, count, get, text_in, time, time_or_none};

const PUT: &str = "
    insert into windlass.backups as b (digest, file, taken_at, rows, bytes, verified_at)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (digest) do update
    set file = excluded.file, verified_at = coalesce(excluded.verified_at, b.verified_at)";

const LIST: &str = "
    select digest, file, taken_at, rows, bytes, verified_at from windlass.backups
    order by taken_at desc, digest limit $1";

impl PostgresStore {
    pub(super) async fn put_note(&self, note: &BackupNote) -> Result<(), StoreError> {
        sqlx::query(self.sql(PUT))
            .bind(&note.digest)
            .bind(text_in(&note.file))
            .bind(PgTime(note.taken_at))
            .bind(big_in(note.rows))
            .bind(big_in(note.bytes))
            .bind(note.verified_at.map(PgTime))
            .execute(&self.pool)
            .await
            .map_err(failed("note a backup"))?;
        Ok(())
    }

    pub(super) async fn list_notes(&self, limit: u32) -> Result<Vec<BackupNote>, StoreError> {
        let list = sqlx::query(self.sql(LIST)).bind(i64::from(limit));
        let rows = list.fetch_all(&self.pool).await.map_err(failed("list backups"))?;
        let note = |row| {
            Ok(BackupNote {
                digest: get(row, "digest")?,
                file: get(row, "file")?,
                taken_at: time(row, "taken_at")?,
                rows: count(row, "rows")?,
                bytes: count(row, "bytes")?,
                verified_at: time_or_none(row, "verified_at")?,
            })
        };
        rows.iter().map(note).collect()
    }

    pub(super) async fn forget_note(&self, digest: &str) -> Result<bool, StoreError> {
        let forget = sqlx::query(self.sql("delete from windlass.backups where digest = $1")).bind(digest);
        let gone = forget.execute(&self.pool).await.map_err(failed("forget a backup"))?;
        Ok(gone.rows_affected() > 0)
    }
}
