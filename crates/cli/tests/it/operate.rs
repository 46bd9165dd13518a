//! Operating: jobs, dead letters, queues, kinds, workers, cleanup, doctor, migrations.

use serde_json::json;

use crate::place::Place;

fn fill(place: &Place, jobs: usize, tag: &str) {
    let line = format!("{{\"kind\":\"NOOP\",\"payload\":{{}},\"tags\":[\"{tag}\"]}}\n");
    place.pipe(&["enqueue", "--bulk", "-"], &line.repeat(jobs)).ok();
}

#[test]
fn pages_follow_each_other_and_a_bare_noun_lists() {
    let place = Place::new();
    fill(&place, 5, "a");
    let first = place.run(&["jobs", "--limit", "2", "--json"]).ok().json();
    let cursor = first["next_cursor"].as_str().unwrap().to_owned();
    let second = place.run(&["jobs", "list", "--limit", "2", "--cursor", &cursor, "--json"]).ok().json();
    let cursor = second["next_cursor"].as_str().unwrap().to_owned();
    let last = place.run(&["jobs", "list", "--limit", "2", "--cursor", &cursor, "--json"]).ok().json();
    let mut ids: Vec<String> = [&first, &second, &last]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap().iter())
        .map(|job| job["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(last["next_cursor"].is_null());
    ids.dedup();
    assert_eq!(ids.len(), 5);
    place.run(&["jobs"]).ok().says(&["id", "NOOP", "DEFAULT", "pending", "0/5"]);
    for noun in ["jobs", "queues", "kinds", "workers", "budgets", "dead-letters", "cleanup"] {
        let bare = place.run(&[noun, "--json"]).ok().json();
        assert!(bare["items"].is_array(), "{noun}: {bare}");
    }
}

#[test]
fn the_database_may_be_named_anywhere() {
    let place = Place::new();
    let url = "sqlite://other.db";
    place.run(&["--database", url, "enqueue", "NOOP"]).ok();
    for args in [
        &["--database", url, "jobs", "count"][..],
        &["jobs", "count", "--database", url],
        &["jobs", "--database", url, "count"],
    ] {
        assert_eq!(place.run(args).ok().out, "1\n", "{args:?}: a pipe changes nothing");
    }
    let count = ["jobs", "count", "--json", "--database", url];
    assert_eq!(place.run(&count).ok().out, "{\"count\":1}\n", "for programs");
    assert!(!place.database().exists());
    place
        .run(&["jobs", "--state", "failed", "count"])
        .fails(2, &["options go after the verb: windlass jobs count"]);
    place.run(&["queues", "--json", "list"]).fails(2, &["options go after the verb"]);
}

#[test]
fn bulk_actions_need_confirmation() {
    let place = Place::new();
    fill(&place, 3, "a");
    fill(&place, 2, "b");
    let parts = ["nothing was changed: cancel would touch 3 jobs", "--yes"];
    place.run(&["jobs", "cancel", "--tag", "a"]).fails(1, &parts);
    assert_eq!(place.count(&["--state", "pending"]), 5);
    let done = place.run(&["jobs", "cancel", "--tag", "a", "--yes", "--json"]).ok().json();
    assert_eq!(done["done"], 3);
    assert_eq!(place.count(&["--state", "cancelled"]), 3);
    place.run(&["jobs", "retry", "--tag", "a", "--yes"]).ok().says(&["retry: 3 jobs done"]);
    assert_eq!(place.count(&["--state", "pending"]), 5);
    place.run(&["jobs", "cancel", "--state", "pending", "--yes"]).ok();
    place.run(&["jobs", "delete", "--state", "cancelled", "--tag", "b", "--yes"]).ok().says(&["2 jobs done"]);
    assert_eq!(place.count(&[]), 3);
}

#[test]
fn actions_by_id_report_jobs_in_the_wrong_state() {
    let place = Place::new();
    let job = place.run(&["enqueue", "NOOP", "--json"]).ok().json();
    let id = job["id"].as_str().unwrap();
    place.run(&["jobs", "delete", id]).fails(1, &["1 job in a state that does not allow it"]);
    place.run(&["jobs", "cancel", id, id]).ok().says(&["cancel: 1 job done"]);
    place.run(&["jobs", "delete", id]).ok();
    place.run(&["jobs", "show", id]).fails(1, &[&format!("there is no job {id} here")]);
}

#[test]
fn queues_change_live() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    place.run(&["queues", "pause", "low", "HIGH"]).ok().says(&["LOW", "HIGH", "paused"]);
    for (filter, lines) in [
        (vec!["--act", "queue."], 2),
        (vec!["--act", "job."], 0),
        (vec!["--subject", "queue/LOW"], 1),
        (vec!["--actor", "nobody"], 0),
        (vec!["--to", "2020-01-01T00:00:00Z"], 0),
        (vec!["--from", "2020-01-01T00:00:00Z"], 2),
    ] {
        let audit = place.run(&[&["audit", "--json"], filter.as_slice()].concat()).ok().json();
        assert_eq!(audit["items"].as_array().unwrap().len(), lines, "{filter:?}: {audit}");
    }
    let set =
        place.run(&["queues", "set", "low", "--concurrency", "2", "--depth-cap", "1", "--json"]).ok().json();
    let low = &set["items"][0];
    assert_eq!((low["name"].as_str(), low["paused"].as_bool()), (Some("LOW"), Some(true)));
    assert_eq!((low["concurrency"].as_u64(), low["depth_cap"].as_u64()), (Some(2), Some(1)));
    let limited = place.run(&["queues", "set", "low", "--global-concurrency", "4", "--json"]).ok().json();
    assert_eq!(limited["items"][0]["global_concurrency"].as_u64(), Some(4));
    let lifted = place.run(&["queues", "set", "low", "--global-concurrency", "none", "--json"]).ok().json();
    assert!(lifted["items"][0]["global_concurrency"].is_null());
    place
        .run(&["queues", "set", "low", "--global-concurrency", "0"])
        .fails(2, &["must be 1 to 1000000, none, or configured"]);
    for (value, shown) in [("90s", json!(90.0)), ("none", json!(null)), ("configured", json!(600.0))] {
        let set = place.run(&["queues", "set", "low", "--boost-after", value, "--json"]).ok().json();
        assert_eq!(set["items"][0]["boost_after_seconds"], shown);
    }
    let rule = "must be a duration above 0 such as 90s, or none, or configured";
    place.run(&["queues", "set", "low", "--boost-after", "0s"]).fails(2, &[rule]);
    place.run(&["queues", "resume", "low"]).ok();
    place.run(&["queues", "set", "default", "--depth-cap", "2"]).ok();
    fill(&place, 2, "a");
    place.run(&["enqueue", "NOOP"]).fails(1, &["queue DEFAULT holds 2 waiting jobs, its cap"]);
    place.run(&["queues", "set", "default", "--depth-cap", "none"]).ok();
    place.run(&["enqueue", "NOOP"]).ok();
    place.run(&["queues"]).ok().says(&["queue", "waiting", "P95 (1 h)", "SLA", "SCREENSHOT", "2m"]);
    place.run(&["kinds"]).ok().says(&["FAIL", "NOOP", "SLEEP", "DEFAULT", "30m"]);
    place.run(&["workers"]).ok().says(&["no worker is alive"]);
}

#[test]
fn cleanup_counts_before_it_removes() {
    let place = Place::new();
    fill(&place, 3, "a");
    place.run(&["jobs", "cancel", "--tag", "a", "--yes"]).ok();
    place.run(&["cleanup"]).ok().says(&[
        "finished",
        "dead-letters",
        "idempotency",
        "rollups",
        "would remove",
    ]);
    let dry = ["cleanup", "run", "finished", "--older-than", "0s", "--dry-run", "--json"];
    assert_eq!(place.run(&dry).ok().json()["items"][0]["rows"], 3);
    assert_eq!(place.count(&[]), 3);
    place.run(&["cleanup", "run", "finished", "--older-than", "0s"]).ok().says(&["removed", "3"]);
    assert_eq!(place.count(&[]), 0);
}

#[test]
fn doctor_creates_nothing_and_names_the_remedy() {
    let place = Place::new();
    place.run(&["doctor"]).ok().says(&["ok", "does not exist yet", "all is well"]);
    assert!(!place.path().join("windlass-data").exists());
    place.run(&["enqueue", "NOOP"]).ok();
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    ran.says(&["warn  workers: 0 workers, 1 job waiting", "windlass serve"]);
    let report = place.run(&["doctor", "--json"]);
    assert_eq!((report.code, report.json()["ok"].as_bool()), (1, Some(false)));
    place.run(&["migrate", "down", "--to", "0"]).ok();
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 1);
    ran.says(&["FAIL  schema", "windlass migrate up"]);
}

#[test]
fn migrations_go_up_and_down() {
    let place = Place::new();
    place.run(&["migrate", "status"]).fails(1, &["there is no such file"]);
    assert!(!place.path().join("windlass-data").exists());
    place.run(&["migrate", "up"]).ok().says(&["applied 1"]);
    place.run(&["migrate", "up"]).ok().says(&["is up to date"]);
    let status = place.run(&["migrate", "status", "--json"]).ok().json();
    assert!(
        status["items"].as_array().unwrap().iter().all(|item| item["applied_at"].is_string()),
        "{status}"
    );
    place.run(&["migrate", "down", "--to", "0"]).ok().says(&["reverted"]);
    place.run(&["migrate", "status"]).ok().says(&["version", "not yet"]);
}

#[test]
fn stored_text_cannot_control_the_terminal() {
    let place = Place::new();
    let payload = r#"{"a": "\u001b[2J\u009b31m\u202e"}"#;
    let key = "k\x1b]0;owned\x07\u{202e}\n";
    let job = place.run(&["enqueue", "NOOP", "--payload", payload, "--unique-key", key, "--json"]).ok();
    let id = job.json()["id"].as_str().unwrap().to_owned();
    let listed = place.run(&["jobs"]).ok();
    let shown = place.run(&["jobs", "show", &id]).ok().says(&["\\u{1b}]0;owned\\u{7}"]);
    let json = place.run(&["jobs", "show", &id, "--json"]).ok();
    let missing = place.run(&["jobs", "--queue", "\x1b[2J"]);
    for text in [&job.out, &listed.out, &shown.out, &json.out, &missing.err] {
        let hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(hostile), "{text:?}");
    }
    assert_eq!(json.json()["unique_key"], key);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let place = Place::new();
    fill(&place, 1_000, "a");
    let binary = env!("CARGO_BIN_EXE_windlass");
    let script = format!("{binary} jobs --limit 1000 | head -1; exit ${{PIPESTATUS[0]}}");
    let ran =
        std::process::Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    assert_eq!(ran.status.code(), Some(0));
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        place.run(&["completions", shell]).ok().says(&["dead-letters"]);
    }
    place.run(&["completions", "tcsh"]).fails(2, &["invalid value 'tcsh'"]);
}

/// The other process learns of it only through the database.
#[test]
fn concurrency_stays_within_its_bounds_and_bounds_can_be_removed() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let set = |more: &[&str]| place.run(&[&["queues", "set", "default"], more].concat());
    set(&["--concurrency-min", "1", "--concurrency-max", "20"]).ok();
    set(&["--concurrency", "25"])
        .fails(2, &["concurrency: 25", "1 to 20", "concurrency_max", "nothing was changed"]);
    let set_output = set(&["--concurrency", "3"]).ok();
    assert!(
        set_output.err.contains("3 is where each process starts") && set_output.err.contains("1 and 20"),
        "{}",
        set_output.err
    );
    set(&["--concurrency-min", "2", "--concurrency-max", "none"]).fails(2, &["concurrency_min"]);
    let free = set(&["--concurrency-min", "none", "--concurrency", "25", "--json"]).ok().json();
    let queue = &free["items"][0];
    assert_eq!(
        (&queue["concurrency"], &queue["concurrency_min"]),
        (&serde_json::json!(25), &serde_json::Value::Null)
    );
    for (option, value, rule) in [
        ("--concurrency", "-1", "1 to 10000, or configured"),
        ("--depth-cap", "-1", "1 to 1000000000, none, or configured"),
        ("--global-concurrency", "-4", "1 to 1000000, none, or configured"),
        ("--permits", "none", "1 to 10000"),
    ] {
        set(&[option, value]).fails(2, &[option, rule]);
    }
}

#[test]
fn live_values_are_shown_and_can_be_reset() {
    let place = Place::new();
    let file = "[queues.DEFAULT]\nconcurrency = 7\ndepth_cap = 50\n[kinds.NOOP]\nrate = \"9/s\"\n";
    std::fs::write(place.path().join("windlass.toml"), file).unwrap();
    place.run(&["enqueue", "NOOP", "--in", "1h"]).ok();
    place.run(&["doctor"]).ok().says(&["live values: none"]);
    place.run(&["queues", "set", "default", "--concurrency", "3", "--depth-cap", "none"]).ok();
    place.run(&["kinds", "set", "NOOP", "--rate", "none"]).ok();
    place.run(&["doctor"]).ok().says(&[
        "ok",
        "3 values hold",
        "queues.DEFAULT.concurrency 3 (configured: 7)",
    ]);
    let shown = place.run(&["config", "show", "--json"]).ok().json();
    let live: Vec<String> = shown["live"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| format!("{} {} {}", of["key"], of["value"], of["configured"]).replace('"', ""))
        .collect();
    let expected =
        ["queues.DEFAULT.concurrency 3 7", "queues.DEFAULT.depth_cap none 50", "kinds.NOOP.rate none 9/s"];
    assert_eq!(live, expected);
    place.run(&["config", "show"]).ok().says(&["set live instead of 7"]);
    place.run(&["queues", "set", "default", "--concurrency", "configured", "--depth-cap", "configured"]).ok();
    place.run(&["kinds", "set", "NOOP", "--rate", "configured"]).ok();
    place.run(&["doctor"]).ok().says(&["live values: none"]);
    place.run(&["kinds"]).ok().says(&["9/s"]);
}

#[test]
fn limits_are_set_and_a_running_server_follows() {
    let place = Place::new();
    place.write(
        "windlass.toml",
        "[kinds.SLEEP]\nresource = \"bed\"\npermits = 1\n[kinds.NOOP]\nrate = \"30/m\"\n\
         [queues.BULK]\nconcurrency = 8\nconcurrency_max = 32\n",
    );
    let _server = place.serve(&["serve"]);
    for _ in 0..4 {
        place.run(&["enqueue", "SLEEP", "--payload", "{\"ms\":600000}"]).ok();
    }
    let running = |wanted: u64| {
        let begun = std::time::Instant::now();
        while place.count(&["--state", "running"]) != wanted {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "not {wanted} running");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    running(1);
    place.run(&["workers"]).ok().says(&["bed 1/1", "DEFAULT (10)"]);
    let worker = place.run(&["workers", "--json"]).ok().json()["items"][0].clone();
    assert_eq!((&worker["resources"][0]["in_use"], &worker["resources"][0]["free"]), (&1.into(), &0.into()));
    place.run(&["kinds", "set", "SLEEP", "--permits", "3"]).ok().says(&["bed (3)"]);
    running(3);
    place.run(&["queues", "set", "default", "--concurrency", "4"]).ok();
    place.run(&["kinds", "set", "SLEEP", "--permits", "9"]).ok();
    running(4);
    place.run(&["jobs", "cancel", "--kind", "SLEEP", "--yes"]).ok();
    running(0);
    place.run(&["kinds"]).ok().says(&["30/m", "bed (9)"]);
    place.run(&["queues"]).ok().says(&["8–32"]);
    let kind =
        place.run(&["kinds", "set", "NOOP", "--rate", "none", "--json"]).ok().json()["items"][0].clone();
    assert!(kind["rate"].is_null(), "{kind}");
}

#[test]
fn invalid_limits_are_refused() {
    let place = Place::new();
    place.run(&["enqueue", "NOOP"]).ok();
    let at_once = |value: &str| {
        let value = place.run(&["kinds", "set", "NOOP", "--key-concurrency", value, "--json"]).ok().json();
        value["items"][0]["key_concurrency"].clone()
    };
    assert_eq!((at_once("4"), at_once("configured")), (4.into(), 1.into()));
    place.run(&["kinds", "set", "NOOP", "--key-concurrency", "0"]).fails(2, &["1 to 10000, or configured"]);
    place.run(&["kinds", "set", "NOOP"]).fails(2, &["--rate", "--permits", "--key-concurrency"]);
    place.run(&["kinds", "set", "NOOP", "--rate", "fast"]).fails(2, &["500/s, 30/m"]);
    place.run(&["kinds", "set", "NOPE", "--rate", "1/s"]).fails(1, &["there is no kind `NOPE`", "NOOP"]);
    place
        .run(&["kinds", "set", "NOOP", "--permits", "2"])
        .fails(1, &["kinds.NOOP.resource", "nothing was changed"]);
    place.run(&["queues", "set", "low"]).fails(2, &["--concurrency", "--permits"]);
    place.run(&["queues", "set", "low", "--permits", "2"]).fails(1, &["queues.LOW.resource"]);
    place
        .run(&["queues", "set", "low", "--concurrency-max", "2"])
        .fails(2, &["concurrency_max", "from 5 to 2"]);
    let shot = place.run(&["queues", "set", "screenshot", "--permits", "2", "--json"]).ok().json();
    assert_eq!(
        (&shot["items"][0]["resource"], &shot["items"][0]["permits"]),
        (&"screenshot".into(), &2.into())
    );
}

#[test]
fn a_waiting_job_is_rescheduled() {
    let place = Place::new();
    let id = |args: &[&str]| {
        let made = place.run(&[&["enqueue", "NOOP", "--json"], args].concat()).ok().json();
        made["id"].as_str().unwrap().to_owned()
    };
    let job = id(&["--in", "2h"]);
    let shown = place.run(&["jobs", "set", &job, "--priority", "0", "--json"]).ok().json();
    assert_eq!((shown["priority"].as_u64(), shown["state"].as_str()), (Some(0), Some("scheduled")));
    let at = "2099-01-31T15:04:05Z";
    let shown = place.run(&["jobs", "set", &job, "--run-at", at, "--json"]).ok().json();
    assert_eq!((shown["priority"].as_u64(), shown["run_at"].as_str()), (Some(0), Some(at)));
    let soon = place.run(&["jobs", "set", &job, "--in", "5m", "--json"]).ok().json();
    let ahead = |job: &serde_json::Value| {
        let time = |name: &str| job[name].as_str().unwrap().parse::<windlass_core::Time>().unwrap();
        time("run_at").since(time("created_at")).as_secs()
    };
    assert!((300..400).contains(&ahead(&soon)), "{soon}");
    place.run(&["jobs", "set", &job, "--in", "0s"]).ok().says(&["pending"]);
    place.run(&["jobs", "cancel", &job]).ok();
    let why = format!("cannot change job {job}: job {job} is cancelled; only a waiting job can be changed");
    place.run(&["jobs", "set", &job, "--priority", "1"]).fails(1, &[&why]);
    place.run(&["jobs", "set", "7", "--priority", "1"]).fails(1, &["there is no job 7 here"]);
    place.run(&["jobs", "set", &job]).fails(2, &["--priority", "--run-at", "--in"]);
    place.run(&["jobs", "set", &job, "--priority", "11"]).fails(2, &["11 is not in 0..=10"]);
    place.run(&["jobs", "set", &job, "--run-at", at, "--in", "5m"]).fails(2, &["cannot be used with"]);
    let chain = r#"{"jobs": [{"name": "a", "kind": "NOOP"}, {"name": "b", "kind": "NOOP", "after": ["a"]}]}"#;
    let made = place.pipe(&["workflows", "run", "-", "--json"], chain).ok().json();
    let child = made["jobs"][1]["id"].as_str().unwrap();
    place.run(&["jobs", "set", child, "--in", "0s"]).fails(1, &["waits for others of its workflow"]);
}
