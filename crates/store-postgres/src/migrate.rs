//! Migrations of the schema and of packs: numbered, verified by checksum, each in its own transaction.
//!
//! Owns the tables that record them and the order of changes. Several processes may migrate at once: an advisory lock
//! serializes them. Never guesses: a newer schema, or a migration that was changed after its release, is an error.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use windlass_core::StoreError;
use windlass_core::migration::{Applied, Step, Steps, hex};
use windlass_core::pack::{self, PackMigration, PackStep, SqlText};
use windlass_core::statement::{Dialect, render};
use windlass_core::store::{Migration, PackStore};

use crate::PostgresStore;
use crate::error::{code, failed, is_conflict, is_locked_out, translate};
use crate::row::{PgTime, get};
use crate::sql::refused;

/// How long a step tries to lock tables that are in use. Between tries it pauses for as long as it waited, but at
/// least `PAUSE`.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(100);

const LOCKED_OUT: &str = "its tables were in use for five minutes without a break: end long-running transactions \
                          (`select pid, query from pg_stat_activity order by xact_start`), then migrate again";

/// Half the time after which a session checks for a deadlock, at most half a second. A session that waits for the step
/// then checks only after the step has given way, unless its own deadlock timeout is shorter.
const SET_LOCK_TIMEOUT: &str = "
    select set_config('lock_timeout', greatest(least(setting::bigint / 2, 500), 1)::text, true)
    from pg_settings where name = 'deadlock_timeout'";

#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

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

const STEPS: &[Step] = &[step!(1, "0001_schema")];

/// The step that creates the table of pack migrations.
const PACKS: i64 = 1;

fn core() -> Steps {
    Steps { pack: None, steps: STEPS.to_vec() }
}

pub(crate) fn newest() -> i64 {
    STEPS.last().map_or(0, |step| step.version)
}

const OP: &str = "read the migrations";

impl PostgresStore {
    /// The newest version of the schema that this binary knows.
    pub fn newest_schema() -> i64 {
        newest()
    }

    pub(crate) async fn do_migrations(&self) -> Result<Vec<Migration>, StoreError> {
        Ok(core().list(&self.read_applied(None).await?))
    }

    pub(crate) async fn do_check_schema(&self) -> Result<(), StoreError> {
        core().check(&self.read_applied(None).await?)
    }

    pub(crate) async fn do_migrate_up(&self, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        let done = self.step_up(&core(), to).await?;
        if to.is_none_or(|to| to >= 1) {
            self.ensure_days().await?;
        }
        Ok(done)
    }

    pub(crate) async fn do_migrate_down(&self, to: i64) -> Result<Vec<i64>, StoreError> {
        if to < PACKS {
            // Checked before the first step, so that a refusal leaves the schema unchanged.
            let mut conn = self.pool.session().await.map_err(failed(OP))?;
            self.refuse_with_packs(&mut conn).await?;
            conn.commit().await.map_err(failed(OP))?;
        }
        let done = self.step_down(&core(), to).await?;
        self.hints.forget();
        Ok(done)
    }

    async fn step_up(&self, steps: &Steps, to: Option<i64>) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in steps.steps.iter().filter(|s| to.is_none_or(|to| s.version <= to)) {
            if self.retry_until_unlocked(steps, step, Way::Up).await.map_err(|error| stopped(error, &done))? {
                done.push(step.version);
            }
        }
        Ok(done)
    }

    async fn step_down(&self, steps: &Steps, to: i64) -> Result<Vec<i64>, StoreError> {
        let mut done = Vec::new();
        for step in steps.steps.iter().rev().filter(|s| s.version > to) {
            if self
                .retry_until_unlocked(steps, step, Way::Down)
                .await
                .map_err(|error| stopped(error, &done))?
            {
                done.push(step.version);
            }
        }
        Ok(done)
    }

    /// A step locks tables in its own order, other statements in theirs, and a caller's transaction keeps its locks
    /// for as long as it likes. A step that cannot get a lock releases all of its locks and starts again, so that it
    /// neither aborts other transactions nor blocks them for long.
    async fn retry_until_unlocked(&self, steps: &Steps, step: &Step, way: Way) -> Result<bool, StoreError> {
        let begun = Instant::now();
        let mut warned = false;
        loop {
            let tried = Instant::now();
            let answer = match way {
                Way::Up => self.apply(steps, step).await,
                Way::Down => self.revert(steps, step).await,
            };
            match answer {
                Err(error) if is_conflict(&error) || is_locked_out(&error) => {
                    if begun.elapsed() > PATIENCE {
                        let why = format!("{}: {LOCKED_OUT}", steps.name_of(step));
                        return Err(StoreError::Busy { op: "migrate", source: why.into() });
                    }
                    if !std::mem::replace(&mut warned, true) {
                        let step = steps.name_of(step);
                        tracing::warn!(step, "a migration waits for transactions that use its tables");
                    }
                    tokio::time::sleep(tried.elapsed().max(PAUSE)).await;
                }
                answer => return answer,
            }
        }
    }

    /// One transaction: the lock, a check whether the step is still needed, the change, its record.
    async fn apply(&self, steps: &Steps, step: &Step) -> Result<bool, StoreError> {
        let op = "apply a migration";
        let mut tx = self.pool.begin().await.map_err(failed(op))?;
        self.take_turn(&mut tx).await?;
        if steps.pack.is_none() {
            self.make_record(&mut tx).await?;
        }
        let applied = self.applied(&mut tx, steps.pack.as_deref()).await?;
        steps.known(&applied)?;
        let missing = !applied.iter().any(|a| a.version == step.version);
        if missing {
            self.run_step(&mut tx, steps, step, step.up).await?;
            let record = match &steps.pack {
                None => {
                    "insert into windlass.migrations (version, name, checksum, applied_at)
                         values ($1, $2, decode($3, 'hex'), statement_timestamp())"
                }
                Some(_) => {
                    "insert into windlass.pack_migrations (version, name, checksum, applied_at, pack)
                            values ($1, $2, decode($3, 'hex'), statement_timestamp(), $4)"
                }
            };
            let record =
                sqlx::query(self.sql(record)).bind(step.version).bind(step.name).bind(step.checksum());
            let record = steps.pack.iter().fold(record, |record, pack| record.bind(pack));
            record.execute(&mut *tx).await.map_err(failed(op))?;
        }
        tx.commit().await.map_err(failed(op))?;
        Ok(missing)
    }

    async fn make_record(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
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
        sqlx::raw_sql(self.dynamic(&create)).execute(conn).await.map_err(failed("apply a migration"))?;
        Ok(())
    }

    async fn revert(&self, steps: &Steps, step: &Step) -> Result<bool, StoreError> {
        let op = "revert a migration";
        let mut tx = self.pool.begin().await.map_err(failed(op))?;
        self.take_turn(&mut tx).await?;
        let applied = self.applied(&mut tx, steps.pack.as_deref()).await?;
        steps.known(&applied)?;
        let there = applied.iter().any(|a| a.version == step.version);
        if there {
            if steps.pack.is_none() && step.version == PACKS {
                self.refuse_with_packs(&mut tx).await?;
            }
            self.run_step(&mut tx, steps, step, step.down).await?;
            let forget = match &steps.pack {
                None => "delete from windlass.migrations where version = $1",
                Some(_) => "delete from windlass.pack_migrations where version = $1 and pack = $2",
            };
            let forget = sqlx::query(self.sql(forget)).bind(step.version);
            let forget = steps.pack.iter().fold(forget, |forget, pack| forget.bind(pack));
            forget.execute(&mut *tx).await.map_err(failed(op))?;
        }
        tx.commit().await.map_err(failed(op))?;
        Ok(there)
    }

    async fn run_step(
        &self,
        conn: &mut PgConnection,
        steps: &Steps,
        step: &Step,
        text: &str,
    ) -> Result<(), StoreError> {
        let op = "migrate";
        let done = match &steps.pack {
            // Our own steps name tables in string literals too.
            None => sqlx::raw_sql(self.dynamic(text)).execute(conn).await.map_err(failed(op)),
            Some(_) => {
                let text = render(text, Dialect::Postgres { schema: &self.schema });
                let done = sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await;
                done.map_err(|error| match refused(op, error) {
                    StoreError::Other { store, op, source } => {
                        let source = format!("{}: {source}", steps.name_of(step)).into();
                        StoreError::Other { store, op, source }
                    }
                    error => error,
                })
            }
        };
        done.map(drop)
    }

    /// Refuses to drop the record of packs while any pack has tables.
    async fn refuse_with_packs(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        if !self.applied(conn, None).await?.iter().any(|row| row.version == PACKS) {
            return Ok(());
        }
        let sql = self.sql("select distinct pack from windlass.pack_migrations order by 1");
        let packs: Vec<String> = sqlx::query_scalar(sql).fetch_all(conn).await.map_err(failed(OP))?;
        if packs.is_empty() { Ok(()) } else { Err(StoreError::PacksLeft { packs }) }
    }

    /// Waits for other migrating processes without limit, and for all other locks as [`SET_LOCK_TIMEOUT`] says. A step
    /// may exceed the usual statement timeout.
    async fn take_turn(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        let script = format!(
            "set local statement_timeout = '15min';
             set local lock_timeout = 0;
             select pg_advisory_xact_lock(hashtextextended('windlass migrations {}', 0));
             {SET_LOCK_TIMEOUT}",
            self.schema
        );
        sqlx::raw_sql(self.dynamic(&script)).execute(conn).await.map_err(failed("wait to migrate"))?;
        Ok(())
    }

    /// Reads inside the connection's transaction.
    pub(crate) async fn packs_in(&self, conn: &mut PgConnection) -> Result<Vec<PackMigration>, StoreError> {
        let sql =
            "select pack, version, name, applied_at from windlass.pack_migrations order by pack, version";
        let rows = sqlx::query(self.sql(sql)).fetch_all(conn).await.map_err(failed(OP))?;
        rows.iter()
            .map(|row| {
                let applied_at = get::<PgTime>(row, "applied_at")?.0;
                let (pack, name) = (get(row, "pack")?, get(row, "name")?);
                Ok(PackMigration { pack, version: get(row, "version")?, name, applied_at })
            })
            .collect()
    }

    async fn read_applied(&self, pack: Option<&str>) -> Result<Vec<Applied>, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let applied = self.applied(&mut conn, pack).await?;
        conn.commit().await.map_err(failed(OP))?;
        Ok(applied)
    }

    /// Applied steps, oldest first. Empty when the schema has no record yet; an error for a pack, whose table comes
    /// with the schema.
    async fn applied(&self, conn: &mut PgConnection, pack: Option<&str>) -> Result<Vec<Applied>, StoreError> {
        let there = sqlx::query(self.sql("select to_regclass('windlass.migrations') is not null as there"))
            .fetch_one(&mut *conn)
            .await
            .map_err(failed(OP))?;
        if pack.is_none() && !there.try_get::<bool, _>("there").map_err(|e| translate(OP, e))? {
            return Ok(Vec::new());
        }
        let select = match pack {
            None => "select version, name, checksum, applied_at from windlass.migrations order by version",
            Some(_) => {
                "select version, name, checksum, applied_at from windlass.pack_migrations where pack = $1
                 order by version"
            }
        };
        let select = pack.into_iter().fold(sqlx::query(self.sql(select)), |select, pack| select.bind(pack));
        let rows = match select.fetch_all(conn).await {
            Ok(rows) => rows,
            Err(error) if pack.is_none() && code(&error) == "42P01" => return Ok(Vec::new()),
            Err(error) => return Err(translate(OP, error)),
        };
        rows.iter()
            .map(|row| {
                Ok(Applied {
                    version: get(row, "version")?,
                    name: get(row, "name")?,
                    checksum: hex(&get::<Vec<u8>>(row, "checksum")?),
                    at: get::<PgTime>(row, "applied_at")?.0,
                })
            })
            .collect()
    }
}

#[async_trait]
impl PackStore for PostgresStore {
    async fn pack_migrations(&self) -> Result<Vec<PackMigration>, StoreError> {
        let mut conn = self.pool.session().await.map_err(failed(OP))?;
        let all = self.packs_in(&mut conn).await?;
        conn.commit().await.map_err(failed(OP))?;
        Ok(all)
    }

    async fn migrate_pack_up(&self, pack: &str, steps: &[PackStep]) -> Result<Vec<i64>, StoreError> {
        self.step_up(&pack::steps(pack, steps, SqlText::on_postgres), None).await
    }

    async fn migrate_pack_down(
        &self,
        pack: &str,
        steps: &[PackStep],
        to: i64,
    ) -> Result<Vec<i64>, StoreError> {
        self.step_down(&pack::steps(pack, steps, SqlText::on_postgres), to).await
    }

    async fn check_pack(&self, pack: &str, steps: &[PackStep]) -> Result<(), StoreError> {
        pack::steps(pack, steps, SqlText::on_postgres).check(&self.read_applied(Some(pack)).await?)
    }
}

/// Steps that were applied before the failed one stay applied.
fn stopped(error: StoreError, done: &[i64]) -> StoreError {
    match error {
        StoreError::Busy { op, source } if !done.is_empty() => {
            StoreError::Busy { op, source: format!("{source} (applied before that: {done:?})").into() }
        }
        error => error,
    }
}
