//! Resources: how many permits a process has of each, and how many are in use.
//!
//! Owns `resources`. Configuration never overwrites an operator's figure. What is in use is read from the leases, so it
//! cannot be wrong about them.

use std::collections::HashMap;

use sqlx::PgConnection;
use windlass_core::store::{ResourceUse, WorkerLimits};
use windlass_core::{Resource, StoreError, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, get};

const PUT: &str = "
    insert into windlass.resources as r (name, permits) values ($1, coalesce($2, 1))
    on conflict (name) do update set permits = excluded.permits
    where $2 is not null and r.permits <> excluded.permits";

const REPORT_LIMITS: &str = "update windlass.workers set limits = $2 where id = $1";

const PERMITS: &str = "select name, coalesce(live_permits, permits) as permits from windlass.resources";

/// Only claims of queues where some kind needs a resource are opened.
const IN_USE: &str = "
    select c.worker, coalesce(k.resource, q.resource) as resource, count(*) as in_use
    from windlass.queues q
    join windlass.claims c on c.queue = q.id
    cross join lateral unnest(c.ids) i (id)
    join windlass.jobs j on j.id = i.id
    join windlass.kinds k on k.id = j.kind
    where coalesce(k.resource, q.resource) is not null
      and (q.resource is not null
           or exists (select from windlass.kinds n where n.queue = q.id and n.resource is not null))
    group by 1, 2";

const OP: &str = "read the resources";

/// Every resource with its permits, and how many of them each worker uses.
#[derive(Default)]
pub(crate) struct Uses {
    permits: HashMap<String, u32>,
    in_use: HashMap<(WorkerId, String), u64>,
}

impl Uses {
    pub(crate) fn of(&self, worker: WorkerId, resources: Vec<String>) -> Vec<ResourceUse> {
        let known = |resource: String| {
            let permits = *self.permits.get(&resource)?;
            let key = (worker, resource);
            let in_use = self.in_use.get(&key).copied().unwrap_or(0);
            Some(ResourceUse { resource: key.1, permits, in_use })
        };
        resources.into_iter().filter_map(known).collect()
    }
}

impl PostgresStore {
    /// Registers what a queue or kind says of its resource.
    pub(crate) async fn put_resource(
        &self,
        conn: &mut PgConnection,
        resource: Option<&Resource>,
    ) -> Result<(), StoreError> {
        let Some(resource) = resource else { return Ok(()) };
        sqlx::query(self.sql(PUT))
            .bind(&resource.name)
            .bind(resource.permits.map(|p| i32::try_from(p).unwrap_or(i32::MAX)))
            .execute(conn)
            .await
            .map_err(failed("write the registry"))?;
        Ok(())
    }

    pub(crate) async fn do_report_limits(
        &self,
        worker: WorkerId,
        limits: &WorkerLimits,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(self.sql(REPORT_LIMITS))
            .bind(worker.0)
            .bind(limits.to_json())
            .execute(&self.pool)
            .await
            .map_err(failed("report limits"))?;
        Ok(done.rows_affected() == 1)
    }

    pub(crate) async fn uses(&self) -> Result<Uses, StoreError> {
        let mut uses = Uses::default();
        for row in sqlx::query(self.sql(PERMITS)).fetch_all(&self.pool).await.map_err(failed(OP))? {
            let permits = u32::try_from(get::<i32>(&row, "permits")?).unwrap_or(0);
            uses.permits.insert(get(&row, "name")?, permits);
        }
        if uses.permits.is_empty() {
            return Ok(uses);
        }
        for row in sqlx::query(self.sql(IN_USE)).fetch_all(&self.pool).await.map_err(failed(OP))? {
            let key = (WorkerId(get(&row, "worker")?), get(&row, "resource")?);
            uses.in_use.insert(key, count(&row, "in_use")?);
        }
        Ok(uses)
    }
}
