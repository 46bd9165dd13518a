//! The first thing a newcomer runs.

use crate::place::Place;

#[test]
fn the_demo_finds_by_meaning_and_sees_changes_at_once() {
    let place = Place::new();
    for _ in 0..2 {
        let ran = place.run(&["demo", "--no-serve"]).ok();
        assert!(ran.out.contains("160 products, 80 articles, 80 orders"), "{}", ran.out);
        assert!(ran.out.contains("the next search has it"), "{}", ran.out);
        assert!(ran.out.contains("the next search is without it"), "{}", ran.out);
        let right = ran.out.lines().filter(|line| line.starts_with("  ✓")).count();
        assert!(right >= 7, "{right} of the answers are what was expected:\n{}", ran.out);
    }
    let url = "sqlite://./windlass-data/demo.db";
    let found = place.run(&["search", "product", "frying pan", "--json", "--database", url]).ok().json();
    assert_eq!(found["hits"][0]["id"], "p001", "{found}");
    let similar =
        place.run(&["similar", "product", "p001", "--limit", "3", "--json", "--database", url]).ok().json();
    assert_eq!(similar["hits"].as_array().map(Vec::len), Some(3));
    assert!(place.run(&["types", "--database", url]).ok().out.contains("article"));
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
