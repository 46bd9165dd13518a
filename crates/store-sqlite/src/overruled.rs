//! Which values an operator set live stand before the configuration's. Reads the registry; never changes it.

use rusqlite::Connection;
use windlass_core::store::{Overruled, QueueLayers};

use crate::error::Answer;

pub(crate) fn overruled(connection: &Connection) -> Answer<Vec<Overruled>> {
    let mut found = Vec::new();
    let mut statement = connection.prepare_cached(
        "select name, live_concurrency, concurrency, live_concurrency_min, live_concurrency_max, concurrency_min,
                concurrency_max, live_depth_cap_set, live_depth_cap, depth_cap, live_global_concurrency_set,
                live_global_concurrency, global_concurrency, live_boost_after_us, boost_after_us
         from windlass_queues order by name",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let cap = |column| row.get::<_, Option<i64>>(column).map(|cap| cap.map(i64::unsigned_abs));
        let layers = QueueLayers {
            concurrency: (row.get(1)?, row.get(2)?),
            live_bounds: (row.get(3)?, row.get(4)?),
            bounds: (row.get(5)?, row.get(6)?),
            depth_cap: (row.get(7)?, cap(8)?, cap(9)?),
            global_concurrency: (row.get(10)?, row.get(11)?, row.get(12)?),
            boost_after: (row.get(13)?, row.get(14)?),
        };
        found.extend(Overruled::of_queue(&row.get::<_, String>(0)?, &layers));
    }
    let mut statement = connection.prepare_cached(
        "select name, live_rate, rate, live_key_concurrency, configured_key_concurrency from windlass_kinds
         where live_rate is not null or live_key_concurrency is not null order by name",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (rates, keys) = ((row.get(1)?, row.get(2)?), (row.get(3)?, row.get(4)?));
        found.extend(Overruled::of_kind(&row.get::<_, String>(0)?, rates, keys));
    }
    let mut statement = connection.prepare_cached(
        "select name, live_permits, permits from windlass_resources where live_permits is not null order by name",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        found.push(Overruled::of_resource(&row.get::<_, String>(0)?, row.get(1)?, row.get(2)?));
    }
    Ok(found)
}
