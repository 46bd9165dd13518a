//! Jobs with concurrency keys in two processes that are killed repeatedly. A key never exceeds the limit of its kind,
//! and all jobs complete except those whose process died three times while they ran alone.

use std::time::Duration;

use windlass::{JobId, Request};
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};
use windlass_testkit::spans::{self, Judged};

use crate::jobs::{KeySpan, spans_beside};
use crate::world::{World, died_alone, three_at_once, wait_all_finished};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(1_000);
const DEADLINE: Duration = Duration::from_secs(60);
/// A worker lives at least this long after the next job has begun, so that suspects can finish: one whose process dies
/// three times while it runs alone becomes a dead letter.
const LEAST_MS: u64 = 10;
const LONGEST_MS: u64 = 80;

fn span_jobs<const AT_ONCE: u16>(seed: &mut Seed, keys: u64, jobs: usize) -> Vec<Request> {
    let prefix = if AT_ONCE == 1 { "one" } else { "three" };
    let job = |_| {
        let key = format!("{prefix}-{}", seed.below(keys));
        let job = KeySpan::<AT_ONCE> { key: key.clone(), ms: seed.below(6), until: None };
        Request::from(job).concurrency_key(key)
    };
    (0..jobs).map(job).collect()
}

on_both! {
    async fn killed_workers_never_break_a_limit(world: World) {
        let cycles = count(12, 120);
        let windlass = world.windlass().await;
        let file = spans_beside(&world.ledger());
        let lines = || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count());
        let mut seed = Seed::from_environment();
        let mut put: Vec<JobId> = Vec::new();
        let mut workers = [world.worker("first-0", LEASE), world.worker("second-0", LEASE)];
        for cycle in 1..=cycles {
            let mut jobs = span_jobs::<1>(&mut seed, 6, 24);
            jobs.extend(span_jobs::<3>(&mut seed, 2, 24));
            put.extend(windlass.enqueue_many(jobs).await.unwrap().into_iter().map(|e| e.id));
            let before = lines();
            wait_until("the workers to work", DEADLINE, || async { Seen::when(lines(), |now| *now > before) }).await;
            tokio::time::sleep(Duration::from_millis(LEAST_MS + seed.below(LONGEST_MS - LEAST_MS))).await;
            let unlucky = seed.below(2) as usize;
            workers[unlucky].kill().unwrap();
            let name = ["first", "second"][unlucky];
            workers[unlucky] = world.worker(&format!("{name}-{cycle}"), LEASE);
        }
        wait_all_finished(&windlass, Duration::from_secs(120)).await;
        // No slot of a key was lost by the kills.
        for key in ["three-0", "three-1"] {
            let held = |until| {
                let job = KeySpan::<3> { key: key.to_owned(), ms: 0, until: Some(until) };
                Request::from(job).concurrency_key(key)
            };
            put.extend(three_at_once(&windlass, &file, key, held).await);
        }
        wait_all_finished(&windlass, DEADLINE).await;
        let dead = died_alone(&windlass, &put).await;
        let judged = spans::judge(&file, &dead).unwrap();
        let runs: usize = judged.values().map(|judged| judged.runs).sum();
        for (key, Judged { most_at_once, open, .. }) in &judged {
            assert!(open.is_empty(), "{key}: completed without an end: {open:?}");
            let limit = if key.starts_with("one") { 1 } else { 3 };
            assert!(*most_at_once <= limit, "{key}: {most_at_once} at once");
        }
        let findings = windlass.client().store().examine().await.unwrap();
        let lanes = findings.iter().find(|finding| finding.name == "lanes").unwrap();
        assert!(lanes.ok, "{}", lanes.finding);
        println!("{cycles} kills, {} jobs, {} dead by rule, {} of them run again", put.len(), dead.len(), runs + dead.len() - put.len());
        world.end().await;
    }
}
