//! Who makes a new database, and says so: those that bring something. Nobody else leaves anything behind.

use crate::place::Place;

const CHAIN: &str = r#"{"jobs": [{"name": "a", "kind": "NOOP"}]}"#;

#[test]
fn verbs_that_look_or_change_make_nothing() {
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
    // These say what there is to say without one.
    for args in [&["doctor"][..], &["config", "show"], &["schedules", "next", "@daily"], &["openapi"]] {
        place.run(args).ok();
        assert!(!place.path().join("windlass-data").exists(), "{args:?} made a folder");
    }
}

#[test]
fn verbs_that_bring_something_say_that_they_made_one() {
    let told = "made a new database: sqlite://./windlass-data/windlass.db\n";
    for args in [&["enqueue", "NOOP", "--in", "1h"][..], &["migrate", "up"]] {
        let place = Place::new();
        let first = place.run(args).ok();
        assert!(first.err.contains(told) && !first.out.contains("made a new"), "{}{}", first.out, first.err);
        assert!(place.database().exists());
        assert_eq!(place.run(args).ok().err, "", "the second finds it");
    }
    let place = Place::new();
    let bulk = place.pipe(&["enqueue", "--bulk", "-"], "{\"kind\":\"NOOP\",\"delay\":\"1h\"}\n").ok();
    assert!(bulk.err.contains(told), "{}", bulk.err);
    let place = Place::new();
    assert!(place.serve(&["serve"]).output().contains(told));
    assert!(!place.serve(&["serve"]).output().contains("made a new"));
    let demo = place.start(&["demo"]);
    demo.wait_for("made a new database: sqlite://./windlass-data/demo.db");
}
