//! `windlass demo`.

use crate::place::Place;

#[test]
fn the_demo_finds_by_meaning_and_sees_changes_at_once() {
    let place = Place::new();
    // The second run writes only the price and the order that the first one changed.
    let first = ["320 saved in ", "320 embedded, searchable by meaning "];
    let second = ["318 of 320 existed already, unchanged", "2 saved in ", "1 embedded, searchable"];
    for done in [&first[..], &second] {
        let ran = place.run(&["demo", "--no-serve"]).ok().says(done);
        assert!(ran.out.contains("160 products, 80 articles, 80 orders"), "{}", ran.out);
        assert!(ran.out.contains("the next search has it"), "{}", ran.out);
        assert!(ran.out.contains("the next search is without it"), "{}", ran.out);
        let answers = ran.out.lines().skip_while(|line| !line.contains('“'));
        let mut firsts = answers.clone().zip(answers.skip(1)).filter(|(above, _)| above.contains('“'));
        assert!(
            firsts.all(|(_, hit)| hit.starts_with("  ✓")),
            "the right answer is not the first:\n{}",
            ran.out
        );
        assert_eq!(ran.out.matches('“').count(), 6, "{}", ran.out);
        assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
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
fn a_demo_whose_output_is_closed_hands_all_jobs_back() {
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

/// A demo that serves says who can connect, and verbs in the same folder find its data.
#[test]
fn verbs_find_the_database_of_a_server_that_runs_here() {
    let place = Place::new();
    let mut demo = place.start(&["demo"]);
    demo.wait_for("Stop it with Ctrl-C");
    assert!(demo.output().contains("open to this machine: no keys"), "{}", demo.output());
    for line in demo.output().lines().filter(|line| line.contains("curl") || line.contains("-d '")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let found = place.run(&["search", "product", "frying pan", "--json"]).ok().json();
    assert_eq!(found["hits"][0]["id"], "p001", "{found}");
    place.run(&["config", "show"]).ok().says(&["/windlass-data/demo.db", "the server that runs, process "]);
    // A named database takes precedence.
    place.run(&["enqueue", "NOOP", "--database", "sqlite://windlass-data/windlass.db"]).ok();
    assert_eq!(place.count(&["--database", "sqlite://windlass-data/windlass.db"]), 1);
    demo.signal("-INT");
    assert_eq!(demo.wait(), 0, "{}", demo.output());
    assert_eq!(place.count(&[]), 1, "the usual one again");
    place
        .run(&["search", "product", "frying pan"])
        .fails(1, &["product", "`windlass types` lists the types"]);
}
