//! Which values an operator set live stand before those of the configuration, in words for people.

use std::time::Duration;

use crate::duration;
use crate::scale::Bounds;

/// One value of the configuration that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    /// As the configuration calls it: `queues.DEFAULT.concurrency`.
    pub key: String,
    pub live: String,
    pub configured: String,
}

/// A queue's values as both stores keep them, live and configured.
#[derive(Clone, Debug, Default)]
pub struct QueueLayers {
    pub concurrency: (Option<u32>, u32),
    /// An upper one alone is an operator's word for none.
    pub live_bounds: (Option<u32>, Option<u32>),
    pub bounds: (Option<u32>, Option<u32>),
    /// Whether the first counts.
    pub depth_cap: (bool, Option<u64>, Option<u64>),
    pub global_concurrency: (bool, Option<u32>, Option<u32>),
    /// In microseconds; 0 is an operator's word for never.
    pub boost_after: (Option<i64>, Option<i64>),
}

impl Overruled {
    pub fn new(key: String, live: String, configured: String) -> Overruled {
        Overruled { key, live, configured }
    }

    pub fn of_queue(name: &str, layers: &QueueLayers) -> Vec<Overruled> {
        let mut found = Vec::new();
        let mut add = |key: &str, live: String, configured: String| {
            found.push(Overruled::new(format!("queues.{name}.{key}"), live, configured));
        };
        if let (Some(live), configured) = layers.concurrency {
            add("concurrency", live.to_string(), configured.to_string());
        }
        if layers.live_bounds.1.is_some() {
            let (live, configured) = (layers.live_bounds, layers.bounds);
            add("concurrency_min and _max", bounds(live), bounds(configured));
        }
        if let (true, live, configured) = layers.global_concurrency {
            add("global_concurrency", or_none(live), or_none(configured));
        }
        if let (true, live, configured) = layers.depth_cap {
            add("depth_cap", or_none(live), or_none(configured));
        }
        if let (Some(live), configured) = layers.boost_after {
            let said = |micros: Option<i64>| {
                let micros =
                    micros.and_then(|micros| u64::try_from(micros).ok()).filter(|micros| *micros > 0);
                micros.map(|micros| duration::format(Duration::from_micros(micros)))
            };
            add("boost_after", or_none(said(Some(live))), or_none(said(configured)));
        }
        found
    }

    /// Rate and jobs per key, each live and as configured.
    pub fn of_kind(
        name: &str,
        (live_rate, rate): (Option<String>, Option<String>),
        (live_keys, keys): (Option<u16>, u16),
    ) -> Vec<Overruled> {
        let rate = live_rate.map(|live| Overruled::new(format!("kinds.{name}.rate"), live, or_none(rate)));
        let key = format!("kinds.{name}.key_concurrency");
        let keys = live_keys.map(|live| Overruled::new(key, live.to_string(), keys.to_string()));
        rate.into_iter().chain(keys).collect()
    }

    pub fn of_resource(name: &str, live: u32, configured: u32) -> Overruled {
        Overruled::new(format!("permits of {name}"), live.to_string(), configured.to_string())
    }
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn bounds((min, max): (Option<u32>, Option<u32>)) -> String {
    let bounds = min.zip(max).map(|(min, max)| Bounds { min, max });
    or_none(bounds.map(|bounds| format!("{} to {}", bounds.min, bounds.max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_set_is_not_listed() {
        let plain =
            QueueLayers { concurrency: (None, 10), bounds: (Some(1), Some(9)), ..QueueLayers::default() };
        assert_eq!(Overruled::of_queue("Q", &plain), []);
        let layers = QueueLayers {
            live_bounds: (None, Some(10)),
            depth_cap: (true, None, Some(7)),
            boost_after: (Some(0), Some(90_000_000)),
            ..plain
        };
        let told: Vec<String> = Overruled::of_queue("Q", &layers)
            .into_iter()
            .map(|of| format!("{} {} not {}", of.key, of.live, of.configured))
            .collect();
        assert_eq!(
            told,
            [
                "queues.Q.concurrency_min and _max none not 1 to 9",
                "queues.Q.depth_cap none not 7",
                "queues.Q.boost_after none not 1m30s",
            ]
        );
    }
}
