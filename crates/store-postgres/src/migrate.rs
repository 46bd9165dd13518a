//! The schema's migrations: numbered, checked against their checksum, each in its own transaction.
//!
//! Owns the `migrations` table and the order of changes. Several processes may run it at once: they take turns on an
//! advisory lock. Never guesses: a schema that is newer, or a migration that was changed after release, is an error.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sqlx::{PgConnection, Row};
use windlass_core::StoreError;
use windlass_core::store::Migration;

use crate::PostgresStore;
use crate::error::{code, failed, is_conflict, is_locked_out, translate};
use crate::row::{PgTime, get};

/// How long a step tries to get at tables that others use. In between it leaves them alone for as long as it waited, but no
/// shorter than this.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(100);

const LOCKED_OUT: &str = "others use its tables without a break for five minutes: end transactions that are open for long \
                          (`select pid, query from pg_stat_activity order by xact_start`), then migrate again";

/// Half of what a session waits before it looks for a deadlock, and half a second at most: whoever waits for the step looks
/// later than it gives way, unless told to be quicker than the server's other sessions.
const GIVE_WAY: &str = "
    select set_config('lock_timeout', greatest(least(setting::bigint / 2, 500), 1)::text, true)
    from pg_settings where name = 'deadlock_timeout'";

struct Step {
    version: i64,
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
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
    pub(crate) async fn migrations(&self) -> Result<Vec<Migration>, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let applied = self.applied(&mut conn).await?;
        conn.commit().await.map_err(failed(OP))?;
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

    pub(crate) async fn migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in STEPS.iter().filter(|s| to.is_none_or(|to| s.version <= to)) {
            if self.insist(step, Way::Up).await.map_err(|error| stopped(error, &done))? {
                done.push(step.version);
            }
        }
        if to.is_none_or(|to| to >= 1) {
            self.ensure_days().await?;
        }
        Ok(done)
    }

    /// A step locks tables in its own order, statements under way in theirs, and a caller's transaction keeps them for as
    /// long as it likes. The step lets go of what it has and begins anew, so that nobody else is ended for it or waits for
    /// longer than it does.
    async fn insist(&self, step: &Step, way: Way) -> Result<bool, StoreError> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let tried = Instant::now();
            let answer = match way {
                Way::Up => self.apply(step).await,
                Way::Down => self.revert(step).await,
            };
            match answer {
                Err(error) if is_conflict(&error) || is_locked_out(&error) => {
                    if begun.elapsed() > PATIENCE {
                        let why = format!("step {}: {LOCKED_OUT}", step.version);
                        return Err(StoreError::Busy { op: "migrate", source: why.into() });
                    }
                    if !std::mem::replace(&mut told, true) {
                        let step = step.version;
                        tracing::warn!(step, "a migration waits for transactions that use its tables");
                    }
                    tokio::time::sleep(tried.elapsed().max(PAUSE)).await;
                }
                answer => return answer,
            }
        }
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

    pub(crate) async fn migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in STEPS.iter().rev().filter(|s| s.version > to) {
            if self.insist(step, Way::Down).await.map_err(|error| stopped(error, &done))? {
                done.push(step.version);
            }
        }
        self.hints.forget();
        Ok(done)
    }

    async fn revert(&self, step: &Step) -> Result<bool, StoreError> {
        let op = "revert a migration";
        let mut tx = self.pool.begin().await.map_err(failed(op))?;
        self.take_turn(&mut tx).await?;
        let applied = self.applied(&mut tx).await?;
        check_known(&applied)?;
        let there = applied.iter().any(|a| a.version == step.version);
        if there {
            sqlx::raw_sql(self.dynamic(step.down)).execute(&mut *tx).await.map_err(failed(op))?;
            sqlx::query(self.sql("delete from windlass.migrations where version = $1"))
                .bind(step.version)
                .execute(&mut *tx)
                .await
                .map_err(failed(op))?;
        }
        tx.commit().await.map_err(failed(op))?;
        Ok(there)
    }

    pub(crate) async fn check_schema(&self) -> Result<(), StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let applied = self.applied(&mut conn).await?;
        conn.commit().await.map_err(failed(OP))?;
        check_known(&applied)?;
        let needed = newest();
        match applied.last().map_or(0, |a| a.version) {
            0 => Err(StoreError::SchemaMissing),
            found if found < needed => Err(StoreError::SchemaOld { found, needed }),
            _ => Ok(()),
        }
    }

    /// Waits for other migrating processes, as long as it takes; for everybody else only as [`GIVE_WAY`] says. A step
    /// may take longer than a statement usually may.
    async fn take_turn(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        let script = format!(
            "set local statement_timeout = '15min';
             set local lock_timeout = 0;
             select pg_advisory_xact_lock(hashtextextended('windlass migrations {}', 0));
             {GIVE_WAY}",
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

/// Steps before the one that found its tables in use are done, and stay so.
fn stopped(error: StoreError, done: &[i64]) -> StoreError {
    match error {
        StoreError::Busy { op, source } if !done.is_empty() => {
            StoreError::Busy { op, source: format!("{source} (done before that: {done:?})").into() }
        }
        error => error,
    }
}

fn check_known(applied: &[Applied]) -> Result<(), StoreError> {
    let known = newest();
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
