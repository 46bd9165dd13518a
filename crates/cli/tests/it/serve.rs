//! Workers as processes: work, signals, crashes.

use crate::place::Place;

#[test]
fn jobs_are_run_and_the_worker_stops_cleanly() {
    let place = Place::new();
    let mut server = place.serve(&["serve"]);
    assert!(server.output().contains("DEFAULT: 10 at once: FAIL, NOOP, SLEEP"), "{}", server.output());
    assert!(server.output().contains("Ctrl-C"));
    let done = place.run(&["enqueue", "NOOP", "--wait", "--json"]).ok().json();
    assert_eq!(done["state"], "completed");
    let failed_once =
        place.run(&["enqueue", "FAIL", "--payload", r#"{"times":1}"#, "--wait", "20", "--json"]).ok().json();
    assert_eq!(
        (failed_once["state"].as_str(), failed_once["attempt"].as_u64()),
        (Some("completed"), Some(2))
    );
    let id = failed_once["id"].as_str().unwrap();
    let shown = place.run(&["jobs", "show", id, "--json"]).ok().json();
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 2, "{shown}");
    place.run(&["jobs", "show", id]).ok().says(&["failure 1 of 1", "completed", "payload"]);
    let workers = place.run(&["workers", "--json"]).ok().json();
    assert_eq!(workers["items"].as_array().unwrap().len(), 1, "{workers}");
    place.run(&["doctor"]).ok().says(&["1 worker"]);
    server.signal("-TERM");
    assert_eq!(server.wait(), 0, "{}", server.output());
    assert!(server.output().contains("stopped"), "{}", server.output());
    place.run(&["workers"]).ok().says(&["no worker is alive"]);
}

#[test]
fn the_interface_is_served_beside_the_workers_and_stops_with_them() {
    let place = Place::new();
    let mut server = place.serve(&["serve"]);
    let url = server.address();
    assert!(server.output().contains("open to this machine: no keys"), "{}", server.output());
    let body = r#"{"kind":"NOOP"}"#;
    let head = format!("POST /v1/jobs HTTP/1.1\r\nHost: {url}\r\nConnection: close\r\nPrefer: wait=20\r\n");
    let request =
        format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = exchange(&url, &request);
    assert!(answer.starts_with("HTTP/1.1 201") && answer.contains(r#""state":"completed""#), "{answer}");
    let taken = place.run(&["serve", "--bind", &url, "--database", "sqlite://other.db"]);
    taken.fails(1, &["cannot serve", "is in use by another process", "--bind"]);
    server.signal("-TERM");
    assert_eq!(server.wait(), 0, "{}", server.output());
    assert!(std::net::TcpStream::connect(&url).is_err(), "still listening");
}

fn exchange(address: &str, request: &str) -> String {
    try_exchange(address, request).unwrap()
}

fn try_exchange(address: &str, request: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The response to a new entity under `key`; `None` if the server died meanwhile.
fn create(address: &str, key: &str) -> Option<String> {
    let body = r#"{"text":"made once"}"#;
    let head = format!("POST /v1/entities/document HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    let request = format!(
        "{head}Idempotency-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = try_exchange(address, &request).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let whole = serde_json::from_str::<serde_json::Value>(body).is_ok();
    assert!(!whole || head.starts_with("HTTP/1.1 202"), "{answer}");
    whole.then(|| body.to_owned())
}

/// Killed with writes in progress: repeating them gives one entity each, and the same response as before, if there was
/// one.
#[test]
fn a_write_under_a_key_is_done_once_across_a_kill() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const KEYS: usize = 400;
    const BEFORE: usize = 120;
    let place = Place::new();
    let server = place.serve(&["serve"]);
    let url = server.address();
    let answered = AtomicUsize::new(0);
    let first: Vec<Option<String>> = std::thread::scope(|scope| {
        let send = |from: usize| {
            let (url, answered) = (&url, &answered);
            scope.spawn(move || -> Vec<(usize, Option<String>)> {
                let one = |n: usize| {
                    let body = create(url, &format!("k{n}"))?;
                    answered.fetch_add(1, Ordering::SeqCst);
                    Some(body)
                };
                (from..KEYS).step_by(4).map(|n| (n, one(n))).collect()
            })
        };
        let threads: Vec<_> = (0..4).map(send).collect();
        while answered.load(Ordering::SeqCst) < BEFORE {
            std::thread::yield_now();
        }
        server.signal("-KILL");
        let mut all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        all.sort();
        all.into_iter().map(|(_, answer)| answer).collect()
    });
    assert!(first.iter().any(Option::is_none), "it was killed after the last write");
    drop(server);
    let again = place.serve(&["serve"]);
    let url = again.address();
    let mut ids = std::collections::HashSet::new();
    for (n, before) in first.iter().enumerate() {
        let body = create(&url, &format!("k{n}")).unwrap();
        assert!(before.as_ref().is_none_or(|before| *before == body), "{before:?} and then {body}");
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["version"], 1);
        ids.insert(answer["entity_id"].as_str().unwrap().to_owned());
    }
    let request =
        format!("GET /v1/entities/document?limit=1000 HTTP/1.1\r\nHost: {url}\r\nConnection: close\r\n\r\n");
    let answer = exchange(&url, &request);
    let page: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let stored: std::collections::HashSet<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((ids.len(), &stored), (KEYS, &ids));
}

#[test]
fn the_openapi_document_is_the_same_with_and_without_a_server() {
    let place = Place::new();
    let printed = place.run(&["openapi", "--json"]).ok();
    assert!(!place.database().exists(), "no database is needed");
    assert_eq!(place.run(&["openapi"]).ok().json(), printed.json());
    let server = place.serve(&["serve"]);
    let url = server.address();
    let request = format!("GET /openapi.json HTTP/1.1\r\nHost: {url}\r\nConnection: close\r\n\r\n");
    let answer = exchange(&url, &request);
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, printed.out.trim_end());
}

#[test]
fn a_public_bind_address_is_refused_before_anything_runs() {
    let place = Place::new();
    for bind in ["0.0.0.0:0", "[::]:0"] {
        let ran = place.run(&["serve", "--bind", bind]);
        ran.fails(1, &["reachable from other machines", "hint: bind a loopback address"]);
    }
    place.run(&["serve", "--bind", "everywhere"]).fails(2, &["--bind", "must be ADDRESS:PORT"]);
    let variable = [("WINDLASS_SERVER__BIND", "10.0.0.1:80")];
    place.run_env(&["serve"], &variable).fails(1, &["10.0.0.1:80 is reachable"]);
    place.run(&["workers"]).ok().says(&["no worker is alive"]);
}

#[test]
fn a_worker_serves_no_http() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let server = place.serve(&["worker"]);
    assert!(!server.output().contains("http://"), "{}", server.output());
}

#[test]
fn dead_letters_are_replayed() {
    let place = Place::new();
    place.run(&["migrate", "up"]).ok();
    let mut server = place.serve(&["worker", "--queues", "default,low"]);
    let ran = place.run(&["enqueue", "FAIL", "--payload", r#"{"times":1}"#, "--max-attempts", "1", "--wait"]);
    ran.fails(1, &["ended as dead_letter: failure 1 of 1"]);
    let letters = place.run(&["dead-letters", "--json"]).ok().json();
    let id = letters["items"][0]["id"].as_str().unwrap().to_owned();
    place.run(&["dead-letters", "show", &id]).ok().says(&["dead_letter", "failure 1 of 1"]);
    place.run(&["dead-letters", "replay", "--kind", "FAIL"]).fails(1, &["replay would touch 1 job"]);
    server.signal("-INT");
    assert_eq!(server.wait(), 0);
    place.run(&["dead-letters", "replay", &id]).ok().says(&["replay: 1 job done"]);
    place.run(&["dead-letters"]).ok().says(&["no jobs match"]);
    assert_eq!(place.count(&["--state", "pending"]), 1);
    place.run(&["dead-letters", "show", &id]).fails(1, &["there is no job"]);
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    let mut server = place.serve(&["serve"]);
    let job = place.run(&["enqueue", "SLEEP", "--payload", r#"{"ms":60000}"#, "--json"]).ok().json();
    let id = job["id"].as_str().unwrap();
    while place.count(&["--state", "running"]) == 0 {}
    server.signal("-INT");
    server.wait_for("stopping");
    server.signal("-INT");
    assert_eq!(server.wait(), 1, "{}", server.output());
    let _again = place.serve(&["serve", "--lease", "2s"]);
    let begun = std::time::Instant::now();
    while place.run(&["jobs", "show", id, "--json"]).ok().json()["state"] != "running" {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the job did not come back");
    }
}

#[test]
fn the_job_that_kills_its_process_is_found_and_others_complete() {
    let place = Place::new();
    let serve = || place.serve(&["serve", "--allow-abort", "--lease", "1s"]);
    let id = {
        let mut first = serve();
        let killer = place.run(&["enqueue", "ABORT", "--json"]).ok().json();
        assert_ne!(first.wait(), 0);
        killer["id"].as_str().unwrap().to_owned()
    };
    // Six deaths, and a worker that reclaims the last.
    for _ in 0..7 {
        let mut next = serve();
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_secs(15) {
            if place.count(&["--state", "dead_letter"]) == 1 {
                let done = place.run(&["enqueue", "NOOP", "--wait", "--json"]).ok().json();
                assert_eq!(done["state"], "completed");
                return;
            }
            // Does not wait out the delay before each trial.
            if place.count(&["--state", "scheduled"]) == 1 {
                place.run(&["jobs", "retry", &id]);
            }
            if !next.is_alive() {
                break;
            }
        }
    }
    let jobs = place.run(&["jobs", "--json"]).out;
    panic!("still not a dead letter: {jobs}");
}
