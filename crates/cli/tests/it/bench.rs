//! Small runs of the benchmarks: they end, clean up and print all figures.

use serde_json::Value;

use crate::place::{Place, postgres};

const QUEUE: [&str; 10] = [
    "enqueue_per_s",
    "enqueue_one_per_s",
    "enqueue_one_p95_ms",
    "drain_per_s",
    "pickup_p50_ms",
    "pickup_p95_ms",
    "mixed_per_s",
    "limit_enqueue_per_s",
    "limit_drain_per_s",
    "rss_mb",
];
const INDEX: [&str; 5] = [
    "accepted_per_s",
    "searchable_per_s",
    "write_to_searchable_p50_ms",
    "write_to_searchable_p95_ms",
    "rss_mb",
];
const STEADY: [&str; 5] = [
    "written_per_s",
    "save_p50_ms",
    "save_p95_ms",
    "write_to_searchable_p50_ms",
    "write_to_searchable_p95_ms",
];
const SEARCH: [&str; 6] = ["p50_ms", "p95_ms", "qps", "recall_at_10", "ready_ms", "rss_mb"];

fn positive(figures: &Value, names: &[&str]) {
    for name in names {
        assert!(figures[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {figures}");
    }
}

fn on_both(args: &[&str], check: impl Fn(Value)) {
    let (place, server) = (Place::new(), postgres("bench"));
    check(place.run(&[args, &["--json"]].concat()).ok().json());
    check(place.run(&[args, &["--json", "--database", &server]].concat()).ok().json());
    let data = std::fs::read_dir(place.path().join("windlass-data")).unwrap();
    let left: Vec<_> = data.map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn bench_queue_prints_its_figures() {
    on_both(&["bench", "queue", "--jobs", "500", "--workers", "4"], |figures| {
        assert_eq!(figures["jobs"], 500);
        positive(&figures, &QUEUE);
    });
}

#[test]
fn bench_queue_with_finished_jobs_and_keys() {
    let words = ["bench", "queue", "--jobs", "500", "--retain", "700", "--keys", "20", "--workers", "4"];
    on_both(&words, |figures| {
        positive(&figures, &QUEUE);
        positive(&figures, &["empty_drain_per_s", "keyed_enqueue_per_s", "keyed_drain_per_s"]);
    });
}

#[test]
fn bench_index_in_bulk_and_at_a_rate() {
    on_both(&["bench", "index", "--docs", "300", "--rate", "300"], |figures| {
        assert_eq!((&figures["docs"], &figures["steady"]["asked_per_s"]), (&300.into(), &300.into()));
        positive(&figures, &INDEX);
        positive(&figures["steady"], &STEADY);
        assert!(figures["steady"]["written_per_s"].as_f64().unwrap() > 200.0, "{figures}");
    });
}

#[test]
fn search_finds_what_an_exact_scan_finds() {
    on_both(&["bench", "search", "--docs", "500", "--queries", "20"], |figures| {
        assert_eq!(figures["docs"], 500);
        positive(&figures, &SEARCH);
        assert!(figures["recall_at_10"].as_f64().unwrap() >= 0.99, "{figures}");
    });
}
