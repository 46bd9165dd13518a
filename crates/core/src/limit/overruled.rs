//! Which values an operator set live stand before those of the configuration, in words for people.

use super::{Layers, Limit, NONE, Of};

/// One value of the configuration that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    /// As the configuration calls it: `queues.DEFAULT.concurrency`.
    pub key: String,
    pub live: String,
    pub configured: String,
}

impl Overruled {
    /// Of a row by its name. The two bounds of a concurrency are one value.
    pub fn of(name: &str, layers: &Layers) -> Vec<Overruled> {
        let mut found = Vec::new();
        for limit in layers.of().limits() {
            let Some(live) = layers.live(limit.name) else { continue };
            found.extend(match limit.name {
                "concurrency_max" => None,
                "concurrency_min" => {
                    let pair = |of: &dyn Fn(&str) -> Option<super::LimitValue>| {
                        let bounds = of("concurrency_min").zip(of("concurrency_max"));
                        bounds.map_or(NONE.to_owned(), |(min, max)| format!("{min} to {max}"))
                    };
                    Some(Overruled {
                        key: key(name, limit, " and _max"),
                        live: pair(&|bound| layers.live(bound).flatten()),
                        configured: pair(&|bound| layers.configured(bound)),
                    })
                }
                _ => Some(Overruled {
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
    match limit.of {
        Of::Queue | Of::Kind => format!("{}.{name}.{}{more}", limit.of.table(), limit.name),
        // Several queues and kinds may have said it.
        Of::Resource => format!("{} of {name}", limit.name),
    }
}
