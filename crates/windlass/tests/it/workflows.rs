//! Workflows in an application, and with worker processes that are killed at random: every workflow ends, and no job
//! starts before its parents have ended.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use windlass::{
    Job, JobId, JobState, OnFailure, Request, Started, TestMode, Windlass, Workflow, WorkflowDetail,
    WorkflowState,
};
use windlass_core::Token;
use windlass_core::store::Parent;
use windlass_testkit::process::Process;
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};

use crate::jobs::{self, Append, WorkflowJob};
use crate::kill::leased_by;
use crate::world::{World, assert_died_alone, wait_all_finished};
use crate::{count, on_both};

const LEASE: Duration = Duration::from_millis(1_000);
const DEADLINE: Duration = Duration::from_secs(60);
const PROCESSES: usize = 3;
/// Workflows enqueued around each kill.
const ROUND: usize = 36;

on_both! {
    async fn killed_workers_neither_start_a_child_early_nor_lose_it(world: World) {
        let wanted = count(12, 120);
        let windlass = world.windlass().await;
        let mut seed = Seed::from_environment();
        let mut workers: Vec<Process> = (0..PROCESSES).map(|n| world.worker(&format!("w{n}"), LEASE)).collect();
        let (mut started, mut kills, mut missed, mut in_flight) = (Vec::new(), 0, 0, 0);
        while kills < wanted {
            let before = world.entries().lines.len();
            // Enqueued while the workers run, so that a killed worker has jobs.
            let round: Vec<Workflow> = (0..ROUND).map(|_| any_workflow(&mut seed)).collect();
            let adding = tokio::spawn(add(windlass.clone(), round));
            wait_until("the workers to work", DEADLINE, || async {
                Seen::when(world.entries().lines.len(), |lines| *lines > before)
            })
            .await;
            // Suspects run first and alone, and one whose process dies three times becomes a dead letter. The delay
            // lets them finish.
            tokio::time::sleep(Duration::from_millis(10 + seed.below(20))).await;
            let n = seed.below(PROCESSES as u64) as usize;
            workers[n].kill().unwrap();
            assert_not_repaired(&workers[n]);
            // A kill while no job was leased proves nothing and does not count.
            match leased_by(&windlass, &workers[n]).await {
                0 => missed += 1,
                leased => (kills, in_flight) = (kills + 1, in_flight + leased),
            }
            started.extend(adding.await.unwrap());
            assert!(missed <= 8 * wanted, "{missed} kills hit no work, {kills} did");
            workers[n] = world.worker(&format!("w{n}-{kills}-{missed}"), LEASE);
        }
        wait_all_finished(&windlass, Duration::from_secs(120)).await;
        workers.iter().for_each(assert_not_repaired);
        drop(workers);
        let edges = check(&world, &windlass, &started).await;
        assert_eq!(windlass.client().store().repair_workflows().await.unwrap(), 0, "a workflow needed repair");
        println!(
            "{kills} kills with {in_flight} leases in flight, {missed} more without; {} workflows, {edges} edges kept",
            started.len()
        );
        world.end().await;
    }

    async fn a_thousand_parents_release_one_child(world: World) {
        let windlass = world.windlass().await;
        let workers = windlass.start().await.unwrap();
        let begun = Instant::now();
        windlass.enqueue_many((0..1_000).map(|_| Append { ms: 0 })).await.unwrap();
        wait_all_finished(&windlass, DEADLINE).await;
        let plain = begun.elapsed();
        let names: Vec<String> = (0..999).map(|n| format!("p{n}")).collect();
        let parent = || WorkflowJob { ms: 0, parents: 0 };
        let parents = names.iter().fold(Workflow::new("wide"), |all, name| all.add(name, parent()));
        let wide = parents.add("child", windlass::Step::from(WorkflowJob { ms: 0, parents: 999 }).after(names.clone()));
        let begun = Instant::now();
        let started = windlass.enqueue_workflow(wide).await.unwrap();
        wait_all_finished(&windlass, DEADLINE).await;
        println!("1,000 plain jobs in {plain:?}, 999 parents and their child in {:?}", begun.elapsed());
        workers.shutdown().await.unwrap();
        check(&world, &windlass, &[started]).await;
        world.end().await;
    }

    async fn workflows_compensate_are_checked_and_join_a_transaction(world: World) {
        let building = jobs::builder(&world.url, &world.ledger(), &world.effects()).test_mode(TestMode::Inline);
        let windlass = building.build().await.unwrap();
        let step = || WorkflowJob { ms: 0, parents: 1 };
        let saga = Workflow::new("saga")
            .on_failure(OnFailure::Compensate)
            .add("first", windlass::Step::from(WorkflowJob { ms: 0, parents: 0 }).compensate(step()))
            .add("second", windlass::Step::from(step()).after(["first"]).compensate(step()))
            // Fails, because it expects more parents than it has.
            .add("third", WorkflowJob { ms: 0, parents: 9 }.after(["second"]));
        let started = windlass.enqueue_workflow(saga).await.unwrap();
        let detail = windlass.workflow(started.id).await.unwrap().unwrap();
        let names: Vec<(&str, JobState)> = detail.members.iter().map(|m| (m.name.as_str(), m.state)).collect();
        let done = JobState::Completed;
        let undone = [("undo:second", done), ("undo:first", done)];
        assert_eq!(names, [&[("first", done), ("second", done), ("third", JobState::Failed)][..], &undone].concat());
        assert_eq!(detail.workflow.state, WorkflowState::Compensated);

        let circle = Workflow::new("circle").add("a", step().after(["b"])).add("b", step().after(["a"]));
        let error = windlass.enqueue_workflow(circle).await.unwrap_err().to_string();
        assert!(error.contains("jobs[0].after: has a cycle: a after b after a"), "{error}");
        let keyed = Request::from(step()).idempotency_key("k");
        let error = windlass.enqueue_workflow(Workflow::new("keyed").add("a", keyed)).await.unwrap_err().to_string();
        assert!(error.contains("jobs[0].idempotency_key: cannot be given to a job of a workflow"), "{error}");

        let plain = world.windlass().await;
        let mut tx = plain.begin().await.unwrap();
        let workflow = || Workflow::new("late").add("a", Append { ms: 0 });
        let gone = plain.enqueue_workflow_in(&mut tx, workflow()).await.unwrap();
        tx.rollback().await.unwrap();
        assert!(plain.workflow(gone.id).await.unwrap().is_none());
        world.end().await;
    }
}

async fn add(windlass: Windlass, round: Vec<Workflow>) -> Vec<Started> {
    let mut started = Vec::with_capacity(round.len());
    for workflow in round {
        started.push(windlass.enqueue_workflow(workflow).await.unwrap());
    }
    started
}

/// The periodic repair, meant for processes of older versions, would hide a lost child.
fn assert_not_repaired(worker: &Process) {
    let said = worker.stderr();
    assert!(!said.contains("ended unnoticed"), "{said}");
}

/// A random diamond, fan-in or chain of jobs that take some milliseconds.
fn any_workflow(seed: &mut Seed) -> Workflow {
    let shape = seed.below(5);
    let mut step = |parents| WorkflowJob { ms: seed.below(9), parents };
    match shape {
        0 => Workflow::new("chain")
            .add("a", step(0))
            .add("b", step(1).after(["a"]))
            .add("c", step(1).after(["b"])),
        1 | 2 => {
            let names = ["p0", "p1", "p2", "p3", "p4"];
            let parents = names.iter().fold(Workflow::new("fan-in"), |all, name| all.add(*name, step(0)));
            parents.add("child", step(5).after(names))
        }
        _ => Workflow::new("diamond")
            .add("a", step(0))
            .add("b", step(1).after(["a"]))
            .add("c", step(1).after(["a"]))
            .add("d", step(2).after(["b", "c"])),
    }
}

/// The workflow failed because a job's process died three times while the job ran alone. Its children have not begun.
async fn died_alone(windlass: &Windlass, detail: &WorkflowDetail, begun: &HashMap<JobId, usize>) {
    assert_eq!(detail.workflow.state, WorkflowState::Failed, "{detail:?}");
    let members = || detail.members.iter().enumerate();
    let dead: Vec<_> = members().filter(|(_, member)| member.state == JobState::DeadLetter).collect();
    assert!(!dead.is_empty(), "{detail:?}");
    for (place, member) in dead {
        let job = windlass.client().store().job(member.job).await.unwrap().unwrap().job;
        assert_died_alone(&job);
        for (_, child) in members().filter(|(_, other)| other.parents.contains(&place)) {
            assert!(!begun.contains_key(&child.job), "{} began after {} had died", child.name, member.name);
        }
    }
}

/// Every workflow completed or [`died_alone`]. In the ledger each child begins after the completing run of each parent
/// has ended. Returns the number of checked edges.
async fn check(world: &World, windlass: &Windlass, started: &[Started]) -> usize {
    let mut begun: HashMap<JobId, usize> = HashMap::new();
    let mut ended: HashMap<(JobId, Token), usize> = HashMap::new();
    for (line, (id, token)) in world.entries().lines.into_iter().enumerate() {
        match token.0 {
            run if run > 0 => {
                begun.entry(id).or_insert(line);
            }
            end => {
                ended.insert((id, Token(-end)), line);
            }
        }
    }
    let (mut edges, mut given_up) = (0, 0);
    for one in started {
        let detail = windlass.workflow(one.id).await.unwrap().expect("an accepted workflow is never lost");
        if detail.workflow.state != WorkflowState::Completed {
            died_alone(windlass, &detail, &begun).await;
            given_up += 1;
            continue;
        }
        for member in &detail.members {
            let first = begun[&member.job];
            if member.parents.is_empty() {
                continue;
            }
            let parents = windlass.client().store().parents(member.job).await.unwrap();
            assert_eq!(parents.len(), member.parents.len());
            for Parent { job, state, result, .. } in parents {
                assert_eq!(state, JobState::Completed);
                // The token of the run that completed it.
                let token: i64 = serde_json::from_slice(&result.expect("every run has a result")).unwrap();
                let end = ended[&(job, Token(token))];
                let child = member.job;
                assert!(end < first, "job {child} began at line {first}, its parent {job} ended at {end}");
                edges += 1;
            }
        }
    }
    assert!(given_up <= started.len() / 500, "{given_up} of {} workflows failed", started.len());
    println!("{given_up} workflows failed by rule");
    edges
}
