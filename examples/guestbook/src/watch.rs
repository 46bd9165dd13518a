//! A metric and a health check.

use std::time::Duration;

use windlass::StoreError;
use windlass::pack::health::Finding;
use windlass::pack::metrics::{Labels, Samples, Series};
use windlass::pack::{Host, Registry};

use crate::entries;

const ENTRIES: Series = Series::gauge("windlass_guestbook_entries", "Entries in the guest book.");
/// The health check warns when a guest has waited longer than this.
const PATIENCE: Duration = Duration::from_secs(3_600);

pub(crate) fn register(registry: &mut Registry) {
    let host = registry.host();
    registry.metrics(&[ENTRIES], move || {
        let host = host.clone();
        async move {
            let count = entries::count(&host).await.map_err(|error| error.chain())?;
            let mut samples = Samples::default();
            samples.value(ENTRIES.name, Labels::new(), count as f64);
            Ok(samples)
        }
    });
    let host = registry.host();
    registry.check("guestbook", move || {
        let host = host.clone();
        async move { look(&host).await.map_err(|error| error.chain()) }
    });
}

async fn look(host: &Host) -> Result<Vec<Finding>, StoreError> {
    let (oldest, now) = (entries::oldest_unthanked(host).await?, host.now().await?);
    Ok(vec![match oldest {
        Some(since) if now.since(since) > PATIENCE => {
            let what = "a guest has waited for more than an hour to be thanked";
            let remedy = "see why with `windlass jobs --kind GUESTBOOK_THANK`";
            Finding::warning("guestbook", what, remedy).since(since).link("#/guestbook")
        }
        _ => match entries::count(host).await? {
            1 => Finding::ok("guestbook", "1 entry"),
            count => Finding::ok("guestbook", format!("{count} entries")),
        },
    }])
}
