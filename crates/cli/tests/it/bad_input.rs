//! Invalid input: the error says what, where and what to do, and nothing is written.

use crate::place::Place;

/// Each with its exit code and the expected text.
#[test]
fn invalid_input_is_refused_with_what_and_where() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.write("big.json", format!("\"{}\"", "x".repeat(1 << 20)));
    place.write("broken.json", "{\n  \"a\": 1,\n  \"b\": }\n");
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["enqueue", "NOPE"],
            1,
            &[
                "`NOPE` is not registered; known kinds: FAIL, INDEX_ASYNC, INDEX_BATCH, NOOP, SLEEP",
                "nothing was written",
            ],
        ),
        (&["enqueue", "NOOP", "--payload", "{nope"], 1, &["the payload is not JSON", "line 1 column 2"]),
        (
            &["enqueue", "NOOP", "--payload", "@broken.json"],
            1,
            &["broken.json is not JSON", "line 3 column 8"],
        ),
        (&["enqueue", "NOOP", "--payload", "@missing.json"], 1, &["missing.json", "No such file"]),
        (&["enqueue", "NOOP", "--payload", "@big.json"], 1, &["larger than 1048576 bytes (1 MiB)"]),
        (&["enqueue", "NOOP", "--in", "-5m"], 2, &["`-5m` is not a duration: it is negative"]),
        (&["enqueue", "NOOP", "--in", "5"], 2, &["the unit is missing"]),
        (&["enqueue", "NOOP", "--in", "9000d"], 2, &["delay: must be at most 366 days"]),
        (&["enqueue", "NOOP", "--at", "tomorrow"], 2, &["`tomorrow` is not a time", "2026-01-31T15:04:05Z"]),
        (&["enqueue", "NOOP", "--in", "5m", "--at", "2099-01-01T00:00:00Z"], 2, &["cannot be used with"]),
        (&["enqueue", "NOOP", "--priority", "11"], 2, &["priority: must be 0 (most urgent) to 10, not 11"]),
        (&["enqueue", "NOOP", "--priority", "-1"], 2, &["priority: must be 0 (most urgent) to 10, not -1"]),
        (&["enqueue", "NOOP", "--max-attempts", "0"], 2, &["max_attempts: must be 1 to 1000, not 0"]),
        (&["enqueue", "NOOP", "--timeout", "0s"], 2, &["timeout: must be longer than zero"]),
        (&["enqueue", "NOOP", "--unique-key", ""], 2, &["unique_key: must be"]),
        (&["enqueue", "NOOP", "--on-conflict", "keep"], 2, &["--unique-key"]),
        (
            &["enqueue", "NOOP", "--unique-key", "k", "--on-conflict", "maybe"],
            2,
            &["must be replace, keep or reject"],
        ),
        (&["enqueue", "NOOP", "--tag", "no spaces"], 2, &["tags: must be"]),
        (&["enqueue", "--bulk", "missing.ndjson"], 1, &["missing.ndjson", "No such file"]),
        (&["enqueue"], 2, &["KIND"]),
        (
            &["jobs", "--state", "runing"],
            2,
            &["`runing` is not a job state; known are scheduled, pending, running"],
        ),
        (
            &["jobs", "--queue", "hihg"],
            1,
            &[
                "there is no queue `hihg`: known: HIGH, INDEX_ASYNC, DEFAULT, SCREENSHOT, LOW, INDEX_BATCH, BULK",
            ],
        ),
        (
            &["jobs", "count", "--kind", "NOPE"],
            1,
            &["there is no kind `NOPE`: known: FAIL, INDEX_ASYNC, INDEX_BATCH, NOOP, SLEEP"],
        ),
        (&["jobs", "--entity", "product"], 2, &["TYPE:ID"]),
        (&["jobs", "show", "12"], 1, &["cannot show job 12: there is no job 12 here"]),
        (&["jobs", "show", "twelve"], 2, &["invalid value 'twelve'"]),
        (&["jobs", "cancel"], 2, &["name ids or a filter"]),
        (&["jobs", "cancel", "12", "--queue", "low"], 2, &["not both"]),
        (&["jobs", "cancel", "12"], 1, &["1 job not found"]),
        (&["jobs", "cancel", "--state", "completed", "--yes"], 2, &["scheduled, pending, running"]),
        (&["queues", "pause", "high", "nope"], 1, &["there is no queue `nope`", "nothing was changed"]),
        (&["queues", "set", "low"], 2, &["--depth-cap"]),
        (&["queues", "set", "low", "--concurrency", "0"], 2, &["must be 1 to 10000, or configured"]),
        (&["cleanup", "run", "everything"], 1, &["finished, dead-letters, idempotency, windows, rollups"]),
        (&["cleanup", "run", "--older-than", "-7d"], 2, &["it is negative"]),
        (
            &["worker", "--queues", "nope", "--lease", "2s"],
            1,
            &["`nope` is not a queue; known: HIGH, INDEX_ASYNC, DEFAULT"],
        ),
        (
            &["search", "document", "x", "--limit", "0"],
            2,
            &["limit: must be 1 to 1000, not 0", "nothing was searched"],
        ),
        (&["search", "document", "x", "--offset", "10001"], 2, &["offset: must be at most 10000, not 10001"]),
        (
            &["search", "document", "x", "--filter", "price"],
            2,
            &["--filter price: compares nothing", "price<=20"],
        ),
        (&["search", "nope", "x"], 1, &["nope", "`windlass types` lists the types"]),
        (&["similar", "document", "x", "--limit", "1001"], 2, &["limit: must be 1 to 1000"]),
        (&["serve", "--bind", "here"], 2, &["--bind", "must be ADDRESS:PORT"]),
        (&["serve", "--lease", "soon"], 2, &["`soon` is not a duration"]),
        (&["migrate", "down", "--to", "99"], 1, &["there is no version 99; known: 0, 1"]),
        (&["nonsense"], 2, &["unrecognized subcommand"]),
    ];
    for (args, code, parts) in cases {
        let ran = place.run(args).fails(*code, parts);
        assert!(ran.out.is_empty(), "{args:?} printed {}", ran.out);
        if *code == 1 {
            assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.err);
        }
        if matches!(args[0], "search" | "similar") {
            assert!(!ran.err.contains("written"), "{args:?}: {}", ran.err);
        }
    }
    assert_eq!(place.count(&[]), 0);
    let queues = place.run(&["queues", "--json"]).ok().json();
    assert!(queues["items"].as_array().unwrap().iter().all(|queue| queue["paused"] == false), "{queues}");
}

#[test]
fn unusable_databases_are_reported() {
    let place = Place::new();
    place
        .run(&["jobs", "--database", "mysql://me:hush@h/d"])
        .fails(2, &["--database: database.url: `mysql` is not a database"]);
    let ran = place.run(&["jobs", "--database", "mysql://me:hush@h/d"]);
    assert!(!ran.err.contains("hush"), "{}", ran.err);
    place.run(&["jobs", "--database", "jobs.db"]).fails(2, &["has no scheme", "sqlite://PATH"]);
    place.run(&["jobs", "--database", "sqlite://"]).fails(2, &["names no file"]);
    // From a variable, it is not wrong usage.
    place.run_env(&["jobs"], &[("DATABASE_URL", "jobs.db")]).fails(1, &["DATABASE_URL", "has no scheme"]);
    // A folder that no user can write to.
    place
        .run(&["enqueue", "NOOP", "--database", "sqlite:///proc/windlass/x.db"])
        .fails(1, &["cannot open sqlite:///proc/windlass/x.db", "hint:"]);
    // Read-only verbs create nothing.
    for verb in
        [&["jobs"][..], &["queues"], &["workers"], &["cleanup"], &["types"], &["search", "document", "x"]]
    {
        let args = [verb, &["--database", "sqlite://not/there/x.db"]].concat();
        place.run(&args).fails(1, &["cannot open sqlite://not/there/x.db: there is no such file"]);
    }
    assert!(!place.path().join("not").exists(), "a verb that looks made a folder");
    place.write("notes.txt", "not a database, but long enough to be looked at as one ".repeat(20));
    place.run(&["jobs", "--database", "sqlite://notes.txt"]).fails(1, &["notes.txt", "not a database"]);
    let refused = place.run(&["jobs", "--database", "postgres://me:hush@127.0.0.1:1/none"]).fails(
        1,
        &[
            "cannot open postgres://me:***@127.0.0.1:1/none",
            "cannot connect to 127.0.0.1:1: connection refused",
        ],
    );
    assert!(!refused.err.contains("hush"), "{}", refused.err);
    assert!(!place.database().exists(), "a refused command made a database");
}

#[test]
fn a_schema_newer_than_the_binary_is_left_alone() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let connection = rusqlite::Connection::open(place.database()).unwrap();
    let columns: Vec<String> = connection
        .prepare("select name from pragma_table_info('windlass_migrations')")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let rest: Vec<&str> = columns.iter().map(String::as_str).filter(|name| *name != "version").collect();
    let copy = format!(
        "insert into windlass_migrations (version, {0}) select 99, {0} from windlass_migrations limit 1",
        rest.join(", ")
    );
    connection.execute(&copy, []).unwrap();
    drop(connection);
    for args in [&["jobs"][..], &["enqueue", "NOOP"], &["serve", "--migrate"]] {
        place
            .run(args)
            .fails(1, &["the schema is at version 99", "use the windlass that migrated this database"]);
    }
}
