//! Disk faults under SQLite: a full disk (`full`) and a failing fsync.

mod full;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Context, Job, JobError, JobId, Windlass};
use windlass_testkit::process::Process;

/// A job with a large payload, to fill a disk.
#[derive(Debug, Serialize, Deserialize)]
struct LargePayload {
    body: String,
}

impl Job for LargePayload {
    const KIND: &'static str = "LARGE_PAYLOAD";
}

async fn large_payload(_: Context, _: LargePayload) -> Result<(), JobError> {
    Ok(())
}

async fn open(path: &Path) -> Windlass {
    Windlass::builder()
        .database(format!("sqlite://{}", path.display()))
        .job(large_payload)
        .build()
        .await
        .unwrap()
}

const PRODUCER: &str = "WINDLASS_CHILD_PRODUCER";

/// Child process: enqueues one by one and prints each answer. strace makes one of its fsyncs fail.
#[test]
fn producer() {
    let Ok(path) = std::env::var(PRODUCER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let windlass = open(Path::new(&path)).await;
        for _ in 0..40 {
            match windlass.enqueue(LargePayload { body: String::new() }).await {
                Ok(enqueued) => println!("ack {}", enqueued.id),
                Err(error) => println!("error {error}"),
            }
        }
        // Exit without the orderly shutdown, which would write to the failed disk.
        std::process::exit(0);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_ack_follows_a_failed_fsync() {
    for nth in [1, 7, 20] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        drop(open(&path).await);
        let trace = directory.path().join("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=fdatasync,fsync", "-e"]);
        command.arg(format!("inject=fdatasync,fsync:error=EIO:when={nth}"));
        command.arg("-o").arg(&trace).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "disk::producer", "--nocapture"]).env(PRODUCER, &path);
        let mut process = Process::start("producer", directory.path(), command).unwrap();
        process.wait(Duration::from_secs(60));
        let output = process.stdout();
        let fired = std::fs::read_to_string(&trace).unwrap().matches("INJECTED").count();
        assert!(fired > 0, "no fsync failed: {output}");
        let answers: Vec<&str> =
            output.lines().filter(|l| l.starts_with("ack ") || l.starts_with("error ")).collect();
        let first_error = answers.iter().position(|line| line.starts_with("error "));
        let first_error = first_error.unwrap_or_else(|| panic!("no error was reported: {output}"));
        assert!(answers[first_error].contains("the disk failed"), "{output}");
        assert!(
            answers[first_error..].iter().all(|line| line.starts_with("error ")),
            "an ack followed: {output}"
        );
        let windlass = open(&path).await;
        for line in &answers[..first_error] {
            let id: JobId = line.trim_start_matches("ack ").parse().unwrap();
            assert!(
                windlass.client().store().job(id).await.unwrap().is_some(),
                "acknowledged and lost: {line}"
            );
        }
    }
}
