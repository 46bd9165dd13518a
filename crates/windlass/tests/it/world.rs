//! A database for one test, the library on it, and worker processes that can be killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sqlx::{Connection, Executor};
use windlass::{Request, Windlass};
use windlass_core::store::{JobFilter, WorkerRow};
use windlass_core::{JobId, JobRecord, JobState};
use windlass_testkit::ledger::{self, Entries};
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::{child, jobs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// One test per database.
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: World) $body:block)*) => { $(
        mod $name {
            use super::*;

            async fn case($world: World) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                case(World::new($crate::world::Database::Sqlite).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                case(World::new($crate::world::Database::Postgres).await).await;
            }
        }
    )* };
}

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) url: String,
    directory: tempfile::TempDir,
    file: PathBuf,
    schema: Option<(String, String)>,
}

pub(crate) fn postgres_url() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/test".to_owned())
}

impl World {
    pub(crate) async fn new(database: Database) -> World {
        let directory = tempfile::tempdir().unwrap();
        match database {
            Database::Sqlite => {
                let file = directory.path().join("app.db");
                World::with_file(directory, file).await
            }
            Database::Postgres => {
                let name = format!("wl_{}_{}", std::process::id(), fastrand_name());
                let url = format!("{}?schema={name}", postgres_url());
                let schema = Some((postgres_url(), name));
                World { database, url, directory, file: PathBuf::new(), schema }.prepared().await
            }
        }
    }

    /// A SQLite database outside the folder of ledger and logs.
    pub(crate) async fn sqlite_at(file: PathBuf) -> World {
        World::with_file(tempfile::tempdir().unwrap(), file).await
    }

    async fn with_file(directory: tempfile::TempDir, file: PathBuf) -> World {
        let url = format!("sqlite://{}", file.display());
        World { database: Database::Sqlite, url, directory, file, schema: None }.prepared().await
    }

    /// The table of effects has no unique key, so that a repeated effect is visible.
    async fn prepared(self) -> World {
        self.windlass().await;
        self.sql(&format!("create table {} (job_id bigint)", self.effects())).await;
        self
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn effects(&self) -> String {
        match &self.schema {
            Some((_, schema)) => format!("{schema}.effects"),
            None => "effects".to_owned(),
        }
    }

    /// A separate handle, as in another process, with all kinds of [`jobs`].
    pub(crate) async fn windlass(&self) -> Windlass {
        jobs::builder(&self.url, &self.ledger(), &self.effects()).migrate().build().await.unwrap()
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        ledger::path_in(self.directory.path())
    }

    pub(crate) fn entries(&self) -> Entries {
        Entries::read(&self.ledger()).unwrap()
    }

    /// A worker process with a short lease.
    pub(crate) fn worker(&self, name: &str, lease: Duration) -> Process {
        // An earlier worker of this name may have left a clock offset.
        let _ = std::fs::remove_file(self.clock(name));
        Process::start(name, self.directory.path(), self.worker_command(name, lease)).unwrap()
    }

    fn worker_command(&self, name: &str, lease: Duration) -> Command {
        let mut command = self.command("child::worker");
        command.env(child::LEASE_MS, lease.as_millis().to_string());
        command.env(child::CLOCK, self.clock(name));
        command
    }

    /// This test binary with the database in its environment, to run only the test `entry`.
    pub(crate) fn command(&self, entry: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", entry, "--nocapture"]);
        command.env(child::DATABASE, &self.url);
        command.env(child::LEDGER, self.ledger());
        command.env(child::EFFECTS, self.effects());
        command
    }

    fn clock(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.clock"))
    }

    /// Steps the clock of the worker process `name` and waits until it has confirmed.
    pub(crate) async fn step_clock(&self, name: &str, worker: &Process, micros: i64) {
        let (file, fresh) = (self.clock(name), self.directory.path().join("fresh.clock"));
        std::fs::write(&fresh, micros.to_string()).unwrap();
        std::fs::rename(fresh, file).unwrap();
        let said = format!("clock {micros}");
        wait_until("the process to see its clock step", Duration::from_secs(30), || async {
            Seen::when(worker.stdout(), |text| text.lines().rfind(|l| l.starts_with("clock ")) == Some(&said))
        })
        .await;
    }

    /// Runs one statement of the application.
    pub(crate) async fn sql(&self, statement: &str) {
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        match self.database {
            Database::Sqlite => {
                let mut connection = self.sqlite().await;
                connection.execute(statement).await.unwrap();
            }
            Database::Postgres => {
                let mut connection = sqlx::PgConnection::connect(&postgres_url()).await.unwrap();
                connection.execute(statement).await.unwrap();
            }
        }
    }

    /// The number that a query on this schema returns, on Postgres.
    pub(crate) async fn number(&self, query: &str, about: &str) -> i64 {
        let schema = self.schema.as_ref().map_or("windlass", |(_, schema)| schema);
        let query = sqlx::AssertSqlSafe(query.replace("windlass.", &format!("{schema}.")));
        let mut connection = sqlx::PgConnection::connect(&postgres_url()).await.unwrap();
        sqlx::query_scalar(query).bind(about).fetch_one(&mut connection).await.unwrap()
    }

    pub(crate) async fn sqlite(&self) -> sqlx::SqliteConnection {
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(&self.file)
            .busy_timeout(Duration::from_secs(60));
        sqlx::SqliteConnection::connect_with(&options).await.unwrap()
    }

    pub(crate) async fn effect_ids(&self) -> Vec<JobId> {
        let query = sqlx::AssertSqlSafe(format!("select job_id from {} order by job_id", self.effects()));
        let ids: Vec<i64> = match self.database {
            Database::Sqlite => sqlx::query_scalar(query).fetch_all(&mut self.sqlite().await).await.unwrap(),
            Database::Postgres => {
                let mut connection = sqlx::PgConnection::connect(&postgres_url()).await.unwrap();
                sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap()
            }
        };
        ids.into_iter().map(JobId).collect()
    }

    /// Drops the test's schema. A failed test leaves it for inspection.
    pub(crate) async fn end(self) {
        if let Some((url, schema)) = &self.schema {
            let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
            let drop = sqlx::AssertSqlSafe(format!("drop schema {schema} cascade"));
            connection.execute(drop).await.unwrap();
        }
    }
}

fn fastrand_name() -> String {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("{:x}", nanos & 0xffff_ffff_ffff)
}

pub(crate) async fn count_in(windlass: &Windlass, states: &[JobState]) -> u64 {
    let filter = JobFilter { states: states.to_vec(), ..JobFilter::default() };
    windlass.client().store().count(&filter).await.unwrap()
}

/// Waits until no job waits or runs.
pub(crate) async fn wait_all_finished(windlass: &Windlass, deadline: Duration) {
    wait_until("every job to finish", deadline, || async {
        let live = [JobState::Scheduled, JobState::Pending, JobState::Running];
        match windlass
            .client()
            .store()
            .count(&JobFilter { states: live.to_vec(), ..JobFilter::default() })
            .await
        {
            Ok(left) => Seen::when(left, |left| *left == 0),
            Err(error) => Seen::NotYet(error.chain()),
        }
    })
    .await;
}

/// Checks that three jobs of a key run at once. Enqueues four, none of which ends before three have started, and
/// returns their ids. `held` makes a job that runs until the file exists.
pub(crate) async fn three_at_once(
    windlass: &Windlass,
    spans: &Path,
    key: &str,
    held: impl Fn(PathBuf) -> Request,
) -> Vec<JobId> {
    let release = spans.with_extension(key);
    let jobs: Vec<Request> = (0..4).map(|_| held(release.clone())).collect();
    let ids: Vec<JobId> = windlass.enqueue_many(jobs).await.unwrap().into_iter().map(|e| e.id).collect();
    wait_until("three jobs to run at once", Duration::from_secs(60), || async {
        let text = std::fs::read_to_string(spans).unwrap_or_default();
        let begun = |id: &&JobId| text.contains(&format!("start {key} {id}\n"));
        Seen::when(ids.iter().filter(begun).count(), |begun| *begun >= 3)
    })
    .await;
    std::fs::write(&release, "").unwrap();
    ids
}

/// Waits until a worker is registered and leases a job.
pub(crate) async fn wait_for_leases(windlass: &Windlass, deadline: Duration) -> WorkerRow {
    wait_until("a worker with leased jobs", deadline, || async {
        let workers = windlass.client().store().workers().await.unwrap();
        match workers.iter().find(|worker| worker.running > 0) {
            Some(worker) => Seen::Yes(worker.clone()),
            None => Seen::NotYet(format!("{workers:?}")),
        }
    })
    .await
}

/// The few jobs that did not complete, because their process was killed three times while they ran alone.
pub(crate) async fn died_alone(windlass: &Windlass, jobs: &[JobId]) -> BTreeSet<JobId> {
    let mut dead = BTreeSet::new();
    for id in jobs {
        let job = windlass.client().store().job(*id).await.unwrap().expect("the job is there").job;
        if job.state != JobState::Completed {
            assert_died_alone(&job);
            dead.insert(*id);
        }
    }
    assert!(dead.len() <= jobs.len() / 500, "{} of {} jobs died", dead.len(), jobs.len());
    dead
}

/// The job is a dead letter because its process died three times.
pub(crate) fn assert_died_alone(job: &JobRecord) {
    assert_eq!(job.state, JobState::DeadLetter, "{job:?}");
    let why = job.last_error.as_deref();
    assert_eq!(why, Some("its worker process died 3 times while running it alone"), "{job:?}");
}

pub(crate) async fn state_of(windlass: &Windlass, id: JobId) -> JobState {
    windlass.client().store().job(id).await.unwrap().expect("the job is there").job.state
}
