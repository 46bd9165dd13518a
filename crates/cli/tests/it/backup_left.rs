//! Concurrent backups, and what killed ones leave, on both databases.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::place::{Place, postgres};

const CONFIG: &str = "[backup]\nfolder = \"copies\"\nkeep = 20\nevery = \"1d\"\nalert_after = \"1h\"\n";

/// A separate database: scratch schemas are found by name, and other tests create some too.
struct Own {
    server: String,
    name: String,
}

impl Own {
    fn new(name: &str) -> Own {
        let server = postgres("own").split('?').next().unwrap().to_owned();
        let own = Own { server, name: format!("wlc_{name}_{}", std::process::id()) };
        sql(&own.server, &format!("create database {}", own.name));
        own
    }

    fn url(&self) -> String {
        format!("{}/{}", self.server.rsplit_once('/').unwrap().0, self.name)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        sql(&self.server, &format!("drop database {} with (force)", self.name));
    }
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn sql(url: &str, text: &str) {
    block(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut connection).await.unwrap();
    });
}

fn schemas(url: &str) -> Vec<String> {
    block(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let named = "select nspname::text from pg_namespace where nspname like 'windlass_verify%'";
        sqlx::query_scalar(named).fetch_all(&mut connection).await.unwrap()
    })
}

fn names(folder: &Path, part: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(part)).collect()
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn fill(place: &Place, url: &str, jobs: usize) {
    let line = format!("{{\"kind\":\"NOOP\",\"payload\":{{\"text\":\"{}\"}}}}\n", "x".repeat(1_000));
    place.pipe(&["enqueue", "--bulk", "-", "--database", url], &line.repeat(jobs)).ok();
}

fn with(args: &[&'static str], url: &str) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).chain(["--database".to_owned(), url.to_owned()]).collect()
}

fn run(place: &Place, url: &str, args: &[&'static str]) -> crate::place::Ran {
    let args = with(args, url);
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn serve(place: &Place, url: &str) -> crate::place::Server {
    let args = with(&["serve", "--migrate"], url);
    place.serve(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn at_once(place: &Place, url: &str) {
    place.write("windlass.toml", CONFIG);
    run(place, url, &["migrate", "up"]).ok();
    fill(place, url, 500);
    let _server = serve(place, url);
    let jobs = "{\"kind\":\"BACKUP\"}\n".repeat(4);
    place.pipe(&["enqueue", "--bulk", "-", "--database", url], &jobs).ok();
    wait_for("end of the copies", || {
        place.count(&["--kind", "BACKUP", "--state", "completed,failed,dead_letter", "--database", url]) == 4
    });
    let ended = run(place, url, &["jobs", "list", "--kind", "BACKUP", "--json"]).ok().json();
    let states: Vec<&Value> = ended["items"].as_array().unwrap().iter().map(|job| &job["state"]).collect();
    assert_eq!(states, ["completed"; 4], "{ended}");
    let tries: Vec<&Value> = ended["items"].as_array().unwrap().iter().map(|job| &job["attempt"]).collect();
    assert_eq!(tries, [1, 1, 1, 1], "{ended}");
    let listed = run(place, url, &["backup", "--json"]).ok().json();
    let good = |item: &Value| item["verified_at"].is_string() && item["there"] == true;
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(|item| good(item)).count(), 4, "{listed}");
    let schedule = run(place, url, &["schedules", "show", "windlass-backup", "--json"]).ok().json();
    assert_eq!(schedule["concurrency_key"], "windlass-backup", "scheduled ones take turns");
}

#[test]
fn concurrent_backups_do_not_interfere_on_sqlite() {
    let place = Place::new();
    at_once(&place, "sqlite://w.db");
}

#[test]
fn concurrent_backups_do_not_interfere_on_postgres() {
    let own = Own::new("at_once");
    at_once(&Place::new(), &own.url());
}

/// Killed at two points: while writing the backup, and while verifying it.
fn killed(place: &Place, url: &str, scratch: impl Fn() -> Vec<String>) {
    place.write("windlass.toml", CONFIG);
    run(place, url, &["migrate", "up"]).ok();
    fill(place, url, 6_000);
    let copies = place.path().join("copies");
    let drafts = || names(&copies, ".draft");
    let kill_when = |what: &str, there: &dyn Fn() -> bool| {
        let mut server = serve(place, url);
        run(place, url, &["enqueue", "BACKUP"]).ok();
        wait_for(what, there);
        server.signal("-KILL");
        server.wait();
    };
    let told_of = |debris: &[String]| {
        let report = run(place, url, &["doctor"]);
        assert_eq!(report.code, 1);
        let report =
            report.says(&["warn  backup leftovers: a killed backup left ", "schedules run windlass-backup"]);
        report.says(&debris.iter().map(String::as_str).collect::<Vec<_>>());
    };
    kill_when("draft", &|| !drafts().is_empty());
    let half = drafts();
    told_of(&half);
    kill_when("scratch", &|| !scratch().is_empty());
    assert!(!drafts().iter().any(|name| half.contains(name)), "the next copy swept {half:?}");
    let tried = scratch();
    told_of(&tried);
    let _server = serve(place, url);
    run(place, url, &["schedules", "run", "windlass-backup", "--wait"]).ok();
    // The killed job is run again; its files have other names.
    let there = scratch();
    assert!(!there.iter().any(|name| tried.contains(name)), "{tried:?} in {there:?}");
}

#[test]
fn leftovers_of_killed_backups_are_swept_on_sqlite() {
    let place = Place::new();
    let copies = place.path().join("copies");
    killed(&place, "sqlite://w.db", || names(&copies, ".windlass_verify_"));
}

#[test]
fn leftovers_of_killed_backups_are_swept_on_postgres() {
    let own = Own::new("left");
    killed(&Place::new(), &own.url(), || schemas(&own.url()));
}

fn removed(place: &Place, url: &str) {
    place.write("windlass.toml", CONFIG);
    let _server = serve(place, url);
    run(place, url, &["schedules", "run", "windlass-backup", "--wait"]).ok();
    run(place, url, &["doctor"]).says(&["ok    backup: the last verified one is of"]);
    let copies = place.path().join("copies");
    for name in names(&copies, ".backup") {
        std::fs::remove_file(copies.join(name)).unwrap();
    }
    let gone = ["warn  backup: no verified backup is where it was put; ", ".backup is not there"];
    run(place, url, &["doctor"]).says(&gone);
    std::fs::remove_dir_all(&copies).unwrap();
    run(place, url, &["doctor"]).says(&gone);
}

#[test]
fn backups_without_a_file_do_not_count_on_sqlite() {
    removed(&Place::new(), "sqlite://w.db");
}

#[test]
fn backups_without_a_file_do_not_count_on_postgres() {
    let url = postgres("gone");
    let place = Place::new();
    removed(&place, &url);
    place.run(&["migrate", "down", "--to", "0", "--database", &url]).ok();
}
