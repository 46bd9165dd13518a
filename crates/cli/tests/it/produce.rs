//! `enqueue`: one job, many jobs, and reading them back.

use crate::place::Place;

#[test]
fn enqueue_prints_the_job_like_the_http_interface() {
    let place = Place::new();
    let job = place.run(&["enqueue", "SLEEP", "--payload", r#"{"ms": 1}"#, "--json"]).ok().json();
    assert!(job["id"].is_string(), "{job}");
    let fields = [
        "id",
        "kind",
        "queue",
        "state",
        "priority",
        "payload",
        "attempt",
        "max_attempts",
        "run_at",
        "created_at",
        "started_at",
        "finished_at",
        "progress",
        "result",
        "last_error",
        "unique_key",
        "concurrency_key",
        "tags",
        "entity",
    ];
    for field in fields {
        assert!(job.get(field).is_some(), "{field} is missing in {job}");
    }
    assert_eq!((job["kind"].as_str(), job["queue"].as_str()), (Some("SLEEP"), Some("DEFAULT")));
    assert_eq!((job["state"].as_str(), job["duplicate"].as_bool()), (Some("pending"), Some(false)));
    assert_eq!(job["payload"], serde_json::json!({ "ms": 1 }));
}

#[test]
fn every_option_is_stored() {
    let place = Place::new();
    let args = [
        "enqueue",
        "NOOP",
        "--priority",
        "2",
        "--in",
        "PT1H",
        "--unique-key",
        "u",
        "--on-conflict",
        "keep",
        "--idempotency-key",
        "i",
        "--concurrency-key",
        "c",
        "--max-attempts",
        "3",
        "--timeout",
        "9s",
        "--tag",
        "a",
        "--tag",
        "b",
        "--json",
    ];
    let job = place.run(&args).ok().json();
    assert_eq!(job["state"], "scheduled");
    assert_eq!((job["priority"].as_u64(), job["max_attempts"].as_u64()), (Some(2), Some(3)));
    assert_eq!((job["unique_key"].as_str(), job["concurrency_key"].as_str()), (Some("u"), Some("c")));
    assert_eq!(job["tags"], serde_json::json!(["a", "b"]));
    let again = place.run(&args).ok().json();
    assert_eq!((again["id"].as_str(), again["duplicate"].as_bool()), (job["id"].as_str(), Some(true)));
    let at = place.run(&["enqueue", "NOOP", "--at", "2099-01-31T15:04:05Z", "--json"]).ok().json();
    assert_eq!(
        (at["state"].as_str(), at["run_at"].as_str()),
        (Some("scheduled"), Some("2099-01-31T15:04:05Z"))
    );
    assert_eq!(place.count(&["--tag", "a"]), 1);
}

#[test]
fn payloads_come_from_files_and_standard_input_byte_for_byte() {
    let place = Place::new();
    let text = r#"{"n": 12345678901234567890123, "s": "ä"}"#;
    place.write("payload.json", text);
    let file = place.run(&["enqueue", "NOOP", "--payload", "@payload.json", "--json"]).ok();
    assert!(file.out.contains("12345678901234567890123"), "{}", file.out);
    let piped = place.pipe(&["enqueue", "NOOP", "--payload", "-", "--json"], text).ok();
    assert!(piped.out.contains("12345678901234567890123"), "{}", piped.out);
}

#[test]
fn a_file_of_jobs_is_enqueued() {
    let place = Place::new();
    let mut lines = String::new();
    for n in 0..6_000 {
        lines.push_str(&format!("{{\"kind\":\"NOOP\",\"payload\":{{\"n\":{n}}},\"tags\":[\"bulk\"]}}\n\n"));
    }
    lines.push_str(r#"{"kind":"SLEEP","payload":{"ms":1},"delay":"1h","priority":1,"idempotency_key":"k"}"#);
    place.write("jobs.ndjson", &lines);
    let answer = place.run(&["enqueue", "--bulk", "jobs.ndjson", "--json"]).ok().json();
    assert_eq!(answer, serde_json::json!({ "enqueued": 6_001, "duplicates": 0 }));
    assert_eq!(place.count(&["--tag", "bulk"]), 6_000);
    let piped = place.pipe(&["enqueue", "--bulk", "-", "--json"], lines.lines().last().unwrap()).ok().json();
    assert_eq!(piped, serde_json::json!({ "enqueued": 0, "duplicates": 1 }));
    assert_eq!(place.count(&[]), 6_001);
}

#[test]
fn nothing_is_written_if_one_line_is_invalid() {
    let place = Place::new();
    let lines = "{\"kind\":\"NOOP\"}\n{\"kind\":\"NOPE\"}\n{\"kind\":\"NOOP\",\"prio\":1}\n{\"kind\":\n\
                 {\"kind\":\"NOOP\",\"delay\":\"-5m\"}\n{\"kind\":\"NOOP\",\"priority\":11,\"max_attempts\":0}\n";
    let parts = [
        "6 problems in standard input",
        "line 2: kind: `NOPE` is not registered; known kinds: FAIL, INDEX_ASYNC, INDEX_BATCH, NOOP, SLEEP",
        "line 3: prio: is not a field here; known: kind, payload, priority",
        "line 4: column",
        "line 5: delay: `-5m` is not a duration: it is negative",
        "line 6: priority: must be 0 (most urgent) to 10, not 11",
        "line 6: max_attempts: must be 1 to 1000, not 0",
        "hint: nothing was written",
    ];
    place.pipe(&["enqueue", "--bulk", "-"], lines).fails(1, &parts);
    assert_eq!(place.count(&[]), 0);
}

#[test]
fn waiting_without_a_worker_is_reported() {
    let place = Place::new();
    let parts = ["is not finished after", "windlass serve"];
    place.run(&["enqueue", "NOOP", "--wait", "1"]).fails(1, &parts).says(&["enqueued: NOOP in DEFAULT"]);
    place.run(&["enqueue", "NOOP", "--wait", "4"]).fails(1, &["waits: no worker runs on this database"]);
}

#[test]
fn a_job_refused_by_its_key_names_the_existing_job() {
    let place = Place::new();
    let first = place.run(&["enqueue", "NOOP", "--unique-key", "k", "--json"]).ok().json();
    let id = first["id"].as_str().unwrap();
    let reject = ["enqueue", "NOOP", "--unique-key", "k", "--on-conflict", "reject"];
    place.run(&reject).fails(1, &["unique key `k` is held by job", id]);
    let lines = ["enqueue", "NOOP", "--unique-key", "two\nlines", "--on-conflict", "reject"];
    place.run(&lines).ok();
    place.run(&lines).fails(1, &["unique key `two·lines` is held by job"]);
    place.run(&["enqueue", "NOOP", "--idempotency-key", "i", "--payload", "1"]).ok();
    let other = ["enqueue", "NOOP", "--idempotency-key", "i", "--payload", "2"];
    place.run(&other).fails(1, &["idempotency key `i` was used for another body"]);
    assert_eq!(place.count(&[]), 3);
}
