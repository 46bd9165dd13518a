//! The configuration, resolved once: file, then variables, then options.
//!
//! Owns [`Config`], which contains only validated values. Nothing else in the program reads the environment or the
//! file. Reports all problems at once.

mod budgets;
mod environment;
mod init;
mod keys;
mod kinds;
mod raw;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_core::limit::{LimitOwner, Limited, NONE};
use windlass_core::scale::Bounds;
use windlass_core::store::Live;
use windlass_core::{BudgetSpec, Invalid, KindSpec, QueueSpec, Resource};
use windlass_pack::settings::{Section, Setting, SettingValue as Value, Settings};
use windlass_pack::{Pack, settings_of};

use crate::compose::{Address, Parts};
use crate::failure::Failure;
pub(crate) use environment::Environment;
pub(crate) use init::template;
use keys::{DATABASE, QUEUE, SERVER};
pub(crate) use keys::{Keys, own_paths};
pub(crate) use kinds::KindSettings;
use raw::{Origin, RawConfig};

pub(crate) const FILE: &str = "windlass.toml";

/// What the configuration can refer to in the parts: their queues, kinds and keys.
#[derive(Default)]
struct Carried {
    queues: Vec<QueueSpec>,
    kinds: Vec<KindSpec>,
    packs: Vec<std::sync::Arc<dyn Pack>>,
}

impl Carried {
    fn of(parts: &Parts) -> Result<Carried, Failure> {
        let described = parts.described()?;
        let queues = described.queues();
        Ok(Carried { queues, kinds: described.kinds(), packs: parts.packs.clone() })
    }
}

/// Configuration from the command line.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) file: Option<PathBuf>,
    pub(crate) database: Option<String>,
    pub(crate) lease: Option<String>,
    pub(crate) bind: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) database: Database,
    /// Those of the parts and those added by the configuration.
    pub(crate) queues: Vec<QueueSpec>,
    pub(crate) kinds: KindSettings,
    pub(crate) budgets: Vec<BudgetSpec>,
    /// The values of the parts' keys.
    pub(crate) settings: Settings,
    /// All effective values and their origin, for `config show`.
    pub(crate) shown: Vec<Shown>,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) bind: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) data: PathBuf,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
    pub(crate) poll: Duration,
    pub(crate) prefetch: u32,
    pub(crate) quarantine: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) address: Address,
    /// No database was named: `address` is the one in the data folder.
    pub(crate) is_default: bool,
    pub(crate) pool: u32,
    pub(crate) notify: bool,
    pub(crate) pooler: bool,
    pub(crate) acquire_timeout: Duration,
    pub(crate) statement_timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) path: String,
    pub(crate) value: String,
    pub(crate) origin: String,
}

impl Config {
    pub(crate) fn load(flags: &Flags, environment: &Environment, parts: &Parts) -> Result<Config, Failure> {
        let carried = Carried::of(parts)?;
        let names = carried.queues.iter().map(|queue| queue.name.clone()).collect();
        let mut raw = RawConfig::new(Keys::with(settings_of(&parts.packs)), names);
        read_file(&mut raw, flags.file.as_deref())?;
        let url = raw.keys.find(DATABASE, "url").cloned();
        if let (Some(key), Some(text)) = (&url, environment.get("DATABASE_URL")) {
            raw.set_text(key, None, &text, Origin::Variable("DATABASE_URL".to_owned()));
        }
        for (name, path, value) in environment.configuration() {
            raw.read_variable(name, &path, value);
        }
        let configured = [
            (url, &flags.database, "--database"),
            (raw.keys.find(SERVER, "lease").cloned(), &flags.lease, "--lease"),
            (raw.keys.find(SERVER, "bind").cloned(), &flags.bind, "--bind"),
        ];
        for (key, text, flag) in configured {
            if let (Some(key), Some(text)) = (key, text) {
                raw.set_text(&key, None, text, Origin::Flag(flag));
            }
        }
        Resolver { raw, carried }.config().map_err(|problems| failure(&problems))
    }

    /// Switches to another database than the one in the data folder, with the reason.
    pub(crate) fn adopt(&mut self, address: Address, why: String) {
        if let Some(shown) = self.shown.iter_mut().find(|shown| shown.path == "database.url") {
            (shown.value, shown.origin) = (address.to_string(), why);
        }
        self.database.address = address;
        self.database.is_default = false;
    }
}

fn read_file(raw: &mut RawConfig, named: Option<&Path>) -> Result<(), Failure> {
    let path = named.unwrap_or(Path::new(FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => {
            raw.read_file(&path.display().to_string(), &text);
            Ok(())
        }
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot read the configuration {}", path.display()), error)
            .hint("check the path and its permissions; `windlass config init` writes a new file")),
    }
}

fn failure(problems: &[raw::Problem]) -> Failure {
    let mut why = match problems.len() {
        1 => "one problem".to_owned(),
        n => format!("{n} problems"),
    };
    for problem in problems {
        why.push_str(&format!("\n  {}: {}", problem.place, problem.text));
    }
    let what = "the configuration cannot be used";
    // A problem on the command line is wrong usage; one in a file or variable is not.
    if problems.iter().all(|problem| matches!(problem.place, Origin::Flag(_))) {
        return Failure::usage(what, why);
    }
    Failure::new(what, why)
        .hint("`windlass config init` writes a file with every key; docs/config.md explains each")
}

/// Combines parsed values into a consistent configuration.
struct Resolver {
    raw: RawConfig,
    carried: Carried,
}

impl Resolver {
    fn config(mut self) -> Result<Config, Vec<raw::Problem>> {
        self.raw.refuse_empty();
        let server = self.server();
        let database = self.database(&server.data);
        let queues = self.queues();
        let kinds = KindSettings::resolve(&mut self.raw, &queues, &self.carried.kinds);
        let budgets = budgets::resolve(&mut self.raw);
        let settings = self.settings();
        match database {
            Some(database) if self.raw.problems.is_empty() => {
                let shown = self.shown(&database, &queues);
                Ok(Config { server, database, queues, kinds, budgets, settings, shown })
            }
            _ => Err(self.raw.problems),
        }
    }

    /// The parts' keys; each part checks its values against each other.
    fn settings(&mut self) -> Settings {
        let settings = self.raw.settings();
        for pack in &self.carried.packs {
            for problem in pack.check(&settings).problems {
                let place = self.raw.place_of(&problem.field);
                self.raw.problem(place, format!("{}: {}", problem.field, problem.rule));
            }
        }
        settings
    }

    fn server(&mut self) -> Server {
        Server {
            bind: self.bind(),
            public_url: self.public_url(),
            allowed_hosts: self.allowed_hosts(),
            data: PathBuf::from(self.text(SERVER, "data")),
            lease: self.duration(SERVER, "lease"),
            grace: self.duration(SERVER, "grace"),
            poll: self.duration(SERVER, "poll"),
            prefetch: u32::try_from(self.count(SERVER, "prefetch")).unwrap_or(u32::MAX),
            quarantine: self.duration(SERVER, "quarantine"),
        }
    }

    /// Address and port; `localhost` is the loopback address.
    fn bind(&mut self) -> SocketAddr {
        let text = self.text(SERVER, "bind");
        let named = match text.trim().strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.trim().to_owned(),
        };
        named.parse().unwrap_or_else(|_| {
            let origin = self.raw.get(SERVER, None, "bind").map(|(_, origin)| origin.clone());
            let text = windlass_core::input::shown(&text);
            let rule = format!("server.bind: must be ADDRESS:PORT such as 127.0.0.1:8080, not `{text}`");
            self.raw.problem(origin.unwrap_or(Origin::Default), rule);
            SocketAddr::from(([127, 0, 0, 1], 8080))
        })
    }

    /// Only scheme and host: pages and routes are at the root.
    fn public_url(&mut self) -> Option<String> {
        let (value, origin) = self.raw.get(SERVER, None, "public_url").cloned()?;
        let text = value.to_string();
        if text == NONE {
            return None;
        }
        let bare = text.trim().trim_end_matches('/');
        let host = bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://"));
        if host.is_some_and(is_host) {
            return Some(bare.to_owned());
        }
        let text = windlass_core::input::shown(&text);
        let rule =
            format!("server.public_url: must be like https://jobs.example, without a path, not `{text}`");
        self.raw.problem(origin, rule);
        None
    }

    fn allowed_hosts(&mut self) -> Vec<String> {
        let Some((value, origin)) = self.raw.get(SERVER, None, "allowed_hosts").cloned() else {
            return Vec::new();
        };
        let text = value.to_string();
        let hosts = text.split(',').map(str::trim).filter(|host| *host != NONE);
        let (good, bad): (Vec<&str>, Vec<&str>) = hosts.partition(|host| is_host(host));
        for host in bad {
            let host = windlass_core::input::shown(host);
            let rule = format!("server.allowed_hosts: must be names such as jobs.example:8443, not `{host}`");
            self.raw.problem(origin.clone(), rule);
        }
        good.into_iter().map(str::to_owned).collect()
    }

    fn database(&mut self, data: &Path) -> Option<Database> {
        let configured = self.raw.get(DATABASE, None, "url").cloned();
        let schema = self.raw.get(DATABASE, None, "schema").cloned();
        let is_default = configured.is_none();
        let address = match configured {
            Some((url, origin)) => match Address::parse(&url.to_string()) {
                Ok(address) => address,
                Err(why) => {
                    self.raw.problem(origin, format!("database.url: {why}"));
                    return None;
                }
            },
            None => Address::Sqlite(data.join("windlass.db")),
        };
        Some(Database {
            address: match schema {
                Some((schema, _)) => address.with_schema(&schema.to_string()),
                None => address,
            },
            is_default,
            pool: u32::try_from(self.count(DATABASE, "pool")).unwrap_or(u32::MAX),
            notify: self.value(DATABASE, "notify") == Value::Flag(true),
            pooler: self.value(DATABASE, "pooler") == Value::Flag(true),
            acquire_timeout: self.duration(DATABASE, "acquire_timeout"),
            statement_timeout: self.duration(DATABASE, "statement_timeout"),
        })
    }

    fn queues(&mut self) -> Vec<QueueSpec> {
        let mut queues = self.carried.queues.clone();
        for name in self.raw.names(QUEUE) {
            if !queues.iter().any(|queue| queue.name == name) {
                self.check_name(QUEUE, &name);
                queues.push(QueueSpec::named(&name));
            }
        }
        for queue in &mut queues {
            self.queue_limits(queue);
            let name = queue.name.clone();
            let configured = |key| self.raw.get(QUEUE, Some(&name), key).map(|(value, _)| value);
            set_count(configured("priority"), &mut queue.priority);
            if let Some(Value::Duration(cadence)) = configured("cadence") {
                queue.cadence = *cadence;
            }
            match configured("sla") {
                Some(Value::Duration(sla)) => queue.sla = Some(*sla),
                Some(Value::Nothing) => queue.sla = None,
                _ => {}
            }
            for (key, field) in [("owner", &mut queue.owner), ("colour", &mut queue.colour)] {
                if let Some(Value::Text(text)) = configured(key) {
                    *field = text.clone();
                }
            }
        }
        queues
    }

    /// Resource and limits. Permits need a resource, and bounds need a concurrency.
    fn queue_limits(&mut self, queue: &mut QueueSpec) {
        let name = queue.name.clone();
        match self.raw.get(QUEUE, Some(&name), "resource") {
            Some((Value::Text(resource), _)) => {
                queue.resource = Some(Resource { name: resource.clone(), permits: None });
            }
            Some((Value::Nothing, _)) => queue.resource = None,
            _ => {}
        }
        for limit in QueueSpec::limits() {
            let Some((value, origin)) = self.raw.get(QUEUE, Some(&name), limit.name).cloned() else {
                continue;
            };
            if limit.owner == LimitOwner::Resource && queue.resource.is_none() {
                let key = limit.name;
                let text = format!("queues.{name}.{key}: needs queues.{name}.resource: {key} of what?");
                self.raw.problem(origin, text);
                continue;
            }
            queue.set_limit(limit.name, value.limit());
        }
        self.queue_bounds(queue);
    }

    /// Both bounds, even if only one is configured.
    fn queue_bounds(&mut self, queue: &mut QueueSpec) {
        let configured = |key| match self.raw.get(QUEUE, Some(&queue.name), key) {
            Some((Value::Count(count), origin)) => Some((u32::try_from(*count).ok(), origin.clone())),
            _ => None,
        };
        let (min, max) = (configured("concurrency_min"), configured("concurrency_max"));
        let bound = |configured: &Option<(Option<u32>, Origin)>| {
            configured.as_ref().map(|(bound, _)| Live::Set(*bound))
        };
        match Bounds::change((queue.concurrency, None), None, bound(&min), bound(&max)) {
            Ok(bounds) => queue.bounds = bounds.and_then(Live::set).flatten(),
            Err((_, why)) => {
                let at = max.or(min).map_or(Origin::Default, |(_, origin)| origin);
                self.raw.problem(at, format!("queues.{}.concurrency: {why}", queue.name));
            }
        }
    }

    fn check_name(&mut self, section: Section, name: &str) {
        let mut invalid = Invalid::default();
        invalid.check_name(section.word, name);
        let place = self
            .raw
            .keys
            .in_section(section)
            .find_map(|key| self.raw.get(section, Some(name), key.name))
            .map_or(Origin::Default, |(_, origin)| origin.clone());
        for problem in invalid.problems {
            self.raw.problem(place.clone(), format!("{}: {}", problem.field, problem.rule));
        }
    }

    /// The configured value, else the default from the list of keys.
    fn value(&self, section: Section, name: &'static str) -> Value {
        match self.raw.get(section, None, name) {
            Some((value, _)) => value.clone(),
            None => self.raw.keys.find(section, name).map_or(Value::Nothing, default_value),
        }
    }

    fn duration(&self, section: Section, name: &'static str) -> Duration {
        match self.value(section, name) {
            Value::Duration(duration) => duration,
            _ => Duration::ZERO,
        }
    }

    fn count(&self, section: Section, name: &'static str) -> u64 {
        match self.value(section, name) {
            Value::Count(count) => count,
            _ => 0,
        }
    }

    fn text(&self, section: Section, name: &'static str) -> String {
        self.value(section, name).to_string()
    }

    fn shown(&self, database: &Database, queues: &[QueueSpec]) -> Vec<Shown> {
        let mut shown = Vec::new();
        for key in self.raw.keys.iter().filter(|key| key.section.named.is_none()) {
            let value = match (key.section, key.name) {
                // The value in use, without its password.
                (DATABASE, "url") => database.address.to_string(),
                _ => self.text(key.section, key.name),
            };
            shown.push(Shown { path: key.path(), value, origin: self.origin(key, None) });
        }
        for queue in queues {
            for key in self.raw.keys.in_section(QUEUE) {
                let path = format!("queues.{}.{}", queue.name, key.name);
                let value = queue_figure(queue, key.name);
                shown.push(Shown { path, value, origin: self.origin(key, Some(&queue.name)) });
            }
        }
        let named = self.raw.keys.sections().into_iter().filter(|section| section.named.is_some());
        for section in named.filter(|section| *section != QUEUE) {
            for name in self.raw.names(section) {
                for key in self.raw.keys.in_section(section) {
                    if let Some((value, origin)) = self.raw.get(section, Some(&name), key.name) {
                        let path = format!("{}.{name}.{}", section.word, key.name);
                        shown.push(Shown { path, value: value.to_string(), origin: origin.to_string() });
                    }
                }
            }
        }
        shown
    }

    fn origin(&self, key: &Setting, name: Option<&str>) -> String {
        let configured = self.raw.get(key.section, name, key.name);
        configured.map_or(Origin::Default, |(_, origin)| origin.clone()).to_string()
    }
}

fn default_value(key: &Setting) -> Value {
    key.form.parse(key.default).unwrap_or(Value::Nothing)
}

fn set_count<T: TryFrom<u64>>(configured: Option<&Value>, field: &mut T) {
    if let Some(Value::Count(count)) = configured
        && let Ok(count) = T::try_from(*count)
    {
        *field = count;
    }
}

fn queue_figure(queue: &QueueSpec, key: &str) -> String {
    use windlass_core::duration::format;
    match key {
        "priority" => queue.priority.to_string(),
        "resource" => queue.resource.as_ref().map_or("none", |resource| &resource.name).to_owned(),
        "cadence" => format(queue.cadence),
        "sla" => queue.sla.map_or("none".to_owned(), format),
        "owner" => queue.owner.clone(),
        "colour" => queue.colour.clone(),
        // These apply without bounds or permits.
        "concurrency_min" | "concurrency_max" if queue.bounds.is_none() => queue.concurrency.to_string(),
        "permits" if queue.resource.is_none() => String::new(),
        "permits" => queue.limit(key).map_or("1".to_owned(), |permits| permits.to_string()),
        limit => queue.limit(limit).map_or(NONE.to_owned(), |value| value.to_string()),
    }
}

/// A name or an address, with or without a port.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}
