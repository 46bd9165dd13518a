//! Limits on reports: many log lines and invalid progress.

use windlass_core::store::{Report, ReportBody};
use windlass_core::{LeasedJob, Store};

use crate::setup::{Setup, ask, worker};

async fn leased(setup: &Setup) -> LeasedJob {
    setup.put().await;
    let me = worker(&setup.store, setup.queue).await;
    setup.store.claim(&ask(me, setup.queue, setup.kind, 1)).await.unwrap().remove(0)
}

fn report(job: &LeasedJob, body: ReportBody) -> Report {
    Report { id: job.id, token: job.token, attempt: job.attempt, body }
}

fn log(job: &LeasedJob, n: u32) -> Report {
    report(job, ReportBody::Log { line: n.to_string() })
}

fn progress(job: &LeasedJob, percent: f32, message: &str) -> Report {
    report(job, ReportBody::Progress { percent, message: Some(message.to_owned()) })
}

#[tokio::test]
async fn the_newest_thousand_lines_of_each_job_are_kept() {
    let setup = Setup::new().await;
    let (chatty, quiet) = (leased(&setup).await, leased(&setup).await);
    setup.store.report(&[log(&quiet, 0)]).await.unwrap();
    for start in [0, 600] {
        let lines: Vec<Report> = (start..start + 600).map(|n| log(&chatty, n)).collect();
        assert_eq!(setup.store.report(&lines).await.unwrap(), 600);
    }
    let kept = setup.store.job(chatty.id).await.unwrap().unwrap().logs;
    let expected: Vec<String> = (200..1_200).map(|n: u32| n.to_string()).collect();
    assert_eq!(kept.into_iter().map(|line| line.line).collect::<Vec<_>>(), expected);
    assert_eq!(setup.store.job(quiet.id).await.unwrap().unwrap().logs.len(), 1);
}

#[tokio::test]
async fn a_report_with_nan_progress_keeps_its_message() {
    let setup = Setup::new().await;
    let (first, second) = (leased(&setup).await, leased(&setup).await);
    let batch = [
        progress(&first, 40.0, "reading"),
        progress(&first, f32::NAN, "dividing"),
        progress(&second, f32::NAN, "dividing"),
        log(&first, 1),
    ];
    assert_eq!(setup.store.report(&batch).await.unwrap(), 4);
    for (job, percent) in [(&first, 40.0), (&second, 0.0)] {
        let shown = setup.store.job(job.id).await.unwrap().unwrap().job.progress.unwrap();
        assert_eq!((shown.percent, shown.message.as_deref()), (percent, Some("dividing")));
    }
    assert_eq!(setup.store.job(first.id).await.unwrap().unwrap().logs.len(), 1);
}
