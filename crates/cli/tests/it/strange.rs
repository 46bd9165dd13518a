//! Servers that are missing, are not windlass, or are hostile.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::place::Place;

#[test]
fn a_missing_server_is_reported() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let parts = [format!("{server} does not answer"), "hint: check --server or WINDLASS_SERVER".to_owned()];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    for args in [&["jobs"][..], &["enqueue", "NOOP"], &["queues", "pause", "low"], &["top", "--json"]] {
        let ran = place.run(&[args, &["--server", &server]].concat()).fails(1, &parts);
        assert!(ran.out.is_empty(), "{}", ran.out);
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// Answers every request with these bytes until the test ends.
fn fake(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut seen = [0; 4096];
            let _ = stream.read(&mut seen);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

fn http(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

const HOSTILE: &str = r"\u001b[2J\u009b31m\u202ex\u0007";

#[test]
fn text_from_a_server_cannot_control_the_terminal() {
    let place = Place::new();
    let text = HOSTILE;
    let job = format!(
        r#"{{"id":"{text}","kind":"{text}","queue":"{text}","state":"{text}","last_error":"{text}","tags":["{text}"],
        "payload":"{text}","name":"{text}","counts":{{}},"jobs":[{{"name":"{text}","id":"{text}","state":"{text}"}}],
        "logs":[{{"at":"{text}","line":"{text}"}}],"next_tick":"{text}","rules":[{{"expr":"{text}"}}],"oldest_age_seconds":1e300,
        "sla_seconds":-1}}"#
    );
    let list = format!(r#"{{"items":[{job}],"next_cursor":"{text}"}}"#);
    let problem =
        format!(r#"{{"code":"not_found","title":"{text}","detail":"there is no {text}; known: {text}"}}"#);
    let good = |body: &str| fake(http("200 OK", "application/json", body));
    let (one, many) = (good(&job), good(&list));
    let refused = fake(http("404 Not Found", "application/problem+json", &problem));
    let verbs: &[&[&str]] = &[
        &["jobs"],
        &["jobs", "show", "7"],
        &["jobs", "show", "7", "--json"],
        &["enqueue", "NOOP"],
        &["enqueue", "NOOP", "--wait", "1"],
        &["queues"],
        &["kinds"],
        &["workers"],
        &["audit"],
        &["budgets"],
        &["schedules"],
        &["schedules", "show", "s"],
        &["schedules", "put", "s", "--kind", "NOOP", "--cron", "@daily"],
        &["workflows"],
        &["workflows", "show", "7"],
        &["backup"],
        &["top", "--json"],
        &["doctor"],
    ];
    for args in verbs {
        for server in [&one, &many, &refused] {
            let ran = place.run(&[*args, &["--server", server]].concat());
            assert!((0..=2).contains(&ran.code), "{args:?}: exit {}\n{}", ran.code, ran.err);
            for text in [&ran.out, &ran.err] {
                let hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                assert!(!text.contains(hostile), "{args:?}: {text:?}");
                assert!(!text.contains("panicked"), "{args:?}: {text}");
            }
        }
    }
}

/// A page of another server must not be shown as an empty list.
#[test]
fn a_response_of_another_server_is_refused() {
    let place = Place::new();
    let answers = [
        http("200 OK", "text/html", "<html>hello</html>"),
        http("404 Not Found", "text/html", "<html>nothing</html>"),
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
    ];
    for answer in answers {
        let server = fake(answer);
        for args in [&["jobs"][..], &["jobs", "count"], &["queues"], &["schedules"], &["workflows"]] {
            let ran = place.run(&[args, &["--server", &server]].concat());
            let ran = ran.fails(1, &["is not from a windlass server", "names a windlass server"]);
            assert!(ran.out.is_empty(), "{}", ran.out);
        }
    }
}

/// The key is sent with every request, and only to the named server.
#[test]
fn the_key_is_sent() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = [0; 4096];
        let length = stream.read(&mut seen).unwrap();
        stream.write_all(http("200 OK", "application/json", "{\"count\":7}").as_bytes()).unwrap();
        String::from_utf8_lossy(&seen[..length]).into_owned()
    });
    let variables = [("WINDLASS_SERVER", server.as_str()), ("WINDLASS_TOKEN", "hush")];
    assert_eq!(place.run_env(&["jobs", "count"], &variables).ok().out, "7\n");
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("GET /v1/jobs/count HTTP/1.1") && asked.contains("Bearer hush"), "{asked}");
}
