//! The schema and the tables of packs, as numbered steps up and down.
//!
//! Owns: the list of migrations, the tables that record them with their checksums, and the check that this binary
//! fits the file. Each step is one transaction of the writer, so two processes may start at once. Never edits a
//! step after its release: its checksum would no longer match.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use windlass_core::migration::{Applied, Step, Steps};
use windlass_core::pack::{self, PackMigration, PackStep, SqlText};
use windlass_core::statement::{Dialect, render};
use windlass_core::store::{Migration, PackStore};
use windlass_core::{StoreError, Time};

use crate::SqliteStore;
use crate::error::Answer;
use crate::scope::Scope;
use crate::sql::of_pack;

const OP: &str = "migrate";

/// A step is named after its file, without the number.
macro_rules! step {
    ($version:literal, $file:literal) => {
        Step {
            version: $version,
            name: $file.split_at(5).1,
            up: include_str!(concat!("schema/", $file, ".up.sql")),
            down: include_str!(concat!("schema/", $file, ".down.sql")),
        }
    };
}

pub(crate) const STEPS: &[Step] = &[step!(1, "0001_schema")];

/// The step that creates the table of pack migrations.
const PACKS: i64 = 1;

fn core() -> Steps {
    Steps { pack: None, steps: STEPS.to_vec() }
}

pub(crate) fn newest() -> i64 {
    STEPS.last().map_or(0, |step| step.version)
}

const RECORD: &str = "create table if not exists windlass_migrations (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at integer not null
) strict";

/// Oldest first. Empty when the schema has no record yet; an error for a pack, whose table comes with the schema.
fn applied(connection: &Connection, pack: Option<&str>) -> Answer<Vec<Applied>> {
    let there = "select 1 from sqlite_schema where type = 'table' and name = 'windlass_migrations'";
    if pack.is_none() && connection.query_row(there, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)?, at: Time(row.get(3)?) })
    };
    let rows = match pack {
        None => connection
            .prepare("select version, name, checksum, applied_at from windlass_migrations order by version")?
            .query_map([], read)?
            .collect::<Result<_, _>>()?,
        Some(pack) => connection
            .prepare(
                "select version, name, checksum, applied_at from windlass_pack_migrations where pack = ?1
                 order by version",
            )?
            .query_map([pack], read)?
            .collect::<Result<_, _>>()?,
    };
    Ok(rows)
}

pub(crate) fn check_schema(connection: &Connection) -> Answer<()> {
    Ok(core().check(&applied(connection, None)?)?)
}

/// Applies `step` unless another process was faster.
fn up(scope: &mut Scope<'_>, steps: &Steps, step: &Step) -> Answer<bool> {
    let (connection, pack) = (scope.connection, steps.pack.as_deref());
    if pack.is_none() {
        connection.execute_batch(RECORD)?;
    }
    let applied = applied(connection, pack)?;
    steps.known(&applied)?;
    if applied.iter().any(|row| row.version == step.version) {
        return Ok(false);
    }
    run(connection, steps, step, step.up)?;
    let (version, name, checksum, at) = (step.version, step.name, step.checksum(), scope.now.0);
    match pack {
        None => connection.execute(
            "insert into windlass_migrations (version, name, checksum, applied_at) values (?1, ?2, ?3, ?4)",
            (version, name, checksum, at),
        )?,
        Some(pack) => connection.execute(
            "insert into windlass_pack_migrations (pack, version, name, checksum, applied_at)
             values (?1, ?2, ?3, ?4, ?5)",
            (pack, version, name, checksum, at),
        )?,
    };
    Ok(true)
}

fn down(scope: &mut Scope<'_>, steps: &Steps, step: &Step) -> Answer<bool> {
    let (connection, pack) = (scope.connection, steps.pack.as_deref());
    let applied = applied(connection, pack)?;
    steps.known(&applied)?;
    if !applied.iter().any(|row| row.version == step.version) {
        return Ok(false);
    }
    if pack.is_none() && step.version == PACKS {
        refuse_with_packs(connection)?;
    }
    run(connection, steps, step, step.down)?;
    match pack {
        None => connection.execute("delete from windlass_migrations where version = ?1", [step.version])?,
        Some(pack) => connection.execute(
            "delete from windlass_pack_migrations where pack = ?1 and version = ?2",
            (pack, step.version),
        )?,
    };
    Ok(true)
}

fn run(connection: &Connection, steps: &Steps, step: &Step, text: &str) -> Answer<()> {
    match steps.pack {
        // Our own text is already in this database's dialect.
        None => Ok(connection.execute_batch(text)?),
        Some(_) => connection
            .execute_batch(&render(text, Dialect::Sqlite))
            .map_err(|error| of_pack(OP, &format!("{}: ", steps.name_of(step)), error)),
    }
}

/// Refuses to drop the record of packs while any pack has tables.
fn refuse_with_packs(connection: &Connection) -> Answer<()> {
    if !applied(connection, None)?.iter().any(|row| row.version == PACKS) {
        return Ok(());
    }
    let mut statement =
        connection.prepare("select distinct pack from windlass_pack_migrations order by 1")?;
    let packs: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if packs.is_empty() { Ok(()) } else { Err(StoreError::PacksLeft { packs }.into()) }
}

pub(crate) fn pack_migrations(connection: &Connection) -> Answer<Vec<PackMigration>> {
    let mut statement = connection.prepare(
        "select pack, version, name, applied_at from windlass_pack_migrations order by pack, version",
    )?;
    let rows = statement.query_map([], |row| {
        let applied_at = Time(row.get(3)?);
        Ok(PackMigration { pack: row.get(0)?, version: row.get(1)?, name: row.get(2)?, applied_at })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl SqliteStore {
    /// The newest version of the schema that this binary knows.
    pub fn newest_schema() -> i64 {
        newest()
    }

    pub(crate) async fn migrations(&self) -> Result<Vec<Migration>, StoreError> {
        self.read("list migrations", |connection| Ok(core().list(&applied(connection, None)?))).await
    }

    pub(crate) async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        self.step_up(core(), to).await
    }

    pub(crate) async fn migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError> {
        if to < PACKS {
            // Checked before the first step, so that a refusal leaves the schema unchanged.
            self.read(OP, refuse_with_packs).await?;
        }
        self.step_down(core(), to).await
    }

    async fn step_up(&self, steps: Steps, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        let (mut done, steps) = (Vec::new(), Arc::new(steps));
        for step in steps.steps.iter().copied().filter(|step| to.is_none_or(|to| step.version <= to)) {
            let steps = steps.clone();
            if self.write(OP, 1, move |scope| up(scope, &steps, &step)).await? {
                done.push(step.version);
            }
        }
        Ok(done)
    }

    async fn step_down(&self, steps: Steps, to: i64) -> Result<Vec<i64>, StoreError> {
        let (mut done, steps) = (Vec::new(), Arc::new(steps));
        for step in steps.steps.iter().rev().copied().filter(|step| step.version > to) {
            let steps = steps.clone();
            if self.write(OP, 1, move |scope| down(scope, &steps, &step)).await? {
                done.push(step.version);
            }
        }
        Ok(done)
    }
}

#[async_trait]
impl PackStore for SqliteStore {
    async fn pack_migrations(&self) -> Result<Vec<PackMigration>, StoreError> {
        self.read("list the migrations of packs", pack_migrations).await
    }

    async fn migrate_pack_up(&self, pack: &str, steps: &[PackStep]) -> Result<Vec<i64>, StoreError> {
        self.step_up(pack::steps(pack, steps, SqlText::on_sqlite), None).await
    }

    async fn migrate_pack_down(
        &self,
        pack: &str,
        steps: &[PackStep],
        to: i64,
    ) -> Result<Vec<i64>, StoreError> {
        self.step_down(pack::steps(pack, steps, SqlText::on_sqlite), to).await
    }

    async fn check_pack(&self, pack: &str, steps: &[PackStep]) -> Result<(), StoreError> {
        let steps = pack::steps(pack, steps, SqlText::on_sqlite);
        let check =
            move |connection: &Connection| Ok(steps.check(&applied(connection, steps.pack.as_deref())?)?);
        self.read("check a pack", check).await
    }
}
