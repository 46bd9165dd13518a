//! Resources: how many permits a process has of each, and how many are in use.
//!
//! Owns the resources table. Permits in use are counted from the leases, so the two cannot disagree.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension};
use windlass_core::WorkerId;
use windlass_core::limit::{Layers, LimitOwner};
use windlass_core::store::{ResourceUse, WorkerLimits};

use crate::error::Answer;
use crate::limit;
use crate::scope::Scope;

/// Registers the resources that queues and kinds name.
pub(crate) fn put(connection: &Connection, named: &BTreeMap<String, Option<u32>>) -> Answer<()> {
    for (name, permits) in named {
        connection
            .prepare_cached(
                "insert into windlass_resources (name) values (?1) on conflict (name) do nothing",
            )?
            .execute([name])?;
        let configure = |layers: &mut Layers| layers.configure_permits(*permits);
        limit::change(connection, LimitOwner::Resource, name, configure)?;
    }
    Ok(())
}

pub(crate) fn report_limits(scope: &mut Scope<'_>, worker: WorkerId, limits: &WorkerLimits) -> Answer<bool> {
    let there = scope
        .connection
        .prepare_cached("update windlass_workers set limits = ?2 where id = ?1")?
        .execute((worker.0, limits.to_json()))?;
    Ok(there > 0)
}

/// Leased jobs that need a resource, by worker. Reads only claims of queues in which some kind needs one.
pub(crate) fn in_use(connection: &Connection) -> Answer<HashMap<(WorkerId, String), u64>> {
    let mut statement = connection.prepare_cached(
        "select c.worker, coalesce(k.resource, q.resource), count(*)
         from windlass_queues q
         join windlass_claims c on c.queue = q.id
         join json_each(c.ids) e
         join windlass_jobs j on j.id = c.first_id + e.value
         join windlass_kinds k on k.id = j.kind
         where coalesce(k.resource, q.resource) is not null
           and (q.resource is not null
                or exists (select 1 from windlass_kinds n where n.queue = q.id and n.resource is not null))
         group by 1, 2",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(((WorkerId(row.get(0)?), row.get(1)?), row.get::<_, i64>(2)?.unsigned_abs()))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The resources of a worker, from the registry and its leases.
pub(crate) fn uses(
    connection: &Connection,
    worker: WorkerId,
    names: Vec<String>,
    in_use: &HashMap<(WorkerId, String), u64>,
) -> Answer<Vec<ResourceUse>> {
    let mut statement =
        connection.prepare_cached("select permits from windlass_resources where name = ?1")?;
    let mut uses = Vec::new();
    for resource in names {
        let permits = statement.query_row([&resource], |row| row.get(0)).optional()?;
        let key = (worker, resource);
        if let Some(permits) = permits {
            let in_use = in_use.get(&key).copied().unwrap_or(0);
            uses.push(ResourceUse { resource: key.1, permits, in_use });
        }
    }
    Ok(uses)
}
