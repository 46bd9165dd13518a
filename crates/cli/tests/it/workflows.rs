//! Workflows on the command line.

use std::path::Path;

use crate::place::Place;

const CHAIN: &str = r#"{"name": "chain", "jobs": [
    {"name": "b", "kind": "NOOP", "after": ["a"]}, {"name": "a", "kind": "NOOP"}]}"#;

#[test]
fn run_show_cancel_and_retry() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let made = place.pipe(&["workflows", "run", "-", "--json"], CHAIN).ok().json();
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!((made["state"].as_str(), made["jobs"][1]["name"].as_str()), (Some("running"), Some("b")));
    let shown = [
        "chain · running · 0 of 2 jobs completed · on failure: stop",
        "\n  a     pending",
        "\n  `- b  waits",
    ];
    place.run(&["workflows", "show", &id]).ok().says(&shown);
    let child = made["jobs"][1]["id"].as_str().unwrap();
    let page = ["scheduled (waits for others of its workflow)", "`- b  waits", "<- this job"];
    place.run(&["jobs", "show", child]).ok().says(&page);
    let job = place.run(&["jobs", "show", child, "--json"]).ok().json();
    assert_eq!((&job["waiting_on"][0], &job["graph"]), (&made["jobs"][0]["id"], &made));
    place.run(&["workflows", "cancel", &id]).ok().says(&["· cancelled ·"]);
    let why = ["stays as it is", "is cancelled; cancel needs one that has not ended"];
    place.run(&["workflows", "cancel", &id]).fails(1, &why);
    place.run(&["workflows", "--state", "cancelled"]).ok().says(&[&id, "chain"]);
    place.run(&["workflows", "retry", &id]).ok().says(&["· running ·", "a     pending"]);
    let list = place.run(&["workflows", "--json"]).ok().json();
    assert_eq!(
        (list["items"][0]["id"].as_str(), &list["next_cursor"]),
        (Some(id.as_str()), &serde_json::Value::Null)
    );
    place.run(&["workflows", "show", "7"]).fails(1, &["there is no workflow 7 here"]);
    place.run(&["workflows", "--state", "odd"]).fails(2, &["is not a workflow's state"]);
}

#[test]
fn an_invalid_workflow_file_is_refused() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let circle = r#"{"jobs": [{"name": "a", "kind": "NOOP", "after": ["a"]}, {"kind": "NOOP"}]}"#;
    let parts = ["jobs[1].name: is required", "nothing was written"];
    place.pipe(&["workflows", "run", "-"], circle).fails(1, &parts);
    let unknown = r#"{"jobs": [{"name": "a", "kind": "NO"}]}"#;
    place.pipe(&["workflows", "run", "-"], unknown).fails(1, &["jobs[0].kind"]);
    place.run(&["workflows", "run", "nowhere.json"]).fails(1, &["cannot run the workflow of nowhere.json"]);
    assert_eq!(place.count(&[]), 0);
}

/// The example file in the repository, run by a server.
#[test]
fn the_example_runs_to_its_end() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/order.json");
    let made = place.run(&["workflows", "run", file.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(made["jobs"].as_array().unwrap().len(), 4);
    let last = made["jobs"][3]["id"].as_str().unwrap();
    let _worker = place.serve(&["serve"]);
    let begun = std::time::Instant::now();
    while place.count(&["--state", "completed"]) < 4 {
        assert!(begun.elapsed().as_secs() < 60, "{}", place.run(&["jobs", "show", last]).ok().out);
    }
    let id = made["id"].as_str().unwrap();
    place.run(&["workflows", "show", id]).ok().says(&["order · completed · 4 of 4 jobs completed"]);
}

/// Waiting ends with the workflow, and the exit code says whether it completed.
#[test]
fn run_waits_for_the_end() {
    let place = Place::new();
    let worker = place.serve(&["serve"]);
    let ran = place.pipe(&["workflows", "run", "-", "--wait"], CHAIN).ok();
    ran.says(&["chain · completed · 2 of 2 jobs completed"]);
    let ran = place.pipe(&["workflows", "run", "-", "--wait", "30", "--json"], CHAIN).ok().json();
    assert_eq!(
        (ran["state"].as_str(), ran["jobs"][1]["state"].as_str()),
        (Some("completed"), Some("completed"))
    );
    let fails = r#"{"jobs": [{"name": "a", "kind": "FAIL", "payload": {"times": 9}, "max_attempts": 1},
        {"name": "b", "kind": "NOOP", "after": ["a"]}]}"#;
    let why = ["ended as failed: a is dead_letter, b is cancelled", "windlass workflows show"];
    place.pipe(&["workflows", "run", "-", "--wait"], fails).fails(1, &why).says(&["· failed ·"]);
    let ran = place.pipe(&["workflows", "run", "-", "--wait", "--json"], fails).fails(1, &why);
    assert_eq!(ran.json()["state"].as_str(), Some("failed"));
    drop(worker);
    let late = [
        "was started but not awaited to its end: it has not ended after 1s",
        "`windlass serve` starts a worker",
    ];
    place.pipe(&["workflows", "run", "-", "--wait", "1"], CHAIN).fails(1, &late).says(&["· running ·"]);
    let file = place.write("chain.json", CHAIN);
    let order = ["workflows", "run", "--wait", file.to_str().unwrap()];
    place.run(&order).fails(2, &["is not a number of seconds; put what to run before --wait"]);
}

/// Without a progress bar, long work prints its progress now and then.
#[test]
fn a_long_wait_prints_progress() {
    let place = Place::new();
    let _worker = place.serve(&["serve"]);
    let long = r#"{"jobs": [{"name": "a", "kind": "NOOP"},
        {"name": "b", "kind": "SLEEP", "payload": {"ms": 3500}, "after": ["a"]}]}"#;
    let ran = place.pipe(&["workflows", "run", "-", "--wait"], long).ok();
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("jobs: ")).collect();
    assert_eq!(lines, ["jobs: 1 of 2", "jobs: 2 of 2"], "{}", ran.err);
}

#[test]
fn too_many_edges_are_refused_before_anything_is_written() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let job = |n: usize| {
        let after: Vec<String> = (0..n).map(|k| format!("j{k}")).collect();
        serde_json::json!({"name": format!("j{n}"), "kind": "NOOP", "after": after})
    };
    let jobs: Vec<serde_json::Value> = (0..200).map(job).collect();
    let dense = serde_json::json!({ "jobs": jobs }).to_string();
    let parts = [
        "jobs[].after: has 19900 entries over all jobs; a workflow has at most 10000",
        "nothing was written",
    ];
    place.pipe(&["workflows", "run", "-"], &dense).fails(1, &parts);
    assert_eq!(place.count(&[]), 0);
}
