//! The schema's migrations: numbered, checked against their checksum, each in its own transaction.
//!
//! Owns the `migrations` table and the order of changes. Several processes may run it at once: they take turns on an
//! advisory lock. Never guesses: a schema that is newer, or a migration that was changed after release, is an error.

use sha2::{Digest, Sha256};
use sqlx::{PgConnection, Row};
use windlass_core::StoreError;
use windlass_core::store::Migration;

use crate::PostgresStore;
use crate::error::{code, failed, translate};
use crate::row::{PgTime, get};

struct Step {
    version: i64,
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

const STEPS: &[Step] = &[
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
];

impl Step {
    fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.up.as_bytes()).to_vec()
    }
}

struct Applied {
    version: i64,
    name: String,
    checksum: Vec<u8>,
    at: windlass_core::Time,
}

const OP: &str = "read the migrations";

impl PostgresStore {
    pub(crate) async fn list_migrations(&self) -> Result<Vec<Migration>, StoreError> {
        let mut conn = self.pool.acquire().await.map_err(failed(OP))?;
        let applied = self.applied(&mut conn).await?;
        let mut all: Vec<Migration> = STEPS
            .iter()
            .map(|step| Migration {
                version: step.version,
                name: step.name.to_owned(),
                applied_at: applied.iter().find(|a| a.version == step.version).map(|a| a.at),
            })
            .collect();
        for newer in applied.into_iter().filter(|a| !STEPS.iter().any(|s| s.version == a.version)) {
            all.push(Migration { version: newer.version, name: newer.name, applied_at: Some(newer.at) });
        }
        Ok(all)
    }

    pub(crate) async fn up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in STEPS.iter().filter(|s| to.is_none_or(|to| s.version <= to)) {
            if self.apply(step).await? {
                done.push(step.version);
            }
        }
        if to.is_none_or(|to| to >= 1) {
            self.ensure_days().await?;
        }
        Ok(done)
    }

    /// One transaction: the lock, a second look, the change, its record.
    async fn apply(&self, step: &Step) -> Result<bool, StoreError> {
        let op = "apply a migration";
        let mut tx = self.pool.begin().await.map_err(failed(op))?;
        self.take_turn(&mut tx).await?;
        let create = format!(
            "create schema if not exists {schema};
             create table if not exists windlass.migrations (
                 version    bigint primary key,
                 name       text not null,
                 checksum   bytea not null,
                 applied_at timestamptz not null
             )",
            schema = self.schema
        );
        sqlx::raw_sql(self.dynamic(&create)).execute(&mut *tx).await.map_err(failed(op))?;
        let applied = self.applied(&mut tx).await?;
        check_known(&applied)?;
        if applied.iter().any(|a| a.version == step.version) {
            tx.commit().await.map_err(failed(op))?;
            return Ok(false);
        }
        sqlx::raw_sql(self.dynamic(step.up)).execute(&mut *tx).await.map_err(failed(op))?;
        sqlx::query(self.sql("insert into windlass.migrations values ($1, $2, $3, statement_timestamp())"))
            .bind(step.version)
            .bind(step.name)
            .bind(step.checksum())
            .execute(&mut *tx)
            .await
            .map_err(failed(op))?;
        tx.commit().await.map_err(failed(op))?;
        Ok(true)
    }

    pub(crate) async fn down(&self, to: i64) -> Result<Vec<i64>, StoreError> {
        let op = "revert a migration";
        let mut done = Vec::new();
        for step in STEPS.iter().rev().filter(|s| s.version > to) {
            let mut tx = self.pool.begin().await.map_err(failed(op))?;
            self.take_turn(&mut tx).await?;
            let applied = self.applied(&mut tx).await?;
            check_known(&applied)?;
            if applied.iter().any(|a| a.version == step.version) {
                sqlx::raw_sql(self.dynamic(step.down)).execute(&mut *tx).await.map_err(failed(op))?;
                sqlx::query(self.sql("delete from windlass.migrations where version = $1"))
                    .bind(step.version)
                    .execute(&mut *tx)
                    .await
                    .map_err(failed(op))?;
                done.push(step.version);
            }
            tx.commit().await.map_err(failed(op))?;
        }
        self.hints.forget();
        Ok(done)
    }

    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let mut conn = self.pool.acquire().await.map_err(failed(OP))?;
        let applied = self.applied(&mut conn).await?;
        check_known(&applied)?;
        let needed = STEPS.last().map_or(0, |s| s.version);
        match applied.last().map_or(0, |a| a.version) {
            0 => Err(StoreError::SchemaMissing),
            found if found < needed => Err(StoreError::SchemaOld { found, needed }),
            _ => Ok(()),
        }
    }

    /// Waits for other migrating processes; a migration may take longer than a statement usually may.
    async fn take_turn(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        let script = format!(
            "set local statement_timeout = '15min';
             select pg_advisory_xact_lock(hashtextextended('windlass migrations {}', 0))",
            self.schema
        );
        sqlx::raw_sql(self.dynamic(&script)).execute(conn).await.map_err(failed("wait to migrate"))?;
        Ok(())
    }

    /// What the database says was applied, oldest first; nothing when there is no table yet.
    async fn applied(&self, conn: &mut PgConnection) -> Result<Vec<Applied>, StoreError> {
        let there = sqlx::query(self.sql("select to_regclass('windlass.migrations') is not null as there"))
            .fetch_one(&mut *conn)
            .await
            .map_err(failed(OP))?;
        if !there.try_get::<bool, _>("there").map_err(|e| translate(OP, e))? {
            return Ok(Vec::new());
        }
        let sql = "select version, name, checksum, applied_at from windlass.migrations order by version";
        let rows = match sqlx::query(self.sql(sql)).fetch_all(conn).await {
            Ok(rows) => rows,
            Err(error) if code(&error) == "42P01" => return Ok(Vec::new()),
            Err(error) => return Err(translate(OP, error)),
        };
        rows.iter()
            .map(|row| {
                Ok(Applied {
                    version: get(row, "version")?,
                    name: get(row, "name")?,
                    checksum: get(row, "checksum")?,
                    at: get::<PgTime>(row, "applied_at")?.0,
                })
            })
            .collect()
    }
}

fn check_known(applied: &[Applied]) -> Result<(), StoreError> {
    let known = STEPS.last().map_or(0, |s| s.version);
    for a in applied {
        match STEPS.iter().find(|s| s.version == a.version) {
            None => return Err(StoreError::SchemaNew { found: a.version, known }),
            Some(step) if step.checksum() != a.checksum => {
                return Err(StoreError::SchemaChanged { version: a.version });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
