//! Resources: how many permits a process has of each, and how many are in use.
//!
//! Owns `resources`. Permits in use are counted from the leases, so the two cannot disagree.

use std::collections::{BTreeMap, HashMap};

use sqlx::PgConnection;
use windlass_core::limit::{Layers, LimitOwner};
use windlass_core::store::{ResourceUse, WorkerLimits};
use windlass_core::{StoreError, WorkerId};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{count, get, most};

const PUT: &str = "
    insert into windlass.resources (name) values ($1) on conflict (name) do nothing";

const REPORT_LIMITS: &str = "update windlass.workers set limits = $2 where id = $1";

const PERMITS: &str = "select name, permits from windlass.resources";

/// Reads only claims of queues in which some kind needs a resource.
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
    /// Registers the resources that queues and kinds name.
    pub(crate) async fn put_resources(
        &self,
        conn: &mut PgConnection,
        named: &BTreeMap<String, Option<u32>>,
    ) -> Result<(), StoreError> {
        for (name, permits) in named {
            let put = sqlx::query(self.sql(PUT)).bind(name).execute(&mut *conn).await;
            put.map_err(failed("write the registry"))?;
            let configure = |layers: &mut Layers| layers.configure_permits(*permits);
            self.change_limits(conn, LimitOwner::Resource, name, configure).await?;
        }
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
            let permits = most(&row, "permits")?.unwrap_or(0);
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
