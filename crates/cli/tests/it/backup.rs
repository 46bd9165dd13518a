//! Backups: made, verified, restored, and made by a server on schedule.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::place::{Place, postgres};

fn fill(place: &Place, jobs: usize, bytes: usize) {
    let line = format!("{{\"kind\":\"NOOP\",\"payload\":{{\"text\":\"{}\"}}}}\n", "x".repeat(bytes));
    place.pipe(&["enqueue", "--bulk", "-"], &line.repeat(jobs)).ok();
}

fn names(folder: &Path, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_backup_is_made_verified_listed_and_restored() {
    let place = Place::new();
    fill(&place, 20, 10);
    place.run(&["backup"]).ok().says(&["no backups yet"]);
    let made = place.run(&["backup", "shop.backup", "--json"]).ok().json();
    assert!(made["rows"].as_u64().unwrap() > 40, "{made}");
    place.run(&["backup", "shop.backup"]).fails(1, &["is there already", "nothing is overwritten"]);
    place.run(&["backup", "list"]).ok().says(&["shop.backup", "never"]);
    let verified = place.run(&["backup", "verify", "shop.backup", "--json"]).ok().json();
    assert_eq!((verified["recorded"].as_bool(), &verified["sha256"]), (Some(true), &made["sha256"]));
    let listed = place.run(&["backup", "--json"]).ok().json();
    assert!(listed["items"][0]["verified_at"].is_string() && listed["items"][0]["there"] == true, "{listed}");
    place.run(&["doctor"]).says(&["backup: the last verified one is of"]);
    place.run(&["restore", "shop.backup"]).fails(1, &["the database is not empty", "another file"]);
    let other = ["restore", "shop.backup", "--database", "sqlite://other.db", "--json"];
    assert_eq!(place.run(&other).ok().json()["rows"], made["rows"]);
    assert_eq!(place.count(&["--database", "sqlite://other.db", "--state", "pending"]), 20);
    place
        .run(&["backup", "verify", "shop.backup", "--database", "sqlite://other.db"])
        .ok()
        .says(&["good: ", "not recorded"]);
    let left: Vec<String> =
        names(place.path(), "").into_iter().filter(|name| name.contains("verify")).collect();
    assert_eq!(left, Vec::<String>::new(), "the scratch database is gone");
}

#[test]
fn a_backup_is_restored_to_postgres_and_back() {
    let place = Place::new();
    fill(&place, 5, 10);
    let url = postgres("copy");
    place.run(&["backup", "a.backup"]).ok();
    place.run(&["restore", "a.backup", "--database", &url]).ok().says(&["restored into postgres://"]);
    place.run(&["backup", "b.backup", "--database", &url]).ok();
    place.run(&["backup", "verify", "b.backup", "--database", &url]).ok().says(&["good: "]);
    place.run(&["restore", "b.backup", "--database", "sqlite://back.db"]).ok();
    assert_eq!(place.count(&["--database", "sqlite://back.db"]), 5);
    place.run(&["migrate", "down", "--to", "0", "--database", &url]).ok();
}

#[test]
fn broken_files_are_reported() {
    let place = Place::new();
    fill(&place, 5, 10);
    place.run(&["backup", "a.backup"]).ok();
    let bytes = std::fs::read(place.path().join("a.backup")).unwrap();
    place.write("cut.backup", &bytes[..bytes.len() - 20]);
    let mut flipped = bytes.clone();
    let at = bytes.len() / 2;
    flipped[at] = if flipped[at] == b'1' { b'2' } else { b'1' };
    place.write("flipped.backup", &flipped);
    place.write("other.backup", "PK");
    for (file, why) in
        [("cut.backup", "ends in the middle"), ("flipped.backup", "line "), ("other.backup", "")]
    {
        place.run(&["backup", "verify", file]).fails(1, &["the backup is not good", "cannot be used", why]);
        place.run(&["restore", file, "--database", "sqlite://new.db"]).fails(1, &["cannot be used", why]);
        let made: Vec<String> =
            names(place.path(), "").into_iter().filter(|name| name.starts_with("new.db")).collect();
        assert_eq!(made, Vec::<String>::new(), "a refused restore leaves nothing that it made");
    }
    place.run(&["migrate", "up", "--database", "sqlite://old.db"]).ok();
    place.run(&["restore", "cut.backup", "--database", "sqlite://old.db"]).fails(1, &["ends in the middle"]);
    assert_eq!(place.count(&["--database", "sqlite://old.db"]), 0, "what was there stays");
    place.run(&["backup", "verify", "missing"]).fails(1, &["cannot read missing"]);
}

#[test]
fn a_killed_backup_leaves_no_file() {
    let place = Place::new();
    fill(&place, 6_000, 1_000);
    let mut copying = place.start(&["backup", "killed.backup"]);
    let draft = || names(place.path(), ".draft").pop();
    let written = || {
        let size = |name: String| std::fs::metadata(place.path().join(name)).map_or(0, |found| found.len());
        draft().map_or(0, size) > 1 << 18
    };
    wait_for("draft of some size", written);
    copying.signal("-KILL");
    assert_eq!(copying.wait(), -1);
    assert!(!place.path().join("killed.backup").exists());
    let draft = draft().expect("what was killed stays as a draft");
    place.run(&["backup", "verify", &draft]).fails(1, &["ends in the middle"]);
    place.run(&["backup", "killed.backup"]).ok();
    place.run(&["backup", "verify", "killed.backup"]).ok();
}

#[test]
fn a_server_makes_backups_on_schedule() {
    let place = Place::new();
    let config = "[backup]\nfolder = \"copies\"\nkeep = 2\nevery = \"1s\"\nalert_after = \"1h\"\n";
    place.write("windlass.toml", config);
    fill(&place, 10, 10);
    let server = place.serve(&["serve"]);
    let copies = || names(&place.path().join("copies"), ".backup");
    let mut seen = std::collections::BTreeSet::new();
    wait_for("fourth copy", || {
        seen.extend(copies());
        seen.len() >= 4
    });
    server.wait_for("backup made");
    place.run(&["schedules", "pause", "windlass-backup"]).ok();
    wait_for("end of the last job", || {
        place.count(&["--kind", "BACKUP", "--state", "pending,running,scheduled"]) == 0
    });
    assert_eq!(copies().len(), 2, "{:?}", copies());
    let listed = place.run(&["backup", "--json"]).ok().json();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{listed}");
    assert!(items.iter().all(|item| item["verified_at"].is_string() && item["there"] == true), "{listed}");
    assert_eq!(place.count(&["--kind", "BACKUP", "--state", "failed,dead_letter"]), 0);
    place.run(&["doctor"]).says(&["ok    backup: the last verified one is of"]);
}

#[test]
fn an_old_backup_raises_an_alert() {
    let place = Place::new();
    let config = "[backup]\nfolder = \"copies\"\nevery = \"1d\"\nalert_after = \"1ms\"\n";
    place.write("windlass.toml", config);
    let server = place.serve(&["serve"]);
    server.wait_for("no backup was ever verified");
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 1);
    ran.says(&["warn  backup: no backup was ever verified", "windlass schedules run windlass-backup"]);
    place.run(&["schedules", "run", "windlass-backup", "--wait"]).ok();
    let ran = place.run(&["doctor"]);
    ran.says(&["warn  backup: the last verified backup is of"]);
}

#[test]
fn a_folder_that_is_a_file_is_named() {
    let place = Place::new();
    place.write("copies", "not a folder");
    place.write("windlass.toml", "[backup]\nfolder = \"copies\"\nevery = \"1d\"\n");
    let _server = place.serve(&["serve"]);
    place.run(&["schedules", "run", "windlass-backup"]).ok();
    let mut error = String::new();
    wait_for("failed attempt", || {
        let jobs = place.run(&["jobs", "--kind", "BACKUP", "--json"]).ok().json();
        error = jobs["items"][0]["last_error"].as_str().unwrap_or_default().to_owned();
        !error.is_empty()
    });
    let folder = place.path().join("copies").display().to_string();
    assert!(error.contains(&format!("could not make the folder {folder}")), "{error}");
}

#[test]
fn invalid_settings_are_refused_at_the_start() {
    let place = Place::new();
    place.write("windlass.toml", "[backup]\nfolder = \"x\"\nevery = \"now and then\"\nkeep = 0\n");
    let parts = ["windlass.toml:3: backup.every: must be a duration", "windlass.toml:4: backup.keep"];
    place.run(&["serve"]).fails(1, &parts);
}
