//! Runs each example and checks its output.
//!
//! Cargo builds the examples together with these tests (`cargo nextest run -p windlass`), but not with `--test it`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::on_both;
use crate::world::{Database, World};

/// Runs an example in `folder`, where it creates its default database, and returns its output.
fn run(example: &str, folder: &Path, args: &[&str]) -> String {
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.ancestors().nth(2).unwrap().join("examples").join(example);
    let output = Command::new(&program).args(args).current_dir(folder).output().unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo build -p windlass --examples`", program.display())
    });
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{example}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_example_is_run_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["batches.rs", "budget.rs", "transactional_enqueue.rs", "workflow.rs"]);
}

#[test]
fn batches_takes_many_texts_per_call() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run("batches", folder.path(), &[]);
    let sizes: Vec<usize> = printed
        .lines()
        .map(|line| line.strip_prefix("one call for ").unwrap().strip_suffix(" texts").unwrap())
        .map(|size| size.parse().unwrap())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 100, "{printed}");
    assert!(sizes.iter().all(|size| *size <= 32) && sizes.len() < 20, "{printed}");
}

#[test]
fn budget_stops_at_the_share_for_scheduled_calls() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run("budget", folder.path(), &[]);
    assert_eq!(printed, "15 calls, 0.09 of 0.10 USD used, state QUEUE; 5 jobs wait\n");
}

#[test]
fn workflow_adds_up_the_results_of_its_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run("workflow", folder.path(), &[]);
    assert_eq!(printed, "3 parts, 9 words\nthe workflow is completed\n");
}

on_both! {
    async fn transactional_enqueue_confirms_its_order(world: World) {
        let url = match world.database {
            Database::Sqlite => world.url.clone(),
            // Puts the application's table of orders into the schema of this test.
            Database::Postgres => {
                let (_, schema) = world.url.split_once("schema=").unwrap();
                format!("{}&options=-c%20search_path%3D{schema}", world.url)
            }
        };
        for order in 1..=2 {
            let printed = run("transactional_enqueue", world.directory(), &[&url]);
            let words: Vec<&str> = printed.split_whitespace().collect();
            assert_eq!(words[..3], ["order", &format!("{order}:"), "job"], "{printed}");
            assert_eq!(words[4..], ["is", "completed"], "{printed}");
        }
        world.end().await;
    }
}
