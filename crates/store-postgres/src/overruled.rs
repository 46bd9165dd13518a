//! Which values an operator set live stand before the configuration's. Reads the registry; never changes it.

use windlass_core::StoreError;
use windlass_core::store::{Overruled, QueueLayers};

use crate::PostgresStore;
use crate::error::failed;
use crate::row::{get, most, small};

const QUEUES: &str = "
    select name, live_concurrency, concurrency, live_concurrency_min, live_concurrency_max, concurrency_min,
           concurrency_max, live_depth_cap_set, live_depth_cap, depth_cap, live_global_concurrency_set,
           live_global_concurrency, global_concurrency, live_boost_after_us, boost_after_us
    from windlass.queues order by name";

const KINDS: &str = "
    select name, live_rate, rate, live_key_concurrency, configured_key_concurrency from windlass.kinds
    where live_rate is not null or live_key_concurrency is not null order by name";

const PERMITS: &str = "
    select name, live_permits, permits from windlass.resources where live_permits is not null order by name";

impl PostgresStore {
    pub(crate) async fn do_overruled(&self) -> Result<Vec<Overruled>, StoreError> {
        let read = async |statement| {
            sqlx::query(self.sql(statement)).fetch_all(&self.pool).await.map_err(failed("read live values"))
        };
        let mut found = Vec::new();
        for row in &read(QUEUES).await? {
            let cap =
                |name| get::<Option<i64>>(row, name).map(|cap| cap.and_then(|cap| u64::try_from(cap).ok()));
            let layers = QueueLayers {
                concurrency: (most(row, "live_concurrency")?, most(row, "concurrency")?.unwrap_or(0)),
                live_bounds: (most(row, "live_concurrency_min")?, most(row, "live_concurrency_max")?),
                bounds: (most(row, "concurrency_min")?, most(row, "concurrency_max")?),
                depth_cap: (get(row, "live_depth_cap_set")?, cap("live_depth_cap")?, cap("depth_cap")?),
                global_concurrency: (
                    get(row, "live_global_concurrency_set")?,
                    most(row, "live_global_concurrency")?,
                    most(row, "global_concurrency")?,
                ),
                boost_after: (get(row, "live_boost_after_us")?, get(row, "boost_after_us")?),
            };
            found.extend(Overruled::of_queue(&get::<String>(row, "name")?, &layers));
        }
        for row in &read(KINDS).await? {
            let live = get::<Option<i16>>(row, "live_key_concurrency")?
                .and_then(|at_once| u16::try_from(at_once).ok());
            let keys = (live, small(row, "configured_key_concurrency")?);
            let rates = (get(row, "live_rate")?, get(row, "rate")?);
            found.extend(Overruled::of_kind(&get::<String>(row, "name")?, rates, keys));
        }
        for row in &read(PERMITS).await? {
            let permits = |name| most(row, name).map(Option::unwrap_or_default);
            let name: String = get(row, "name")?;
            found.push(Overruled::of_resource(&name, permits("live_permits")?, permits("permits")?));
        }
        Ok(found)
    }
}
