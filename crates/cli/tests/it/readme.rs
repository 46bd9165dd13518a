//! The commands in README.md work as written, in order, and docs/cli.md lists every verb.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::place::Place;

const README: &str = include_str!("../../../../README.md");
const VERBS: &str = include_str!("../../../../docs/cli.md");

/// Commands that are not run here: the first is this test run itself, the others belong to the reader's own project.
const SKIPPED: &[&str] = &["./test", "cargo add "];

/// Expected output of a command. A search may run before the last vector is stored, so it is repeated.
const SAYS: &[(&str, &str)] = &[
    ("windlass search product", "guitar"),
    ("curl -s -X PUT", "\"version\":1"),
    ("make tea", "\"id\":\"kettle\""),
    ("curl -s -X PATCH", "\"job_id\":null"),
    ("\"lt\": 35", "\"price\":30"),
    ("curl -s -X DELETE", "deleted"),
    ("\"query\": \"kettle\"}'", "\"hits\":[]"),
    ("enqueue NOOP --wait", "completed"),
    ("enqueue FAIL", "completed"),
    ("jobs list", "completed"),
    ("windlass queues  ", "SLA"),
    ("schedules put", "next tick"),
    ("schedules run", "completed"),
    ("workflows run", "4 of 4 jobs completed"),
    ("# was there already", "was there already"),
    ("--rate 30/m", "30/m"),
    ("--concurrency-max 32", "2–32"),
    ("backup verify", "good"),
    ("windlass restore", "restored"),
    ("windlass doctor", "all is well"),
    ("windlass audit", "queue/BULK"),
];

/// The commands in shell blocks; multi-line ones are joined.
fn commands() -> Vec<String> {
    let blocks = README.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let joined: String = blocks.collect::<String>().replace("\\\n", " ");
    joined.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// `bash` in the test's folder, where `windlass` is the binary under test. `curl` also fails on an error status.
fn shell(place: &Place, script: &str) -> (bool, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| name.to_lowercase().starts_with("windlass_")) {
        command.env_remove(name);
    }
    let script = format!("exec 2>&1\ncurl() {{ command curl --fail-with-body \"$@\"; }}\n{script}");
    command.args(["-c", &script]).current_dir(place.path()).stdin(Stdio::null());
    let ran = command.env_remove("DATABASE_URL").env("PATH", path).output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
}

fn run(place: &Place, setup: &str, line: &str) {
    let expected: Vec<&str> =
        SAYS.iter().filter(|(part, _)| line.contains(part)).map(|(_, says)| *says).collect();
    let begun = Instant::now();
    loop {
        let (ok, output) = shell(place, &format!("{setup}{line}"));
        assert!(ok, "{line}\n{output}");
        if expected.iter().all(|says| output.contains(says)) {
            return;
        }
        let patient = line.contains("/v1/search") && begun.elapsed() < Duration::from_secs(10);
        assert!(patient, "{line}\ndoes not print {expected:?}:\n{output}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_command_of_the_readme_works() {
    let place = Place::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    std::os::unix::fs::symlink(root.join("examples"), place.path().join("examples")).unwrap();

    let commands = commands();
    for (part, _) in SAYS {
        assert!(commands.iter().any(|line| line.contains(part)), "no command contains `{part}`");
    }
    for skipped in SKIPPED {
        assert!(commands.iter().any(|line| line.starts_with(skipped)), "nothing to skip: `{skipped}`");
    }
    let mut commands = commands.iter().filter(|line| !SKIPPED.iter().any(|skip| line.starts_with(skip)));
    let first = commands.next().unwrap();
    assert!(first.starts_with("cargo run --release -- demo "), "{first}");
    let demo = place.start(&["demo"]);
    demo.wait_for("Stop it with Ctrl-C");

    // Each command has its own shell, after the assignments above it.
    let mut setup = String::new();
    for line in commands {
        let line = line.replace("127.0.0.1:8080", &demo.address());
        match line.split(' ').next() {
            Some("windlass" | "curl") => run(&place, &setup, &line),
            _ => {
                let (ok, output) = shell(&place, &line);
                assert!(ok, "{line}\n{output}");
                setup.push_str(&format!("{line}\n"));
            }
        }
    }
}

/// The names under `Commands:` in a help text.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  "));
    // Continuation lines are indented further.
    let names =
        names.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn verbs_of_the_binary(place: &Place) -> BTreeSet<String> {
    let mut verbs = BTreeSet::new();
    for noun in listed(&place.run(&["--help"]).ok().out) {
        let below = listed(&place.run(&[&noun, "--help"]).ok().out);
        let stands_alone = below.is_empty() || noun == "backup";
        verbs.extend(stands_alone.then(|| noun.clone()));
        verbs.extend(below.iter().map(|verb| format!("{noun} {verb}")));
    }
    verbs
}

/// The words before the arguments in the first column of the tables: `windlass jobs show ID` is `jobs show`.
fn verbs_of_the_page() -> BTreeSet<String> {
    let rows = VERBS.lines().filter_map(|line| line.strip_prefix("| `windlass "));
    let cells = rows.filter_map(|row| row.split('`').next());
    let is_verb =
        |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    cells.map(|cell| cell.split(' ').take_while(is_verb).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_documentation_lists_every_verb() {
    let place = Place::new();
    let (binary, page) = (verbs_of_the_binary(&place), verbs_of_the_page());
    assert!(binary.len() > 50, "{binary:?}");
    let missing: Vec<_> = binary.difference(&page).collect();
    let unknown: Vec<_> = page.difference(&binary).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "docs/cli.md lacks {missing:?} and invents {unknown:?}"
    );
}
