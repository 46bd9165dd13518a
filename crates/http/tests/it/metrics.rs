//! `/metrics` parses, and its figures are those of the tables.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use crate::on_both;
use crate::world::World;

/// Name with labels → value; panics on anything that is not the text format.
fn parse(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let (mut types, mut helped) = (HashMap::new(), HashSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(helped.insert(rest.split(' ').next().unwrap().to_owned()), "HELP twice: {line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "no HELP before {line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "TYPE twice: {line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or_else(|| panic!("no labels: {line}"));
            assert!(labels.starts_with("application=\"windlass\"") && labels.ends_with('}'), "{line}");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let family = family
                .filter(|family| types.get(*family).is_some_and(|kind| kind == "histogram"))
                .unwrap_or(name);
            assert!(types.contains_key(family), "no TYPE before {line}");
            assert!(samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
    }
    samples
}

on_both! {
    async fn figures_are_those_of_the_tables(world: World) {
        world.work().await;
        let dead = world.dead_letter().await;
        let again = json!({ "kind": "FAIL", "payload": { "times": 1 } });
        let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
        world.send("POST", "/v1/jobs", &headers, &again.to_string()).await.is(201);
        world.with_body("PATCH", "/v1/queues/DEFAULT", json!({ "paused": true })).await.is(200);
        for _ in 0..3 {
            world.enqueue(json!({ "kind": "NOOP" })).await;
        }
        let reply = world.get("/metrics").await;
        assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let samples = parse(&reply.body);
        let value = |series: &str| *samples.get(series).unwrap_or_else(|| panic!("{series} is missing in\n{}", reply.body));
        let queue = |name: &str| value(&format!("{name}{{application=\"windlass\",queue=\"DEFAULT\"}}"));
        for name in ["windlass_queue_depth", "job_queue_backlog_total"] {
            assert_eq!(queue(name), 3.0, "{name}");
        }
        assert_eq!((queue("windlass_queue_paused"), queue("dead_letter_queue_size")), (1.0, 1.0), "{dead}");
        assert_eq!(queue("windlass_queue_sla_seconds"), 300.0);
        let labels = |kind: &str| format!("{{application=\"windlass\",{kind}=\"FAIL\",queue=\"DEFAULT\"");
        assert_eq!(value(&format!("job_retry_total{}}}", labels("job_type"))), 1.0);
        assert_eq!(value(&format!("windlass_job_retries_total{}}}", labels("kind"))), 1.0);
        for status in ["completed", "retry", "dead_letter"] {
            let series = format!("{},status=\"{status}\"", labels("job_type"));
            assert_eq!(value(&format!("job_execution_duration_seconds_count{series}}}")), 1.0, "{status}");
            assert_eq!(value(&format!("job_execution_duration_seconds_bucket{series},le=\"+Inf\"}}")), 1.0, "{status}");
        }
        for name in ["windlass_store_up", "windlass_workers"] {
            assert_eq!(value(&format!("{name}{{application=\"windlass\"}}")), 1.0);
        }
        for name in ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds", "process_cpu_seconds_total"] {
            assert!(value(&format!("{name}{{application=\"windlass\"}}")) >= 0.0);
        }
        let posted = "windlass_http_requests_total{application=\"windlass\",method=\"POST\",route=\"/v1/jobs\",status=\"2xx\"}";
        assert_eq!(value(posted), 5.0);
        assert!(!reply.body.contains("indexing_queue"), "nothing is indexed here");
    }
}

mod indexing {
    use std::pin::Pin;
    use std::sync::Arc;

    use windlass_core::StoreError;
    use windlass_http::{IndexFigures, Indexing, Parts};

    use super::*;
    use crate::world::{Database, options};

    struct Fixed;

    impl IndexFigures for Fixed {
        fn figures(&self) -> Pin<Box<dyn Future<Output = Result<Indexing, StoreError>> + Send + '_>> {
            Box::pin(async {
                Ok(Indexing {
                    pending_entities: 7,
                    indexed_entities: 9,
                    queue_batch: 4,
                    ..Indexing::default()
                })
            })
        }
    }

    /// The place a later part fills.
    #[tokio::test]
    async fn figures_of_another_part_are_shown() {
        let parts = Parts { indexing: Some(Arc::new(Fixed)), ..Parts::default() };
        let world = World::start(Database::Sqlite, options(), parts).await;
        let stats = world.get("/v1/stats").await.is(200);
        assert_eq!((&stats["pending_entities"], &stats["indexed_entities"]), (&json!(7), &json!(9)));
        let samples = parse(&world.get("/metrics").await.body);
        assert_eq!(samples["indexing_queue_batch{application=\"windlass\"}"], 4.0);
        assert_eq!(samples["windlass_entities_pending{application=\"windlass\"}"], 7.0);
        world.end().await;
    }
}
