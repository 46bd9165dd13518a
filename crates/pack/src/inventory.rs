//! The names each part uses, and clashes between them.

use std::collections::HashMap;

use windlass_core::Invalid;

use crate::registry::Registry;
use crate::settings::Setting;

/// Names used by one owner. Two owners of the same name cannot run together.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub owner: String,
    pub queues: Vec<String>,
    pub kinds: Vec<String>,
    pub schedules: Vec<String>,
    pub budgets: Vec<String>,
    pub types: Vec<String>,
    pub tables: Vec<String>,
    /// `GET /v1/jobs/{id}`, with normalized parameter names.
    pub routes: Vec<String>,
    pub pages: Vec<String>,
    pub assets: Vec<String>,
    /// `queues pause`.
    pub verbs: Vec<String>,
    pub settings: Vec<String>,
    pub metrics: Vec<String>,
    pub figures: Vec<String>,
    pub checks: Vec<String>,
    pub cleanup: Vec<String>,
}

impl Inventory {
    pub fn of(owner: &str) -> Inventory {
        Inventory { owner: owner.to_owned(), ..Inventory::default() }
    }

    pub(crate) fn of_part(registry: &Registry, settings: &[Setting]) -> Inventory {
        let names = |each: &mut dyn Iterator<Item = String>| each.collect::<Vec<String>>();
        let kinds = registry.handlers.specs().into_iter();
        let series = registry.metrics.iter().flat_map(|metrics| &metrics.series);
        let figures = registry.figures.iter().flat_map(|figures| &figures.known);
        let verb = |noun: &str, name: &str| format!("{noun} {name}").trim_end().to_owned();
        Inventory {
            owner: registry.host.pack().to_owned(),
            queues: names(&mut registry.queues.iter().map(|queue| queue.name.clone())),
            kinds: names(&mut kinds.map(|kind| kind.name)),
            schedules: names(&mut registry.schedules.iter().map(|schedule| schedule.name.clone())),
            budgets: names(&mut registry.budgets.iter().map(|budget| budget.name.clone())),
            types: names(&mut registry.types.iter().map(|spec| spec.name.clone())),
            tables: names(&mut registry.tables.iter().map(|table| table.name.to_owned())),
            routes: names(
                &mut registry.routes.iter().map(|route| route_name(route.method.as_str(), route.path)),
            ),
            pages: names(&mut registry.pages.iter().map(|page| page.name.to_owned())),
            assets: names(&mut registry.assets.iter().map(|asset| asset.path.to_owned())),
            verbs: names(&mut registry.verbs.iter().map(|known| verb(known.noun, known.name))),
            settings: names(&mut settings.iter().map(Setting::path)),
            metrics: names(&mut series.map(|series| series.name.to_owned())),
            figures: names(&mut figures.map(|(name, _)| (*name).to_owned())),
            checks: names(&mut registry.checks.iter().map(|check| check.name.to_owned())),
            cleanup: names(&mut registry.cleanup.iter().map(|task| task.name.to_owned())),
        }
    }

    fn lists(&self) -> [(&'static str, &[String]); 15] {
        [
            ("queue", &self.queues),
            ("kind", &self.kinds),
            ("schedule", &self.schedules),
            ("budget", &self.budgets),
            ("entity type", &self.types),
            ("table", &self.tables),
            ("route", &self.routes),
            ("page", &self.pages),
            ("asset", &self.assets),
            ("verb", &self.verbs),
            ("configuration key", &self.settings),
            ("metric", &self.metrics),
            ("figure", &self.figures),
            ("health check", &self.checks),
            ("cleanup task", &self.cleanup),
        ]
    }
}

/// Routes that differ only in parameter names match the same requests.
pub fn route_name(method: &str, path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
    format!("{method} {}", parts.collect::<Vec<_>>().join("/"))
}

/// Every name that is registered twice, by two owners or by one.
pub fn clashes(owners: &[Inventory], invalid: &mut Invalid) {
    let mut taken: HashMap<(&'static str, &str), &str> = HashMap::new();
    for inventory in owners {
        for (what, names) in inventory.lists() {
            for name in names {
                match taken.insert((what, name), &inventory.owner) {
                    Some(other) if other == inventory.owner => {
                        invalid.add(format!("{what} `{name}`"), format!("{other} registers it twice"));
                    }
                    Some(other) => {
                        let rule = format!("{other} and {} both register it", inventory.owner);
                        invalid.add(format!("{what} `{name}`"), rule);
                    }
                    None => {}
                }
            }
        }
    }
    // A verb without a name takes the whole noun: next to `jobs`, there can be no `jobs archive`.
    for inventory in owners {
        for name in &inventory.verbs {
            let noun = name.split_once(' ').map(|(noun, _)| noun);
            let owner = noun.and_then(|noun| taken.get(&("verb", noun)));
            if let Some(owner) = owner.filter(|owner| **owner != inventory.owner) {
                invalid.add(format!("verb `{name}`"), format!("its noun belongs to {owner}"));
            }
        }
    }
}
