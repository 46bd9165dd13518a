//! Idempotency keys of entity writes: stored before the write, answered with it, in one transaction.
//!
//! Differs from SQLite, which stores the key together with its answer. Here two callers with one key have to wait for
//! each other on the unique row, so it is inserted before the write. The second finds the answer of the first, or
//! takes over when the first rolls back.

use sqlx::PgConnection;
use windlass_core::entity::{BoxKinds, EntityWrite, WriteRefusal};
use windlass_core::store::{Saved, Written};
use windlass_core::{Idempotency, StoreError, Time};

use super::boxes::Places;
use crate::PostgresStore;
use crate::enqueue::NO_JOB;
use crate::error::failed;
use crate::row::get;

const TAKE: &str = "
    insert into windlass.idempotency (key, job_id, fingerprint, created_at)
    values ($2, $3, $4, statement_timestamp() + $1::bigint * interval '1 microsecond')
    on conflict (key) do nothing";

const READ: &str = "select fingerprint, answer from windlass.idempotency where key = $1";
const GIVE_BACK: &str = "delete from windlass.idempotency where key = $1";
const ANSWER: &str = "update windlass.idempotency set answer = $2 where key = $1";
const RESTATE: &str = "update windlass.idempotency set answer = $2 where key = $1 and answer is not null";

const OP: &str = "save entities";

impl PostgresStore {
    /// Does one write with a key.
    pub(super) async fn save_keyed(
        &self,
        conn: &mut PgConnection,
        boxes: &BoxKinds,
        write: &[&EntityWrite],
        key: &Idempotency,
    ) -> Result<(Vec<Saved>, Places), StoreError> {
        if let Some(answer) = self.take_key(conn, key).await? {
            return Ok((vec![answer], (Default::default(), Time(i64::MAX))));
        }
        let (saved, places) = self.save_batch(conn, boxes, write).await?;
        let query = match saved.first() {
            Some(Saved::Written(written)) => {
                sqlx::query(self.sql(ANSWER)).bind(&key.key).bind(written.to_kept())
            }
            _ => sqlx::query(self.sql(GIVE_BACK)).bind(&key.key),
        };
        query.execute(conn).await.map_err(failed(OP))?;
        Ok((saved, places))
    }

    /// The stored answer to a write with this key; `None` when the key now belongs to this write.
    async fn take_key(
        &self,
        conn: &mut PgConnection,
        key: &Idempotency,
    ) -> Result<Option<Saved>, StoreError> {
        loop {
            let taken = sqlx::query(self.sql(TAKE))
                .bind(self.offset())
                .bind(&key.key)
                .bind(NO_JOB.0)
                .bind(&key.fingerprint)
                .execute(&mut *conn)
                .await
                .map_err(failed(OP))?;
            if taken.rows_affected() > 0 {
                return Ok(None);
            }
            let query = sqlx::query(self.sql(READ)).bind(&key.key);
            // A key that was deleted between the two statements is tried again.
            let Some(row) = query.fetch_optional(&mut *conn).await.map_err(failed(OP))? else { continue };
            let fingerprint: &[u8] = get(&row, "fingerprint")?;
            let answer: Option<&str> = get(&row, "answer")?;
            return Ok(Some(match answer.filter(|_| fingerprint == key.fingerprint) {
                Some(answer) => Saved::Replayed(Written::from_kept(answer)?),
                None => Saved::Refused(WriteRefusal::KeyUsed),
            }));
        }
    }

    pub(super) async fn restate_answer(&self, key: &str, written: &Written) -> Result<(), StoreError> {
        let query = sqlx::query(self.sql(RESTATE)).bind(key).bind(written.to_kept());
        query.execute(&self.pool).await.map_err(failed("keep an answer"))?;
        Ok(())
    }
}
