//! Leasing jobs that have been due too long, whatever their priority.
//!
//! `windlass_core::order` decides which of them come first; each is then leased by a claim of its priority. Never
//! follows lane checks: a claim of all priorities comes right after.

use std::time::Duration;

use windlass_core::order::longest_due;
use windlass_core::store::{Claim, LateJobs};
use windlass_core::{StoreError, Time};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{PgTime, delay_in, priority, time};

/// The first jobs of each priority, each read from its index range: at most eleven times as many rows as wanted,
/// without a sort, however many wait.
pub(crate) const LATE: &str = "
    with n as materialized (
        select statement_timestamp() + ($1::bigint - $2::bigint) * interval '1 microsecond' as before)
    select r.priority, r.run_at
    from n cross join unnest($5::timestamptz[]) with ordinality p (low, n)
    cross join lateral (
        select r.priority, r.run_at from windlass.ready r
        where r.queue = $3 and r.priority = (p.n - 1)::smallint and r.run_at >= p.low and r.run_at <= n.before
          and r.suspicion <= 1 and r.kind = any ($4::int[])
        order by r.run_at, r.id limit $6) r";

const OP: &str = "claim late jobs";

impl PostgresStore {
    pub(crate) async fn do_claim_late(&self, claim: &Claim, after: Duration) -> Result<LateJobs, StoreError> {
        if claim.limit == 0 || claim.kinds.is_empty() {
            return Ok(LateJobs::default());
        }
        let late = self.late(claim, after).await?;
        let mut jobs = Vec::new();
        for (priority, limit) in longest_due(&late, claim.limit) {
            jobs.extend(self.claim_of(&Claim { limit, ..claim.clone() }, Some(priority)).await?);
        }
        Ok(LateJobs::leased(jobs, late.len()))
    }

    async fn late(&self, claim: &Claim, after: Duration) -> Result<Vec<(u8, Time)>, StoreError> {
        let low = self.hints.low(claim.queue, &claim.kinds);
        let rows = sqlx::query(self.sql(LATE))
            .bind(self.offset())
            .bind(delay_in(after))
            .bind(claim.queue.0)
            .bind(claim.kinds.iter().map(|kind| kind.0).collect::<Vec<_>>())
            .bind(low.ready.map(PgTime).to_vec())
            .bind(i64::from(claim.limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed(OP))?;
        rows.iter().map(|row| Ok((priority(row, "priority")?, time(row, "run_at")?))).collect()
    }
}
