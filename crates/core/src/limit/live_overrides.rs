//! Lists live values that override the configuration, for people.

use super::{Layers, Limit, LimitOwner, NONE};

/// A configured value that is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOverride {
    /// The configuration key: `queues.DEFAULT.concurrency`.
    pub key: String,
    pub live: String,
    pub configured: String,
}

impl LiveOverride {
    /// The overrides of one row. The two concurrency bounds count as one value.
    pub fn of(name: &str, layers: &Layers) -> Vec<LiveOverride> {
        let mut found = Vec::new();
        for limit in layers.owner().limits() {
            let Some(live) = layers.live(limit.name) else { continue };
            found.extend(match limit.name {
                "concurrency_max" => None,
                "concurrency_min" => {
                    let pair = |of: &dyn Fn(&str) -> Option<super::LimitValue>| {
                        let bounds = of("concurrency_min").zip(of("concurrency_max"));
                        bounds.map_or(NONE.to_owned(), |(min, max)| format!("{min} to {max}"))
                    };
                    Some(LiveOverride {
                        key: key(name, limit, " and _max"),
                        live: pair(&|bound| layers.live(bound).flatten()),
                        configured: pair(&|bound| layers.configured(bound)),
                    })
                }
                _ => Some(LiveOverride {
                    key: key(name, limit, ""),
                    live: limit.show(live),
                    configured: limit.show(layers.configured(limit.name)),
                }),
            });
        }
        found
    }
}

fn key(name: &str, limit: &Limit, more: &str) -> String {
    match limit.owner {
        LimitOwner::Queue | LimitOwner::Kind => {
            format!("{}.{name}.{}{more}", limit.owner.table(), limit.name)
        }
        // A resource may be configured in several queues and kinds, so there is no single key.
        LimitOwner::Resource => format!("{} of {name}", limit.name),
    }
}
