//! The schema, in numbered steps up and down.
//!
//! Owns: the list of migrations, the table that records them with their checksums, and the check that this binary
//! and the file fit together. Each step is one transaction of the writer, so two processes may start at once. Never
//! edits a step after its release: the checksum would tell.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use windlass_core::store::Migration;
use windlass_core::{StoreError, Time};

use crate::SqliteStore;
use crate::error::Answer;
use crate::scope::Scope;

pub(crate) struct Step {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
}

pub(crate) const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "jobs",
        up: include_str!("schema/0001_jobs.up.sql"),
        down: include_str!("schema/0001_jobs.down.sql"),
    },
    Step {
        version: 2,
        name: "statistics",
        up: include_str!("schema/0002_statistics.up.sql"),
        down: include_str!("schema/0002_statistics.down.sql"),
    },
    Step {
        version: 3,
        name: "entities",
        up: include_str!("schema/0003_entities.up.sql"),
        down: include_str!("schema/0003_entities.down.sql"),
    },
    Step {
        version: 4,
        name: "entity_keys",
        up: include_str!("schema/0004_entity_keys.up.sql"),
        down: include_str!("schema/0004_entity_keys.down.sql"),
    },
    Step {
        version: 5,
        name: "schedules",
        up: include_str!("schema/0005_schedules.up.sql"),
        down: include_str!("schema/0005_schedules.down.sql"),
    },
    Step {
        version: 6,
        name: "budgets",
        up: include_str!("schema/0006_budgets.up.sql"),
        down: include_str!("schema/0006_budgets.down.sql"),
    },
    Step {
        version: 7,
        name: "lanes",
        up: include_str!("schema/0007_lanes.up.sql"),
        down: include_str!("schema/0007_lanes.down.sql"),
    },
    Step {
        version: 8,
        name: "global_concurrency",
        up: include_str!("schema/0008_global_concurrency.up.sql"),
        down: include_str!("schema/0008_global_concurrency.down.sql"),
    },
    Step {
        version: 9,
        name: "rates",
        up: include_str!("schema/0009_rates.up.sql"),
        down: include_str!("schema/0009_rates.down.sql"),
    },
    Step {
        version: 10,
        name: "workflows",
        up: include_str!("schema/0010_workflows.up.sql"),
        down: include_str!("schema/0010_workflows.down.sql"),
    },
    Step {
        version: 11,
        name: "backups",
        up: include_str!("schema/0011_backups.up.sql"),
        down: include_str!("schema/0011_backups.down.sql"),
    },
    Step {
        version: 12,
        name: "views",
        up: include_str!("schema/0012_views.up.sql"),
        down: include_str!("schema/0012_views.down.sql"),
    },
    Step {
        version: 13,
        name: "unique_windows",
        up: include_str!("schema/0013_unique_windows.up.sql"),
        down: include_str!("schema/0013_unique_windows.down.sql"),
    },
    Step {
        version: 14,
        name: "boost",
        up: include_str!("schema/0014_boost.up.sql"),
        down: include_str!("schema/0014_boost.down.sql"),
    },
    Step {
        version: 15,
        name: "children",
        up: include_str!("schema/0015_children.up.sql"),
        down: include_str!("schema/0015_children.down.sql"),
    },
    Step {
        version: 16,
        name: "live_boost",
        up: include_str!("schema/0016_live_boost.up.sql"),
        down: include_str!("schema/0016_live_boost.down.sql"),
    },
    Step {
        version: 17,
        name: "quick_checks",
        up: include_str!("schema/0017_quick_checks.up.sql"),
        down: include_str!("schema/0017_quick_checks.down.sql"),
    },
    Step {
        version: 18,
        name: "turns",
        up: include_str!("schema/0018_turns.up.sql"),
        down: include_str!("schema/0018_turns.down.sql"),
    },
    Step {
        version: 19,
        name: "offers",
        up: include_str!("schema/0019_offers.up.sql"),
        down: include_str!("schema/0019_offers.down.sql"),
    },
    Step {
        version: 20,
        name: "live_keys",
        up: include_str!("schema/0020_live_keys.up.sql"),
        down: include_str!("schema/0020_live_keys.down.sql"),
    },
    Step {
        version: 21,
        name: "laned",
        up: include_str!("schema/0021_laned.up.sql"),
        down: include_str!("schema/0021_laned.down.sql"),
    },
    Step {
        version: 22,
        name: "lines",
        up: include_str!("schema/0022_lines.up.sql"),
        down: include_str!("schema/0022_lines.down.sql"),
    },
];

pub(crate) fn newest() -> i64 {
    STEPS.last().map_or(0, |step| step.version)
}

const RECORD: &str = "create table if not exists windlass_migrations (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at integer not null
) strict";

fn checksum(step: &Step) -> String {
    let mut hash = Sha256::new();
    hash.update(step.up);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Applied {
    version: i64,
    name: String,
    checksum: String,
    at: Time,
}

fn applied(connection: &Connection) -> Answer<Vec<Applied>> {
    let there = connection
        .query_row(
            "select 1 from sqlite_schema where type = 'table' and name = 'windlass_migrations'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    if there.is_none() {
        return Ok(Vec::new());
    }
    let mut statement = connection
        .prepare("select version, name, checksum, applied_at from windlass_migrations order by version")?;
    let rows = statement.query_map([], |row| {
        Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)?, at: Time(row.get(3)?) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Nothing was changed after release, and nothing is newer than this binary.
fn known(applied: &[Applied]) -> Result<(), StoreError> {
    for row in applied {
        match STEPS.iter().find(|step| step.version == row.version) {
            None => return Err(StoreError::SchemaNew { found: row.version, known: newest() }),
            Some(step) if checksum(step) != row.checksum => {
                return Err(StoreError::SchemaChanged { version: row.version });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn check_schema(connection: &Connection) -> Answer<()> {
    let applied = applied(connection)?;
    let Some(last) = applied.last() else { return Err(StoreError::SchemaMissing.into()) };
    known(&applied)?;
    if last.version < newest() {
        return Err(StoreError::SchemaOld { found: last.version, needed: newest() }.into());
    }
    Ok(())
}

/// Applies `step` unless somebody was faster.
fn up(scope: &mut Scope<'_>, step: &Step) -> Answer<bool> {
    let connection = scope.connection;
    connection.execute_batch(RECORD)?;
    let applied = applied(connection)?;
    known(&applied)?;
    if applied.iter().any(|row| row.version == step.version) {
        return Ok(false);
    }
    connection.execute_batch(step.up)?;
    connection.execute(
        "insert into windlass_migrations (version, name, checksum, applied_at) values (?1, ?2, ?3, ?4)",
        (step.version, step.name, checksum(step), scope.now.0),
    )?;
    Ok(true)
}

fn down(scope: &mut Scope<'_>, step: &Step) -> Answer<bool> {
    let connection = scope.connection;
    let applied = applied(connection)?;
    known(&applied)?;
    if !applied.iter().any(|row| row.version == step.version) {
        return Ok(false);
    }
    connection.execute_batch(step.down)?;
    connection.execute("delete from windlass_migrations where version = ?1", [step.version])?;
    Ok(true)
}

impl SqliteStore {
    pub(crate) async fn migrations(&self) -> Result<Vec<Migration>, StoreError> {
        self.read("list migrations", |connection| {
            let applied = applied(connection)?;
            let mut list: Vec<Migration> = STEPS
                .iter()
                .map(|step| Migration {
                    version: step.version,
                    name: step.name.to_owned(),
                    applied_at: applied.iter().find(|row| row.version == step.version).map(|row| row.at),
                })
                .collect();
            // Steps of a newer binary are shown too.
            list.extend(applied.iter().filter(|row| row.version > newest()).map(|row| Migration {
                version: row.version,
                name: row.name.clone(),
                applied_at: Some(row.at),
            }));
            Ok(list)
        })
        .await
    }

    pub(crate) async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in STEPS.iter().filter(|step| to.is_none_or(|to| step.version <= to)) {
            if self.write("migrate", 1, move |scope| up(scope, step)).await? {
                done.push(step.version);
            }
        }
        Ok(done)
    }

    pub(crate) async fn migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in STEPS.iter().rev().filter(|step| step.version > to) {
            if self.write("migrate", 1, move |scope| down(scope, step)).await? {
                done.push(step.version);
            }
        }
        Ok(done)
    }
}
