//! Which verbs create a database, and report it: those that add data. Others create nothing.

use crate::place::Place;

const CHAIN: &str = r#"{"jobs": [{"name": "a", "kind": "NOOP"}]}"#;

#[test]
fn verbs_that_read_or_change_create_no_database() {
    let verbs: &[&[&str]] = &[
        &["jobs"],
        &["jobs", "count"],
        &["jobs", "show", "7"],
        &["jobs", "retry", "7"],
        &["jobs", "cancel", "--tag", "a", "--yes"],
        &["jobs", "delete", "7"],
        &["jobs", "set", "7", "--priority", "1"],
        &["dead-letters"],
        &["dead-letters", "show", "7"],
        &["dead-letters", "replay", "7"],
        &["dead-letters", "delete", "7"],
        &["queues"],
        &["queues", "pause", "low"],
        &["queues", "resume", "low"],
        &["queues", "set", "low", "--concurrency", "2"],
        &["kinds"],
        &["kinds", "set", "NOOP", "--rate", "1/s"],
        &["workers"],
        &["budgets"],
        &["budgets", "history", "ai"],
        &["budgets", "set", "ai", "--limit", "1"],
        &["budgets", "reset", "ai"],
        &["audit"],
        &["schedules"],
        &["schedules", "show", "s"],
        &["schedules", "put", "s", "--kind", "NOOP", "--cron", "@daily"],
        &["schedules", "run", "s"],
        &["schedules", "pause", "s"],
        &["schedules", "resume", "s"],
        &["schedules", "delete", "s"],
        &["workflows"],
        &["workflows", "show", "7"],
        &["workflows", "cancel", "7"],
        &["workflows", "retry", "7"],
        &["workflows", "run", "chain.json"],
        &["cleanup"],
        &["cleanup", "run"],
        &["backup"],
        &["backup", "x.backup"],
        &["top", "--json"],
        &["worker"],
        &["migrate", "status"],
        &["migrate", "down", "--to", "0"],
    ];
    let place = Place::new();
    place.write("chain.json", CHAIN);
    for args in verbs {
        let ran = place.run(args).fails(1, &["there is no such file", "make a new one"]);
        assert!(ran.out.is_empty(), "{args:?}: {}", ran.out);
        assert!(!place.path().join("windlass-data").exists(), "{args:?} made a folder");
    }
    // These work without a database.
    for args in [&["doctor"][..], &["config", "show"], &["schedules", "next", "@daily"], &["openapi"]] {
        place.run(args).ok();
        assert!(!place.path().join("windlass-data").exists(), "{args:?} made a folder");
    }
}

#[test]
fn verbs_that_add_data_report_a_new_database() {
    let note = "created a new database: sqlite://./windlass-data/windlass.db\n";
    for args in [&["enqueue", "NOOP", "--in", "1h"][..], &["migrate", "up"]] {
        let place = Place::new();
        let first = place.run(args).ok();
        assert!(
            first.err.contains(note) && !first.out.contains("created a new"),
            "{}{}",
            first.out,
            first.err
        );
        assert!(place.database().exists());
        assert_eq!(place.run(args).ok().err, "", "the second finds it");
    }
    let place = Place::new();
    let bulk = place.pipe(&["enqueue", "--bulk", "-"], "{\"kind\":\"NOOP\",\"delay\":\"1h\"}\n").ok();
    assert!(bulk.err.contains(note), "{}", bulk.err);
    let place = Place::new();
    assert!(place.serve(&["serve"]).output().contains(note));
    assert!(!place.serve(&["serve"]).output().contains("created a new"));
    let demo = place.start(&["demo"]);
    demo.wait_for("created a new database: sqlite://./windlass-data/demo.db");
}
