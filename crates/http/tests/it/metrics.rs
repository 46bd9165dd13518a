//! `/metrics` is valid, and its values equal the database.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::World;

/// Name with labels → value; panics if it is not valid text format.
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
    async fn values_equal_those_of_the_tables(world: World) {
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

/// The gauges of entities and boxes, each compared with a count of its table.
mod boxes {
    use windlass_core::JobState;
    use windlass_core::store::JobFilter;

    use super::*;
    use crate::world::POISON;

    async fn count(world: &World, queue: &str, states: &[JobState]) -> f64 {
        let queue = world.client.catalog().queue_named(queue).map(|queue| queue.id);
        assert!(queue.is_some());
        let filter = JobFilter { states: states.to_vec(), queue, ..JobFilter::default() };
        world.client.store().count(&filter).await.unwrap() as f64
    }

    on_both! {
        async fn gauges_equal_the_counts_of_the_tables(world: World) {
            world.add_entities().await;
            world.work().await;
            let broken = json!({ "kind": "BROKEN" });
            let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
            assert_eq!(world.send("POST", "/v1/jobs", &headers, &broken.to_string()).await.is(201)["state"], "failed");
            for (id, text) in [("good", "text"), ("bad", POISON)] {
                let path = format!("/v1/entities/document/{id}?max_attempts=1");
                world.send("PUT", &path, &headers, &json!({ "text": text }).to_string()).await;
            }
            world.with_body("PATCH", "/v1/queues/INDEX_BATCH", json!({ "paused": true })).await.is(200);
            for n in 0..5 {
                let delay = if n < 2 { "&delay=1h" } else { "" };
                let path = format!("/v1/entities/document/b{n}?strategy=batch{delay}");
                world.with_body("PUT", &path, json!({ "text": format!("{n}") })).await.is(202);
            }
            let body = world.get("/metrics").await.body;
            let samples = parse(&body);
            let value = |name: &str| samples[&format!("{name}{{application=\"windlass\"}}")];
            let waiting = [JobState::Pending, JobState::Scheduled];
            let (soon, bulk) = (count(world, "INDEX_ASYNC", &waiting).await, count(world, "INDEX_BATCH", &waiting).await);
            assert_eq!((soon, bulk), (0.0, 5.0));
            assert_eq!((value("indexing_queue_async"), value("indexing_queue_batch")), (soon, bulk));
            assert_eq!((value("indexing_queue_pending"), value("indexing_queue_sync")), (soon + bulk, 0.0));
            assert_eq!(value("indexing_queue_processing"), 0.0);
            assert_eq!(value("indexing_queue_dead_letter"), count(world, "INDEX_ASYNC", &[JobState::DeadLetter]).await);
            assert_eq!((value("indexing_queue_dead_letter"), value("indexing_queue_failed")), (1.0, 0.0));
            assert!(value("indexing_queue_oldest_pending_age_seconds") > 0.0);
            let pending = world.client.store().pending_entities(u64::MAX).await.unwrap() as f64;
            assert_eq!((value("windlass_entities_pending"), pending), (5.0, 5.0));
            assert_eq!(value("windlass_entities_indexed"), 1.0);
            for (queue, state, expected) in [("LOW", JobState::Failed, 1.0), ("LOW", JobState::DeadLetter, 0.0), ("INDEX_ASYNC", JobState::DeadLetter, 1.0)] {
                let series = format!("windlass_dead_letters{{application=\"windlass\",queue=\"{queue}\",state=\"{state}\"}}");
                assert_eq!((samples[&series], count(world, queue, &[state]).await), (expected, expected), "{series}");
            }
            let stats = world.get("/v1/stats").await.is(200);
            assert_eq!((&stats["pending_entities"], &stats["indexed_entities"]), (&json!(5), &json!(1)));
        }
    }
}

/// Every attempt is counted by type, strategy and result, regardless of the response.
mod indexed {
    use super::*;
    use crate::world::POISON;

    async fn write(world: &World, id: &str, strategy: &str, fields: Value, statuses: &[u16]) {
        let path = format!("/v1/entities/{id}?strategy={strategy}&max_attempts=1");
        let reply = world.with_body("PUT", &path, fields).await;
        assert!(statuses.contains(&reply.status), "{} {}", reply.head, reply.body);
    }

    async fn until(world: &World, id: &str, status: &str) {
        wait_until("the entity to be worked off", Duration::from_secs(30), || async {
            let entity = world.get(&format!("/v1/entities/{id}")).await.is(200);
            Seen::when(entity["status"].clone(), |seen| *seen == json!(status))
        })
        .await;
    }

    on_both! {
        async fn attempts_are_counted_by_result(world: World) {
            world.add_entities().await;
            world.with_body("PUT", "/v1/types/part", json!({ "text": ["name"] })).await.is(200);
            write(world, "document/s1", "sync", json!({ "text": "one" }), &[201]).await;
            write(world, "document/s1", "sync", json!({ "text": "two" }), &[200]).await;
            // No attempt: the text already has its vector. No attempt: refused.
            write(world, "document/s1", "sync", json!({ "text": "two", "price": 1 }), &[200]).await;
            write(world, "document/s1", "sync", json!([]), &[422]).await;
            write(world, "document/s2", "sync", json!({ "text": POISON }), &[500]).await;
            for n in 0..3 {
                write(world, &format!("document/a{n}"), "async", json!({ "text": format!("{n}") }), &[202]).await;
            }
            write(world, "document/a3", "async", json!({ "text": POISON }), &[202]).await;
            for n in 0..2 {
                write(world, &format!("part/b{n}"), "batch", json!({ "name": format!("{n}") }), &[202]).await;
            }
            world.work().await;
            for id in ["document/a0", "document/a1", "document/a2", "part/b0", "part/b1"] {
                until(world, id, "indexed").await;
            }
            until(world, "document/a3", "failed").await;
            // A write is counted shortly after it becomes visible.
            let body = wait_until("nine tries to be counted", Duration::from_secs(30), || async {
                let body = world.get("/metrics").await.body;
                let samples = parse(&body);
                let tries = samples.iter().filter(|(series, _)| series.starts_with("indexing_attempts_total"));
                let count: f64 = tries.map(|(_, count)| count).sum();
                Seen::when(body, |_| count >= 9.0)
            })
            .await;
            let samples = parse(&body);
            let value = |series: &str| *samples.get(series).unwrap_or_else(|| panic!("{series} is missing in\n{body}"));
            let app = "{application=\"windlass\"";
            for (entity_type, strategy, good, bad) in
                [("document", "sync", 2.0, 1.0), ("document", "async", 3.0, 1.0), ("part", "batch", 2.0, 0.0)]
            {
                let labels = format!("{app},entity_type=\"{entity_type}\",strategy=\"{strategy}\"");
                for name in ["indexing_attempts_total", "windlass_indexing_attempts_total"] {
                    assert_eq!(value(&format!("{name}{labels},success=\"true\"}}")), good, "{labels}");
                    assert_eq!(value(&format!("{name}{labels},success=\"false\"}}")), bad, "{labels}");
                }
                for name in ["indexing_duration_seconds", "windlass_indexing_duration_seconds"] {
                    assert_eq!(value(&format!("{name}_count{labels}}}")), good + bad, "{labels}");
                    assert!(value(&format!("{name}_sum{labels}}}")) > 0.0, "{labels}");
                }
                let name = "windlass_write_to_searchable_seconds";
                assert_eq!(value(&format!("{name}_count{app},strategy=\"{strategy}\"}}")), good);
                assert!(value(&format!("{name}_sum{app},strategy=\"{strategy}\"}}")) > 0.0);
            }
            let series = samples.keys().filter(|series| series.starts_with("indexing_attempts_total")).count();
            assert_eq!(series, 6, "nothing else was tried");
        }
    }
}

mod parts {
    use std::sync::Arc;

    use windlass_pack::metrics::{Samples, Series};
    use windlass_pack::{Pack, Registry};

    use super::*;
    use crate::world::{Database, options};

    struct Counting;

    impl Pack for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn register(&self, registry: &mut Registry) {
            registry.figures(&[("sheep", "Sheep counted")], || async { Ok(vec![Some(7)]) });
            let series =
                [Series::gauge("sheep_count", "Sheep."), Series::counter("sheep_total", "All sheep.")];
            registry.metrics(&series, || async {
                let mut samples = Samples::default();
                samples.value("sheep_count", vec![("fold", "no\"rth".to_owned())], 7.0);
                Ok(samples)
            });
            registry.metrics(&[Series::gauge("wolves", "")], || async { Err("the dog barks".to_owned()) });
        }
    }

    #[tokio::test]
    async fn metrics_of_parts_are_shown_and_a_failing_part_is_left_out() {
        let world = World::start(Database::Sqlite, options(), vec![Arc::new(Counting)]).await;
        let stats = world.get("/v1/stats").await.is(200);
        assert_eq!(stats["sheep"], 7);
        let text = world.get("/metrics").await.body;
        let samples = parse(&text);
        assert_eq!(samples["sheep_count{application=\"windlass\",fold=\"no\\\"rth\"}"], 7.0);
        assert!(text.contains("# TYPE sheep_total counter"), "{text}");
        assert!(!text.contains("wolves"), "{text}");
        world.end().await;
    }
}
