//! Kinds in the configuration, and how they combine with the kinds of this binary.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::kind::{DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT};
use windlass_core::limit::{LimitValues, Limited, PERMITS};
use windlass_core::{Backoff, Invalid, KindSpec, QueueSpec, Resource};
use windlass_pack::settings::SettingValue as Value;

use super::keys::KIND;
use super::raw::{Origin, RawConfig};

/// Applies to all kinds without their own value; no kind can have this name.
pub(crate) const EVERY: &str = "*";

/// Keys that cannot be set for all kinds.
const OF_ONE: [&str; 4] = ["queue", "rate", "resource", PERMITS];

#[derive(Debug, Default)]
pub(crate) struct KindSettings {
    every: Setting,
    named: BTreeMap<String, Setting>,
}

#[derive(Clone, Debug, Default)]
struct Setting {
    queue: Option<String>,
    priority: Option<u8>,
    max_attempts: Option<u16>,
    timeout: Option<Option<Duration>>,
    backoff_base: Option<Duration>,
    backoff_cap: Option<Duration>,
    resource: Option<Option<String>>,
    limits: LimitValues,
    at_most_once: Option<bool>,
    description: Option<String>,
}

impl KindSettings {
    /// `carried` are the kinds of this binary's parts.
    pub(super) fn resolve(raw: &mut RawConfig, queues: &[QueueSpec], carried: &[KindSpec]) -> KindSettings {
        let mut settings = KindSettings::default();
        for name in raw.names(KIND) {
            let mut setting = read(raw, &name);
            let place = place(raw, &name);
            if name == EVERY {
                for key in OF_ONE {
                    if raw.get(KIND, Some(&name), key).is_none() {
                        continue;
                    }
                    let text = format!("kinds.\"*\".{key}: it belongs to one kind; name the kind");
                    raw.problem(at(raw, &name, key), text);
                }
                settings.every = setting;
                continue;
            }
            let permits_at = at(raw, &name, PERMITS);
            let ours = carried.iter().find(|kind| kind.name.eq_ignore_ascii_case(&name));
            let name = ours.map_or(name, |kind| kind.name.clone());
            check_name(raw, &place, &name);
            check_queue(raw, &place, &name, &mut setting, queues, ours);
            if setting.limits.contains_key(PERMITS) && !matches!(setting.resource, Some(Some(_))) {
                let text = format!("kinds.{name}.permits: needs kinds.{name}.resource: permits of what?");
                raw.problem(permits_at, text);
            }
            settings.named.insert(name, setting);
        }
        settings
    }

    /// The kinds of this binary and of the configuration, with configured values.
    pub(crate) fn apply(&self, carried: Vec<KindSpec>) -> Vec<KindSpec> {
        let mut kinds = carried;
        for (name, setting) in &self.named {
            if let Some(queue) = &setting.queue
                && !kinds.iter().any(|kind| kind.name == *name)
            {
                kinds.push(KindSpec::new(name, queue));
            }
        }
        for kind in &mut kinds {
            let own = self.named.get(&kind.name).cloned().unwrap_or_default();
            own.apply(kind, &self.every);
        }
        kinds
    }
}

impl Setting {
    /// A value for all kinds yields to one of the kind itself or of the code.
    fn apply(self, kind: &mut KindSpec, every: &Setting) {
        let usual = Backoff::default();
        let unless = |own: bool, value: Option<Duration>| if own { value } else { None };
        if let Some(priority) = self.priority.or(every.priority.filter(|_| kind.priority.is_none())) {
            kind.priority = Some(priority);
        }
        let attempts = every.max_attempts.filter(|_| kind.max_attempts == DEFAULT_MAX_ATTEMPTS);
        if let Some(attempts) = self.max_attempts.or(attempts) {
            kind.max_attempts = attempts;
        }
        let timeout = every.timeout.filter(|_| kind.timeout == Some(DEFAULT_TIMEOUT));
        if let Some(timeout) = self.timeout.or(timeout) {
            kind.timeout = timeout;
        }
        let base = unless(kind.backoff.base == usual.base, every.backoff_base);
        if let Some(base) = self.backoff_base.or(base) {
            kind.backoff.base = base;
        }
        let cap = unless(kind.backoff.cap == usual.cap, every.backoff_cap);
        if let Some(cap) = self.backoff_cap.or(cap) {
            kind.backoff.cap = cap;
        }
        if let Some(resource) = self.resource {
            kind.resource = resource.map(|name| Resource { name, permits: None });
        }
        let plain = KindSpec::new(&kind.name, &kind.queue);
        for limit in KindSpec::limits() {
            let usual = kind.limit(limit.name) == plain.limit(limit.name);
            let every = every.limits.get(limit.name).filter(|_| usual);
            if let Some(value) = self.limits.get(limit.name).or(every) {
                kind.set_limit(limit.name, *value);
            }
        }
        if let Some(at_most_once) = self.at_most_once {
            kind.at_most_once = at_most_once;
        }
        if let Some(description) = self.description {
            kind.description = description;
        }
    }
}

fn read(raw: &RawConfig, name: &str) -> Setting {
    let configured = |key| raw.get(KIND, Some(name), key).map(|(value, _)| value.clone());
    let count = |key| match configured(key) {
        Some(Value::Count(count)) => Some(count),
        _ => None,
    };
    let duration = |key| match configured(key) {
        Some(Value::Duration(duration)) => Some(duration),
        _ => None,
    };
    let text = |key| match configured(key) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    Setting {
        queue: text("queue"),
        priority: count("priority").and_then(|count| u8::try_from(count).ok()),
        max_attempts: count("max_attempts").and_then(|count| u16::try_from(count).ok()),
        timeout: match configured("timeout") {
            Some(Value::Nothing) => Some(None),
            _ => duration("timeout").map(Some),
        },
        backoff_base: duration("backoff_base"),
        backoff_cap: duration("backoff_cap"),
        resource: match configured("resource") {
            Some(Value::Nothing) => Some(None),
            _ => text("resource").map(Some),
        },
        limits: KindSpec::limits().filter_map(|of| Some((of.name, configured(of.name)?.limit()))).collect(),
        at_most_once: match configured("at_most_once") {
            Some(Value::Flag(flag)) => Some(flag),
            _ => None,
        },
        description: text("description"),
    }
}

fn place(raw: &RawConfig, name: &str) -> Origin {
    raw.keys
        .in_section(KIND)
        .find_map(|key| raw.get(KIND, Some(name), key.name))
        .map_or(Origin::Default, |(_, origin)| origin.clone())
}

fn at(raw: &RawConfig, name: &str, key: &'static str) -> Origin {
    raw.get(KIND, Some(name), key).map_or(Origin::Default, |(_, origin)| origin.clone())
}

fn check_name(raw: &mut RawConfig, place: &Origin, name: &str) {
    let mut invalid = Invalid::default();
    invalid.check_name("kinds", name);
    for problem in invalid.problems {
        raw.problem(place.clone(), format!("{}: {}", problem.field, problem.rule));
    }
}

/// A new kind needs a known queue; a built-in one keeps its queue.
fn check_queue(
    raw: &mut RawConfig,
    place: &Origin,
    name: &str,
    setting: &mut Setting,
    queues: &[QueueSpec],
    ours: Option<&KindSpec>,
) {
    let Some(wanted) = &setting.queue else {
        if ours.is_none() {
            let text = format!("kinds.{name}: a kind this binary does not carry needs `queue`");
            raw.problem(place.clone(), text);
        }
        return;
    };
    let Some(queue) = queues.iter().find(|queue| queue.name.eq_ignore_ascii_case(wanted)) else {
        let known: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let text = format!("kinds.{name}.queue: `{wanted}` is not a queue; known: {}", known.join(", "));
        return raw.problem(place.clone(), text);
    };
    if let Some(ours) = ours.filter(|ours| ours.queue != queue.name) {
        let text = format!("kinds.{name}.queue: it belongs to {} and cannot move", ours.queue);
        raw.problem(place.clone(), text);
    }
    setting.queue = Some(queue.name.clone());
}
