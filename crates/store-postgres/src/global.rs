//! Global concurrency: of a limited queue never more than so many jobs are leased, whoever claims.
//!
//! Owns the claims of queues that are known to be limited. What is leased is counted in `claims`, then
//! claimed if no other claim of the queue came in between; settlements in between only make room. So no lock outlives a
//! statement. Locking the queue's row, counting and claiming in one transaction would let a process that stops in the
//! middle stop the queue everywhere; in one statement the count would be of before the wait. Queues without a limit never
//! come here.

use windlass_core::queue::room;
use windlass_core::store::Claim;
use windlass_core::{LeasedJob, QueueId, StoreError};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, get, most};

const STANDING: &str = "
    select q.limited_claims as claims, q.global_concurrency as most,
           coalesce((select sum(cardinality(c.ids)) from windlass.claims c where c.queue = q.id), 0)::bigint as leased
    from windlass.queues q where q.id = $1";

/// Each failure is another's success; after so many the next poll is soon enough.
const TRIES: usize = 50;

struct Standing {
    /// Claims of the queue so far, as a mark to see the next one by.
    claims: i64,
    most: Option<u32>,
    leased: u64,
}

impl PostgresStore {
    pub(crate) async fn claim_within(
        &self,
        claim: &Claim,
        only: Option<u8>,
    ) -> Result<Vec<LeasedJob>, StoreError> {
        for _ in 0..TRIES {
            let Some(Standing { claims, most, leased }) = self.standing(claim.queue).await? else { break };
            self.limited.set(claim.queue, most.is_some());
            let limit = most.map_or(claim.limit, |most| room(most, leased, claim.limit));
            if limit == 0 {
                break;
            }
            let within = Claim { limit, ..claim.clone() };
            if let Some(jobs) = self.claim_once(&within, Some(claims), only).await? {
                return Ok(jobs);
            }
        }
        Ok(Vec::new())
    }

    async fn standing(&self, queue: QueueId) -> Result<Option<Standing>, StoreError> {
        let row = sqlx::query(self.sql(STANDING))
            .bind(queue.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("count leased jobs"))?;
        row.map(|row| {
            let (claims, most, leased) = (get(&row, "claims")?, most(&row, "most")?, count(&row, "leased")?);
            Ok(Standing { claims, most, leased })
        })
        .transpose()
    }
}
