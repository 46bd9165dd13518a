//! The database goes away and comes back: a Postgres restarted under load, a LISTEN connection cut.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sqlx::{Connection, Executor};
use windlass::{JobId, JobState, Windlass, WorkerOptions};
use windlass_testkit::signal::{Seen, wait_until};

use crate::count;
use crate::jobs::{self, Append};
use crate::world::{Database, World, postgres_url, wait_all_finished};

const SOON: Duration = Duration::from_secs(30);

/// A Postgres server of the test's own, so that it can be stopped.
struct Server {
    directory: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        let server = Server { directory, programs: newest_programs(), port };
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(server.directory.path()));
        }
        server.program("initdb", &["-A", "trust", "-U", "postgres", "-N"]);
        server.control("start", &[]);
        server
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn control(&self, verb: &str, more: &[&str]) {
        let options =
            format!("-p {} -k {} -c max_connections=60", self.port, self.directory.path().display());
        let log = self.directory.path().join("log");
        let mut arguments = vec![verb, "-w", "-o", &options, "-l", log.to_str().unwrap()];
        arguments.extend(more);
        self.program("pg_ctl", &arguments);
    }

    /// Postgres refuses to run as root.
    fn program(&self, name: &str, arguments: &[&str]) {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        run(command.arg("-D").arg(self.data()).args(arguments).current_dir(self.directory.path()));
    }

    /// As a crash would: no checkpoint, connections cut, recovery at the start.
    fn restart(&self) {
        self.control("restart", &["-m", "immediate"]);
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control("stop", &["-m", "immediate"]);
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t"))
}

fn newest_programs() -> PathBuf {
    let versions = std::fs::read_dir(Path::new("/usr/lib/postgresql"))
        .expect("PostgreSQL's programs (./test installs them)");
    let newest = versions.map(|entry| entry.unwrap().path()).max().expect("one version of PostgreSQL");
    newest.join("bin")
}

fn run(command: &mut Command) {
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_restarted_under_load() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let ledger = directory.path().join("effects.ledger");
    let options = WorkerOptions { lease: Duration::from_secs(3), ..WorkerOptions::default() };
    let builder = || jobs::builder(&server.url(), &ledger, "effects");
    let windlass = builder().worker(options).migrate().build().await.unwrap();
    let workers = windlass.start().await.unwrap();
    let mut accepted: Vec<JobId> = Vec::new();
    let mut refused = 0;
    for _ in 0..count(4, 50) {
        refused += offer(&windlass, &mut accepted, 300).await;
        let producer = {
            let windlass = windlass.clone();
            tokio::spawn(async move {
                let mut accepted = Vec::new();
                let refused = offer(&windlass, &mut accepted, 600).await;
                (accepted, refused)
            })
        };
        tokio::task::block_in_place(|| server.restart());
        let (more, failed) = producer.await.unwrap();
        accepted.extend(more);
        refused += failed;
    }
    assert!(refused > 0, "no call met the restart");
    let producer = builder().build().await.unwrap();
    wait_all_finished(&producer, Duration::from_secs(60)).await;
    for id in &accepted {
        let detail =
            producer.client().store().job(*id).await.unwrap().expect("an accepted job is never lost");
        assert_eq!(detail.job.state, JobState::Completed);
    }
    println!("{} accepted, {refused} refused", accepted.len());
    workers.shutdown().await.unwrap();
}

/// Enqueues one by one; a refused call is not tried again. Returns how many were refused.
async fn offer(windlass: &Windlass, accepted: &mut Vec<JobId>, jobs: usize) -> usize {
    let mut refused = 0;
    for _ in 0..jobs {
        match windlass.enqueue(Append { ms: 0 }).await {
            Ok(enqueued) => accepted.push(enqueued.id),
            Err(_) => refused += 1,
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_listen_connection_delays_nothing_beyond_the_poll() {
    let world = World::new(Database::Postgres).await;
    let windlass = world.windlass().await;
    let workers = windlass.start().await.unwrap();
    let other = world.windlass().await;
    let mut admin = sqlx::PgConnection::connect(&postgres_url()).await.unwrap();
    let schema = world.effects().replace(".effects", "");
    let mut cut = 0;
    for _ in 0..count(3, 200) {
        let query = format!(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where query ilike 'listen%{schema}%'"
        );
        let (n,): (i64,) = sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_one(&mut admin).await.unwrap();
        cut += n;
        let id = other.enqueue(Append { ms: 0 }).await.unwrap().id;
        wait_until("the job to run in spite of it", Duration::from_secs(3), || async {
            Seen::when(world.entries().lines, |lines| lines.iter().any(|(ran, _)| *ran == id))
        })
        .await;
    }
    assert!(cut > 0, "no LISTEN connection was found to cut");
    admin.execute("select 1").await.unwrap();
    wait_all_finished(&other, SOON).await;
    workers.shutdown().await.unwrap();
    world.end().await;
}
