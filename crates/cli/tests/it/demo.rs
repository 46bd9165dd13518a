//! The first thing anybody runs.

use crate::place::Place;

#[test]
fn the_demo_works_off_its_day_and_its_commands_work() {
    let place = Place::new();
    let begun = std::time::Instant::now();
    let ran = place.run(&["demo", "--no-serve"]).ok();
    let took = begun.elapsed();
    let out = &ran.out;
    for part in ["HIGH", "DEFAULT", "SCREENSHOT", "LOW", "BULK", "P95", "SLA", "met", "What to try next"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    assert!(!out.contains("missed"), "{out}");
    let url = "sqlite://./windlass-data/demo.db";
    let count = |state: &str| place.count(&["--state", state, "--database", url]);
    assert_eq!(
        (count("dead_letter"), count("failed"), count("scheduled"), count("pending")),
        (1, 1, 1, 0),
        "{out}"
    );
    assert_eq!(count("completed"), 3_723);
    for line in out.lines().filter(|line| line.starts_with("  ") && line.contains(" --database ")) {
        let shell = std::process::Command::new("sh")
            .args(["-c", line.trim()])
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(shell.status.success(), "{line}\n{}", String::from_utf8_lossy(&shell.stderr));
    }
    assert!(took < std::time::Duration::from_secs(60), "took {took:?}");
}

#[test]
fn a_demo_whose_reader_leaves_hands_everything_back() {
    let place = Place::new();
    let script =
        format!("{} demo --no-serve | head -1; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_windlass"));
    let ran =
        std::process::Command::new("bash").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let workers =
        place.run(&["workers", "--json", "--database", "sqlite://windlass-data/demo.db"]).ok().json();
    assert_eq!(workers["items"], serde_json::json!([]));
}
