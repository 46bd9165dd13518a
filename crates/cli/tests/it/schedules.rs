//! Schedules in the database, and calculations that need no database.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn next_ticks_for_people_and_programs() {
    let place = Place::new();
    let args =
        ["schedules", "next", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-03-28T00:00:00Z"];
    let ticks = place.run(&[&args[..], &["-n", "3", "--json"]].concat()).ok().json();
    assert_eq!(
        ticks,
        json!({"ticks": ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]})
    );
    let table = ["2026-03-29T01:00:00Z  2026-03-29T03:00:00+02:00"];
    place.run(&args).ok().says(&table);
    place.on_a_terminal(&args).says(&table);
    let every = ["schedules", "next", "every PT1M30S", "--from", "2026-01-01T00:00:10Z", "-n", "2", "--json"];
    let ticks = place.run(&every).ok().json();
    assert_eq!(ticks, json!({"ticks": ["2026-01-01T00:01:40Z", "2026-01-01T00:03:10Z"]}));
    // From now on.
    assert!(place.run(&["schedules", "next", "@daily", "--json"]).ok().json()["ticks"][4].is_string());
    assert!(!place.path().join("windlass-data").exists(), "a question made a database");
}

#[test]
fn invalid_expressions_are_refused_with_field_and_rule() {
    let place = Place::new();
    // Not even the configuration is read.
    place.write("windlass.toml", "[nonsense]\n");
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["next", "61 * * * *"], 2, &["minute: 61 is not 0–59", "hint:"]),
        (&["next", "0 0 30 2 *"], 2, &["day of month: 30 never comes in month 2"]),
        (&["next", "@daily", "--zone", "Mars/Olympus"], 2, &["zone: `Mars/Olympus` is not a time zone"]),
        (&["next", "x * * * *", "--zone", "Mars"], 2, &["zone: `Mars`", "minute: `X` is not"]),
        (&["next", "@daily", "-n", "0"], 2, &["n: must be 1 to 1000, not 0"]),
        (&["next", "@daily", "--from", "soon"], 2, &["`soon` is not a time"]),
        (
            &["calendar", "LSE"],
            2,
            &["name: `LSE` is not a calendar; known: NYSE, or the path of a .toml file"],
        ),
        (&["calendar", "missing.toml"], 1, &["missing.toml: cannot be read", "hint:"]),
        (&["calendar", "NYSE", "--at", "1989-12-31T00:00:00Z"], 2, &["at: NYSE is known from 1990-01-01 on"]),
        (&["next"], 2, &["EXPR"]),
        (&["next", "@daily", "-n", "-1"], 2, &["n: must be 1 to 1000, not -1"]),
        (&["next", "@daily", "--file", "x.toml"], 2, &["cannot be used with"]),
        (&["next", "--file", "x.toml"], 1, &["x.toml: cannot be read"]),
        (
            &["next", "TZ=Europe/Berlin 0 0 * * *"],
            2,
            &["names the zone `Europe/Berlin`", "--zone Europe/Berlin"],
        ),
    ];
    for (args, code, parts) in cases {
        let ran = place.run(&[&["schedules"], *args].concat()).fails(*code, parts);
        assert!(ran.out.is_empty(), "{args:?} printed {}", ran.out);
    }
}

#[test]
fn lines_are_answered_one_by_one() {
    let place = Place::new();
    let input = concat!(
        r#"{"expr": "0 9 * * MON-FRI", "zone": "Asia/Tokyo", "from": "2026-05-01T12:00:00Z", "n": 2}"#,
        "\n\n",
        r#"{"expr": "61 * * * *"}"#,
        "\n",
        r#"{"expr": "@hourly"}"#,
        "\n{\"expr\": \n7\n",
        r#"{"expr": "@daily", "tz": "UTC", "n": 1.5}"#,
        "\n",
        r#"{"expr": "@daily", "n": 2000}"#,
        "\n",
        r#"{"zone": "UTC", "from": "monday"}"#,
    );
    let long = format!("{{\"expr\": \"{}\"}}", "1,".repeat(40_000));
    let input = format!("{long}\n{input}");
    let ran = place
        .pipe(&["schedules", "next", "-", "--from", "2026-05-01T12:30:00Z", "-n", "1"], &input)
        .fails(1, &[]);
    let answers = lines(&ran.out);
    let error =
        |n: usize| answers[n]["error"].as_str().unwrap_or_else(|| panic!("{}", answers[n])).to_owned();
    assert_eq!(answers.len(), 9);
    assert_eq!(error(0), "the line is longer than 65536 bytes");
    assert_eq!(answers[1], json!({"ticks": ["2026-05-04T00:00:00Z", "2026-05-05T00:00:00Z"]}));
    assert_eq!(error(2), "minute: 61 is not 0–59");
    assert_eq!(answers[3], json!({"ticks": ["2026-05-01T13:00:00Z"]}));
    assert!(error(4).contains("EOF while parsing"), "{}", error(4));
    assert_eq!(error(5), "must be an object, not a number");
    assert_eq!(
        error(6),
        "n: must be a whole number, not a number of another form; tz: is not a field here; known: expr, zone, from, n"
    );
    assert_eq!(error(7), "n: must be 1 to 1000, not 2000");
    assert!(
        error(8).starts_with("from: `monday` is not a time") || error(8).starts_with("expr: is required")
    );
    assert!(ran.err.is_empty(), "{}", ran.err);
    place.pipe(&["schedules", "next", "-"], "{\"expr\": \"@daily\"}\n").ok();
    place.pipe(&["schedules", "next", "-"], "").ok();
}

#[test]
fn an_interactive_caller_gets_each_answer_at_once() {
    let place = Place::new();
    let mut command = place.command(&["schedules", "next", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        questions.write_all(b"{\"expr\": \"@daily\", \"n\": 1}\n").unwrap();
        assert!(answers.next().unwrap().unwrap().starts_with("{\"ticks\":[\""));
    }
    drop(questions);
    assert!(child.wait().unwrap().success());
}

#[test]
fn ten_thousand_expressions_are_fast() {
    let place = Place::new();
    let zones = ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"];
    let line = |n: usize| {
        let expr = format!("{} {}-23/2 * {} {}", n % 60, n % 20, n % 12 + 1, n % 7);
        json!({"expr": expr, "zone": zones[n % 4], "from": "2026-03-07T00:00:00Z", "n": 4}).to_string() + "\n"
    };
    let input: String = (0..10_000).map(line).collect();
    let begun = Instant::now();
    let ran = place.pipe(&["schedules", "next", "-"], &input).ok();
    // Allows for a debug build on a busy machine; a release build takes a tenth of a second.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(ran.out.lines().count(), 10_000);
    assert!(lines(&ran.out).iter().all(|answer| answer["ticks"].as_array().unwrap().len() == 4));
}

#[test]
fn built_in_calendars_and_calendar_files_work() {
    let place = Place::new();
    let open =
        |name: &str, at: &str| place.run(&["schedules", "calendar", name, "--at", at, "--json"]).ok().json();
    assert_eq!(open("NYSE", "2026-11-27T17:59:59Z"), json!({"open": true}));
    assert_eq!(open("NYSE", "2026-11-27T18:00:00Z"), json!({"open": false}));
    assert_eq!(open("nyse", "2026-11-27T17:59:59Z"), json!({"open": true}), "no capitals are needed");
    place.run(&["schedules", "calendar", "NYSE", "--at", "2026-11-27T18:00:00Z"]).ok().says(&[
        "closed (after hours)",
        "session to            2026-11-27T18:00:00Z  2026-11-27T13:00:00-05:00",
        "opens                 2026-11-30T14:30:00Z",
    ]);
    place.write(
        "tokyo.toml",
        "zone = \"Asia/Tokyo\"\nclosed = [\"01-01\", 2026-01-02]\n[sessions]\nmon-fri = [\"09:00-11:30\", \"12:30-15:30\"]\n\
         [half_days]\n2026-12-30 = [\"09:00-11:30\"]\n",
    );
    assert_eq!(open("tokyo.toml", "2026-01-05T09:00:00+09:00"), json!({"open": true}));
    assert_eq!(open("tokyo.toml", "2026-01-02T09:00:00+09:00"), json!({"open": false}));
    assert_eq!(open("tokyo.toml", "2026-12-30T13:00:00+09:00"), json!({"open": false}));
    let input = concat!(
        "{\"name\": \"NYSE\", \"at\": \"2026-01-05T15:00:00Z\"}\n",
        "{\"name\": \"tokyo.toml\", \"at\": \"2026-01-05T12:00:00+09:00\"}\n",
        "{\"name\": \"LSE\", \"at\": \"2026-01-05T15:00:00Z\"}\n",
    );
    let ran = place.pipe(&["schedules", "calendar", "-"], input).fails(1, &[]);
    let answers = lines(&ran.out);
    assert_eq!(answers[..2], [json!({"open": true}), json!({"open": false})]);
    assert!(answers[2]["error"].as_str().unwrap().starts_with("name: `LSE` is not a calendar"));
}

#[test]
fn invalid_calendar_files_are_reported_with_what_and_where() {
    let place = Place::new();
    let cases = [
        ("broken", "zone = \"UTC\"\nclosed = [\n", "broken.toml: is not TOML in line"),
        (
            "unknown",
            "zone = \"UTC\"\nhours = 3\n",
            "hours: is not a key of a calendar; known: zone, sessions",
        ),
        ("zone", "[sessions]\nmon = [\"09:00-10:00\"]\n", "zone: `` is not a time zone"),
        ("shape", "zone = \"UTC\"\nsessions = 3\n", "sessions: must be a table; write it as [sessions]"),
        ("list", "zone = \"UTC\"\n[sessions]\nmon = \"09:00-10:00\"\n", "sessions.mon: must be a list"),
        ("texts", "zone = \"UTC\"\nclosed = [3]\n", "closed: must be a list of texts"),
        ("hours", "zone = \"UTC\"\n[sessions]\nmon = [\"9-10\"]\n", "sessions.mon: `9-10` is not a session"),
    ];
    for (name, text, part) in cases {
        let file = format!("{name}.toml");
        place.write(&file, text);
        place.run(&["schedules", "calendar", &file]).fails(1, &["cannot look at the calendar", part]);
    }
}

// In the database ----------------------------------------------------------------------------------------------------

#[test]
fn a_schedule_is_created_shown_and_deleted() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.run(&["schedules"]).ok().says(&["no schedules; `windlass schedules put --help` makes one"]);
    let put =
        ["schedules", "put", "nightly", "--kind", "NOOP", "--cron", "30 2 * * *", "--zone", "Europe/Berlin"];
    place.run(&put).ok().says(&["schedule nightly is new; next tick 20"]);
    place.run(&put).ok().says(&["schedule nightly was like this already"]);
    place.run(&[&put[..], &["--misfire", "all", "--catch-up", "3"]].concat()).ok().says(&["was changed"]);
    let every =
        ["schedules", "put", "often", "--kind", "SLEEP", "--every", "90s", "--payload", "{\"ms\": 1}"];
    place.run(&[&every[..], &["--unique-key", "k", "--tag", "t", "--priority", "2"]].concat()).ok();
    place.run(&["schedules"]).ok().says(&[
        "schedule  kind   when                        next tick",
        "nightly   NOOP   30 2 * * * (Europe/Berlin)  20",
        "often     SLEEP  every 90s",
    ]);
    let list = place.run(&["schedules", "list", "--json"]).ok().json();
    assert_eq!((&list["items"][0]["name"], &list["items"][1]["priority"]), (&json!("nightly"), &json!(2)));
    place.run(&["schedules", "show", "nightly"]).ok().says(&[
        "  rule            30 2 * * *",
        "  misfire         all, at most 3",
        "  last tick       –",
        "  missed          0",
        "T02:30:00+0",
    ]);
    let shown = place.run(&["schedules", "show", "often", "--json"]).ok().json();
    assert_eq!((&shown["payload"], &shown["tags"]), (&json!({"ms": 1}), &json!(["t"])));
    assert_eq!(shown["next_ticks"].as_array().unwrap().len(), 5);
    place.run(&["schedules", "pause", "often", "nightly"]).ok().says(&["paused"]);
    let paused = place.run(&["schedules", "show", "often", "--json"]).ok().json();
    assert_eq!((&paused["paused"], &paused["next_tick"]), (&json!(true), &Value::Null));
    let resumed = place.run(&["schedules", "resume", "often", "--json"]).ok().json();
    assert_eq!(resumed["items"][0]["next_tick"], shown["next_tick"]);
    place
        .run(&["schedules", "delete", "often", "nobody"])
        .fails(1, &["there is no schedule `nobody`", "nothing was changed"]);
    place
        .run(&["schedules", "delete", "often", "nightly"])
        .ok()
        .says(&["schedule often was deleted; its jobs stay"]);
    assert_eq!(place.run(&["schedules", "--json"]).ok().json()["items"], json!([]));
}

#[test]
fn put_refuses_with_field_and_rule() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["--kind", "NOOP", "--cron", "61 * * * *"],
            2,
            &["cron.minute: 61 is not 0–59", "nothing was written"],
        ),
        (&["--kind", "NOOP", "--every", "1ms"], 2, &["every: 1ms is not between 100ms and 366d"]),
        (&["--kind", "NOPE", "--cron", "@daily"], 1, &["kind: `NOPE` is not registered; known kinds:"]),
        (&["--kind", "NOOP", "--cron", "@daily", "--zone", "Mars"], 2, &["zone: `Mars` is not a time zone"]),
        (
            &["--kind", "NOOP", "--cron", "@daily", "--calendar", "LSE"],
            2,
            &["calendar: `LSE` is not a calendar"],
        ),
        (&["--kind", "NOOP", "--cron", "@daily", "--calendar", "no.toml"], 1, &["no.toml: cannot be read"]),
        (
            &["--kind", "NOOP", "--cron", "@daily", "--payload", "{"],
            1,
            &["cannot write the schedule: the payload is not JSON"],
        ),
        (&["--kind", "NOOP", "--cron", "@daily", "--misfire", "never"], 2, &["must be skip, once or all"]),
        (&["--kind", "NOOP", "--cron", "@daily", "--during", "open"], 2, &["--calendar"]),
        (&["--kind", "NOOP", "--cron", "@daily", "--every", "1h"], 2, &["cannot be used with"]),
        (&["--kind", "NOOP"], 2, &["one of --cron, --every and --file is required"]),
        (&["--cron", "@daily"], 2, &["--kind"]),
        (&["--file", "no.toml", "--kind", "NOOP"], 2, &["cannot be used with"]),
        (&["--file", "no.toml"], 1, &["no.toml: cannot be read"]),
    ];
    for (args, code, parts) in cases {
        place.run(&[&["schedules", "put", "s"], *args].concat()).fails(*code, parts);
    }
    place.write("bad.toml", "kind = \"NOOP\"\ncron = \"@daily\"\n[[rules]]\nexpr = 7\n");
    place
        .run(&["schedules", "put", "s", "--file", "bad.toml"])
        .fails(1, &["rules: cannot be given together"]);
    place.write("worse.toml", "kind = \"NOOP\"\nrules = [\n");
    place
        .run(&["schedules", "put", "s", "--file", "worse.toml"])
        .fails(1, &["worse.toml: is not TOML in line"]);
    let long = "n".repeat(56);
    place
        .run(&["schedules", "put", &long, "--kind", "NOOP", "--cron", "@daily"])
        .fails(2, &["name: must be 1–55 of A–Z"]);
    for verb in ["show", "run", "pause", "resume", "delete"] {
        place.run(&["schedules", verb, "nobody"]).fails(1, &["there is no schedule `nobody`"]);
    }
    assert_eq!(place.run(&["schedules", "--json"]).ok().json()["items"], json!([]));
}

#[test]
fn a_built_in_schedule_cannot_be_replaced() {
    let place = Place::new();
    place.write("windlass.toml", "[backup]\nfolder = \"copies\"\nevery = \"1d\"\n");
    let _server = place.serve(&["serve"]);
    let show = ["schedules", "show", "windlass-backup", "--json"];
    let before = place.run(&show).ok().json();
    let put = ["schedules", "put", "windlass-backup", "--kind", "NOOP", "--cron", "@daily"];
    let parts =
        ["name: `windlass-backup` is reserved", "paused, resumed, run and deleted", "nothing was written"];
    place.run(&put).fails(2, &parts);
    assert_eq!(place.run(&show).ok().json(), before);
    place.run(&["schedules", "pause", "windlass-backup"]).ok();
    place.run(&["schedules", "resume", "windlass-backup"]).ok();
    place.run(&["schedules", "run", "windlass-backup", "--wait"]).ok();
    place.run(&["schedules", "delete", "windlass-backup"]).ok();
}

#[test]
fn ticks_are_previewed_from_a_schedule_and_from_a_file() {
    let place = Place::new();
    let text = "kind = \"NOOP\"\n[[rules]]\nexpr = \"0 10 * * *\"\ncalendar = \"NYSE\"\n\
                [[rules]]\nexpr = \"0 10 * * *\"\nzone = \"Asia/Tokyo\"\n";
    place.write("rules.toml", text);
    let from = ["--from", "2026-01-05T00:00:00Z", "-n", "3"];
    let wanted = json!(["2026-01-05T01:00:00Z", "2026-01-05T15:00:00Z", "2026-01-06T01:00:00Z"]);
    let preview = [&["schedules", "next", "--file", "rules.toml"], &from[..]].concat();
    assert_eq!(place.run(&[&preview[..], &["--json"]].concat()).ok().json()["ticks"], wanted);
    let walls = ["2026-01-05T10:00:00+09:00", "2026-01-05T10:00:00-05:00"];
    place.on_a_terminal(&preview).says(&walls);
    assert!(!place.path().join("windlass-data").exists(), "a question made a database");
    place.run(&["migrate", "up"]).ok();
    place.run(&["schedules", "put", "s", "--file", "rules.toml"]).ok();
    let show = ["schedules", "show", "s"];
    place.run(&[&show[..], &from].concat()).ok().says(&walls);
    let shown = place.run(&[&show[..], &from, &["--json"]].concat()).ok().json();
    assert_eq!(shown["next_ticks"], wanted);
    let plain = place.run(&[&show[..], &["--json"]].concat()).ok().json();
    let more = place.run(&[&show[..], &["-n", "7", "--json"]].concat()).ok().json();
    assert_eq!(more["next_ticks"].as_array().unwrap()[..5], plain["next_ticks"].as_array().unwrap()[..]);
    assert_eq!(more["next_ticks"].as_array().unwrap().len(), 7);
    place.run(&["schedules", "pause", "s"]).ok();
    let paused = place.run(&[&show[..], &from, &["--json"]].concat()).ok().json();
    assert_eq!((&paused["next_ticks"], &paused["next_tick"]), (&wanted, &Value::Null), "what would be");
    place.run(&[&show[..], &["-n", "0"]].concat()).fails(2, &["n: must be 1 to 1000, not 0"]);
}

#[test]
fn a_worker_ticks_and_run_enqueues_one_manually() {
    let place = Place::new();
    let _server = place.serve(&["serve"]);
    let every = ["schedules", "put", "quick", "--kind", "NOOP", "--every", "100ms"];
    place.run(&every).ok();
    let begun = Instant::now();
    while place.count(&["--tag", "schedule:quick", "--state", "completed"]) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    place.run(&["schedules", "pause", "quick"]).ok();
    let before = place.run(&["schedules", "show", "quick", "--json"]).ok().json();
    assert!(before["last_tick"].is_string(), "{before}");
    let job = place.run(&["schedules", "run", "quick", "--wait", "20", "--json"]).ok().json();
    assert_eq!(
        (&job["state"], &job["tags"]),
        (&json!("completed"), &json!(["schedule:quick", "trigger:manual"]))
    );
    assert_eq!(
        place.run(&["schedules", "show", "quick", "--json"]).ok().json(),
        before,
        "no tick was touched"
    );
    place.run(&["schedules", "run", "quick"]).ok().says(&["enqueued: NOOP in DEFAULT"]);
}

/// One schedule with three rules on the market's calendar.
#[test]
fn the_stock_market_example_works() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/stock_refresh.toml");
    let put = ["schedules", "put", "stock-refresh", "--file", file];
    place.run(&put).fails(1, &["kind: `STOCK_REFRESH` is not registered"]);
    place.write("windlass.toml", "[kinds.STOCK_REFRESH]\nqueue = \"HIGH\"\n");
    place.run(&put).ok().says(&["schedule stock-refresh is new; next tick"]);
    place.run(&["schedules"]).ok().says(&["STOCK_REFRESH", "3 rules"]);
    let shown = place.run(&["schedules", "show", "stock-refresh", "--json"]).ok().json();
    let phases: Vec<&Value> =
        shown["rules"].as_array().unwrap().iter().map(|rule| &rule["during"][0]).collect();
    assert_eq!(phases, [&json!("open"), &json!("after_hours"), &json!("day_off")]);
    assert_eq!(
        (&shown["payload"], &shown["unique_key"]),
        (&json!({"market": "US"}), &json!("stock-refresh"))
    );
    place
        .run(&["schedules", "show", "stock-refresh"])
        .ok()
        .says(&["rule            */5 * * * *   NYSE: open"]);
}

#[test]
fn a_calendar_file_is_stored_with_the_schedule() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.write("tokyo.toml", "zone = \"Asia/Tokyo\"\n[sessions]\nmon-fri = [\"09:00-11:30\"]\n");
    let open =
        ["schedules", "calendar", "--file", "tokyo.toml", "--at", "2026-01-05T09:00:00+09:00", "--json"];
    assert_eq!(place.run(&open).ok().json(), json!({"open": true}));
    place.run(&["schedules", "calendar"]).fails(2, &["<NAME>"]);
    place
        .run(&["schedules", "put", "s", "--kind", "NOOP", "--cron", "0 * * * *", "--calendar", "tokyo.toml"])
        .ok();
    std::fs::remove_file(place.path().join("tokyo.toml")).unwrap();
    let shown = place.run(&["schedules", "show", "s", "--json"]).ok().json();
    assert_eq!(shown["rules"][0]["calendar"], "tokyo");
    assert_eq!(shown["calendars"]["tokyo"]["sessions"], json!({"mon-fri": ["09:00-11:30"]}));
    let hours =
        shown["next_ticks"].as_array().unwrap().iter().map(|tick| tick.as_str().unwrap()[11..13].to_owned());
    assert!(hours.into_iter().all(|hour| ["00", "01", "02"].contains(&hour.as_str())), "{shown}");
}
