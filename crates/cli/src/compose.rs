//! The composition root: opens a store from an address, and lists the parts. The only module that names all of them.
//!
//! Owns parsing and displaying database addresses. Never prints a password: an address displays it as `***`.

mod scratch;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use windlass::parts::{EnginePart, Tryout};
use windlass_core::{Store, StoreError};
use windlass_index::IndexPack;
use windlass_pack::settings::Settings;
use windlass_pack::{Assembly, Inventory, Pack};
use windlass_store_postgres::PostgresStore;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

use crate::config::{Database, own_paths};
use crate::failure::Failure;
use crate::parts::backup::BackupPart;
pub(crate) use scratch::Scratch;

/// All parts of this binary.
pub(crate) struct Parts {
    pub(crate) packs: Vec<Arc<dyn Pack>>,
    backup: Arc<BackupPart>,
    index: Arc<IndexPack>,
    more: Vec<Arc<dyn Pack>>,
}

impl Parts {
    /// The built-in parts, and `more`. `abort` adds the kind that kills its process.
    pub(crate) fn new(abort: bool, more: &[Arc<dyn Pack>]) -> Parts {
        let (backup, index) = (Arc::new(BackupPart::default()), Arc::new(IndexPack::default()));
        let mut packs: Vec<Arc<dyn Pack>> =
            vec![Arc::new(EnginePart::default()), Arc::new(Tryout { abort }), backup.clone(), index.clone()];
        packs.extend(more.iter().cloned());
        Parts { packs, backup, index, more: more.to_vec() }
    }

    /// The same parts with every kind they can have and default values: what the configuration may refer to.
    pub(crate) fn described(&self) -> Result<Assembly, Failure> {
        Parts::new(true, &self.more).assemble(Settings::default())
    }

    /// For `demo` and `bench`, which are built on the index.
    pub(crate) fn index(&self) -> &IndexPack {
        &self.index
    }

    /// Tells the parts that need it which database this process uses.
    pub(crate) fn run_on(&self, database: &Database) {
        self.backup.of(database);
    }

    /// The parts with these values, checked against each other and the binary.
    pub(crate) fn assemble(&self, settings: Settings) -> Result<Assembly, Failure> {
        let mut own = Inventory::of("the command");
        own.settings = own_paths();
        own.verbs = crate::args::own_verbs();
        let taken = vec![windlass_http::inventory(), own];
        Assembly::new(&self.packs, settings, taken)
            .map_err(|clashes| Failure::new("the parts of this binary do not fit together", clashes))
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Address, String> {
        let known = "write sqlite://PATH or postgres://USER@HOST/DATABASE";
        let Some((scheme, rest)) = url.trim().split_once("://") else {
            return Err(format!("the address has no scheme; {known}"));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "sqlite" if rest.is_empty() => Err("the address names no file; write sqlite://PATH".to_owned()),
            "sqlite" => Ok(Address::Sqlite(PathBuf::from(rest))),
            "postgres" | "postgresql" => Ok(Address::Postgres(url.trim().to_owned())),
            other => {
                let other = windlass_core::input::shown(other);
                Err(format!("`{other}` is not a database this binary can use; {known}"))
            }
        }
    }

    /// Sets the Postgres schema unless the address names one. SQLite has one set of tables per file.
    pub(crate) fn with_schema(self, schema: &str) -> Address {
        match self {
            Address::Postgres(url) if !url.contains("schema=") => {
                let joint = if url.contains('?') { '&' } else { '?' };
                Address::Postgres(format!("{url}{joint}schema={schema}"))
            }
            other => other,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Address::Postgres(url) => f.write_str(&masked(url)),
        }
    }
}

/// Masked here too, because an address may be logged with `Debug`.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A password may contain any character. So everything between the first `:` and the last `@` is hidden, and every
/// parameter whose name mentions a password. Hiding too much is better than too little.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let rest = match (rest.split_once(':'), rest.rsplit_once('@')) {
        (Some((user, _)), Some((before, host))) if user.len() < before.len() => format!("{user}:***@{host}"),
        _ => rest.to_owned(),
    };
    let Some((base, query)) = rest.split_once('?') else { return format!("{scheme}://{rest}") };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("pass") => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{scheme}://{base}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// The newest schema version this binary knows for such a database, without opening it.
pub(crate) fn newest_schema(database: &Database) -> i64 {
    match &database.address {
        Address::Sqlite(_) => SqliteStore::newest_schema(),
        Address::Postgres(_) => PostgresStore::newest_schema(),
    }
}

/// Opens the store. Creates a missing SQLite file only with `create`.
pub(crate) async fn open(database: &Database, create: bool) -> Result<Arc<dyn Store>, StoreError> {
    match &database.address {
        Address::Sqlite(path) => {
            let statement_timeout = database.statement_timeout;
            let options = SqliteOptions { create, statement_timeout, ..SqliteOptions::default() };
            Ok(Arc::new(SqliteStore::open(path, options)?))
        }
        Address::Postgres(url) => {
            Ok(Arc::new(PostgresStore::connect(url, postgres_options(database)).await?))
        }
    }
}

fn postgres_options(database: &Database) -> windlass_store_postgres::Options {
    windlass_store_postgres::Options {
        pool_size: database.pool,
        notify: database.notify,
        pooler: database.pooler,
        acquire_timeout: database.acquire_timeout,
        statement_timeout: database.statement_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for (url, shown) in [
            ("postgres://me:hush@db/app", "postgres://me:***@db/app"),
            ("postgres://me:a@b/c:d@db:5432/app?schema=x", "postgres://me:***@db:5432/app?schema=x"),
            ("postgres://me@db/app?password=hush&a=b", "postgres://me@db/app?password=***&a=b"),
            ("postgresql://db/app", "postgresql://db/app"),
            ("postgres://me:hu?sh=hush@db/app", "postgres://me:***@db/app"),
            ("postgres://db:5432/app?password=hush@x&a=b", "postgres://db:***@x&a=b"),
            ("postgres://db/app?password=a:hush@x&a=b", "postgres://db/app?password=***&a=b"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert!(!format!("{address:?}").contains("hush"));
        }
    }

    #[test]
    fn unknown_schemes_and_empty_paths_are_refused() {
        for url in ["mysql://h/d", "windlass.db", "sqlite://", ""] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        assert!(Address::parse("mysql://me:hush@h/d").unwrap_err().contains("`mysql`"));
    }

    #[test]
    fn the_schema_of_the_address_wins() {
        let with = |url: &str| match Address::parse(url).unwrap().with_schema("mine") {
            Address::Postgres(url) => url,
            Address::Sqlite(path) => path.display().to_string(),
        };
        assert_eq!(with("postgres://h/d"), "postgres://h/d?schema=mine");
        assert_eq!(with("postgres://h/d?a=b"), "postgres://h/d?a=b&schema=mine");
        assert_eq!(with("postgres://h/d?schema=x"), "postgres://h/d?schema=x");
        assert_eq!(with("sqlite://a.db"), "a.db");
    }
}
