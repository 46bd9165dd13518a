//! Every command in docs/runbook.md works on a real database.

use std::time::{Duration, Instant};

use crate::place::{Place, postgres, words};

const PAGE: &str = include_str!("../../../../docs/runbook.md");

const CONFIG: &str = "
[kinds.RSS_FEED_REFRESH]
queue = \"DEFAULT\"
[kinds.AI_TAGGING]
queue = \"BULK\"
[budgets.ai]
limit = 500.00
";

/// The lines of the code blocks.
fn commands() -> Vec<&'static str> {
    let blocks = PAGE.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect()
}

/// Data for the commands: a dead letter, a running job, a schedule.
fn prepare(place: &Place) {
    place.run(&["enqueue", "FAIL", "--payload", "{\"times\": 9}", "--max-attempts", "1"]).ok();
    place.run(&["schedules", "put", "nightly-tagging", "--kind", "AI_TAGGING", "--cron", "30 2 * * *"]).ok();
    let server = place.serve(&["worker"]);
    let begun = Instant::now();
    while place.count(&["--state", "dead_letter"]) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", server.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn id(place: &Place, state: &str) -> String {
    let jobs = place.run(&["jobs", "--state", state, "--json"]).ok().json();
    jobs["items"][0]["id"].as_str().unwrap_or_else(|| panic!("no job is {state}")).to_owned()
}

/// The value of `ID` in a command.
fn subject(place: &Place, line: &str) -> String {
    match line {
        _ if line.contains("dead-letters") => id(place, "dead_letter"),
        _ if line.contains("cancel") => {
            let job = place.run(&["enqueue", "SLEEP", "--payload", "{\"ms\": 1}", "--json"]).ok().json();
            job["id"].as_str().unwrap().to_owned()
        }
        _ if line.contains("jobs set") => {
            let job = place.run(&["enqueue", "NOOP", "--in", "2h", "--json"]).ok().json();
            job["id"].as_str().unwrap().to_owned()
        }
        _ => id(place, "cancelled"),
    }
}

fn run_all(place: &Place) {
    let commands = commands();
    assert!(commands.len() > 40, "{commands:?}");
    for line in commands {
        let words = words(line);
        assert_eq!(words[0], "windlass", "{line}");
        let args: Vec<String> = words[1..]
            .iter()
            .map(|word| if word == "ID" { subject(place, line) } else { word.clone() })
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        if args[0] == "worker" {
            place.serve(&args);
            continue;
        }
        let ran = place.run(&args);
        // A check may find waiting jobs without a worker, or a server tuned for tests; that is fine too.
        let fine = ran.code == 0 || args[0] == "doctor" && ran.out.contains("ok    database");
        assert!(fine, "{line}\n{}\n{}", ran.out, ran.err);
    }
}

#[test]
fn every_command_of_the_runbook_works_on_sqlite() {
    let place = Place::new();
    place.write("windlass.toml", CONFIG);
    prepare(&place);
    run_all(&place);
}

#[test]
fn every_command_of_the_runbook_works_on_postgres() {
    let place = Place::new();
    let url = postgres("runbook");
    place.write("windlass.toml", format!("[database]\nurl = \"{url}\"\n{CONFIG}"));
    place.run(&["migrate", "up"]).ok();
    prepare(&place);
    run_all(&place);
    assert!(!place.database().exists(), "all of it was about {url}");
    place.run(&["migrate", "down", "--to", "0"]).ok();
}
