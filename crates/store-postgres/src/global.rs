//! Global concurrency: a limit on the leased jobs of a queue, over all workers.
//!
//! Owns the claims of queues that are known to be limited. Leased jobs are counted in `claims`; the claim then
//! succeeds only if no other claim of the queue came in between. Settlements in between only make room. So no lock
//! outlives a statement. Locking the queue's row, counting and claiming in one transaction would let a stalled process
//! stop the queue everywhere. In a single statement the count would predate the wait for the lock. Queues without a
//! limit are claimed elsewhere.

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

/// Each failure is a success of another claim; after this many the next poll is soon enough.
const TRIES: usize = 50;

struct Standing {
    /// The number of claims of the queue so far; a changed number means that another claim came first.
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
