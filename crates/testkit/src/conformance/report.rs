//! Reports of a running handler: progress and log lines; and per-minute statistics of its worker.

use std::time::Duration;

use windlass_core::store::{LATENCY_BUCKETS, Report, ReportBody, Rollup};
use windlass_core::{LeasedJob, Outcome, Time};

use super::Harness;

fn log(job: &LeasedJob, line: &str) -> Report {
    let body = ReportBody::Log { line: line.to_owned() };
    Report { id: job.id, token: job.token, attempt: job.attempt, body }
}

fn progress(job: &LeasedJob, percent: f32, message: Option<&str>) -> Report {
    let body = ReportBody::Progress { percent, message: message.map(str::to_owned) };
    Report { id: job.id, token: job.token, attempt: job.attempt, body }
}

pub async fn the_last_progress_is_shown(h: Harness) {
    let id = h.put(h.job()).await;
    let leased = h.claim_one(h.worker().await).await;
    assert!(h.detail(id).await.job.progress.is_none());
    let before = h.now().await;
    assert_eq!(h.store.report(&[progress(&leased, 12.5, Some("reading"))]).await.unwrap(), 1);
    let shown = h.detail(id).await.job.progress.unwrap();
    assert_eq!((shown.percent, shown.message.as_deref()), (12.5, Some("reading")));
    assert!(shown.at >= before && shown.at <= h.now().await);
    let two = [progress(&leased, 50.0, Some("half")), progress(&leased, 75.0, None)];
    assert_eq!(h.store.report(&two).await.unwrap(), 2);
    let shown = h.detail(id).await.job.progress.unwrap();
    assert_eq!((shown.percent, shown.message), (75.0, None));
}

pub async fn log_lines_in_order(h: Harness) {
    let id = h.put(h.job()).await;
    let worker = h.worker().await;
    let first = h.claim_one(worker).await;
    let lines = [log(&first, "b"), progress(&first, 1.0, None), log(&first, "a"), log(&first, "b")];
    assert_eq!(h.store.report(&lines).await.unwrap(), 4);
    assert_eq!(h.store.report(&[log(&first, "ünïcode\nsecond line")]).await.unwrap(), 1);
    let again = Outcome::Retry { after: Some(Duration::ZERO), error: "no".to_owned() };
    h.settle(&first, again).await;
    let second = h.claim_one(worker).await;
    assert_eq!(h.store.report(&[log(&second, "c")]).await.unwrap(), 1);
    h.done(&second).await;
    let logs = h.detail(id).await.logs;
    let got: Vec<_> = logs.iter().map(|l| (l.attempt, l.line.as_str())).collect();
    assert_eq!(got, [(1, "b"), (1, "a"), (1, "b"), (1, "ünïcode\nsecond line"), (2, "c")]);
    assert!(logs.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

pub async fn lost_leases_report_nothing(h: Harness) {
    h.put_plain(2).await;
    let worker = h.worker().await;
    let (live, over) = (h.claim_one(worker).await, h.claim_one(worker).await);
    h.done(&over).await;
    let mixed = [log(&over, "late"), log(&live, "kept"), progress(&over, 9.0, None)];
    assert_eq!(h.store.report(&mixed).await.unwrap(), 1, "one of three was kept");
    assert!(h.detail(over.id).await.logs.is_empty());
    assert!(h.detail(over.id).await.job.progress.is_none());
    assert_eq!(h.detail(live.id).await.logs.len(), 1);
    assert_eq!(h.store.report(&[]).await.unwrap(), 0);
}

fn rollup(h: &Harness, minute: Time, completed: u64) -> Rollup {
    let mut latency = vec![0; LATENCY_BUCKETS];
    latency[3] = 7;
    latency[LATENCY_BUCKETS - 1] = u32::MAX;
    let run = Duration::from_millis(1_234);
    Rollup { minute, queue: h.queue, kind: h.kind, completed, retried: 2, dead: 1, latency, run }
}

pub async fn rollups_are_stored_and_read(h: Harness) {
    let minute = |n: i64| Time(1_700_000_040_000_000 + n * 60_000_000);
    let one = rollup(&h, minute(0), 5);
    let two = Rollup { queue: h.other_queue, kind: h.other_kind, ..rollup(&h, minute(1), 6) };
    let three = rollup(&h, minute(2), 8);
    h.store.record(&[one.clone(), two.clone()]).await.unwrap();
    h.open().await.record(std::slice::from_ref(&three)).await.unwrap();
    h.store.record(&[]).await.unwrap();
    let sorted = async |since| {
        let mut got = h.store.rollups(since).await.unwrap();
        got.sort_by_key(|r| r.minute);
        got
    };
    assert_eq!(sorted(minute(0)).await, [one, two.clone(), three.clone()]);
    assert_eq!(sorted(minute(1)).await, [two, three.clone()], "its own minute counts");
    assert_eq!(sorted(Time(minute(1).0 + 1)).await, [three]);
    assert!(sorted(minute(3)).await.is_empty());
}

/// Two workers report the same minute; neither overwrites the other.
pub async fn rollups_of_one_minute_add_up(h: Harness) {
    let minute = Time(1_700_000_040_000_000);
    let second = h.open().await;
    let (one, two) = ([rollup(&h, minute, 5)], [rollup(&h, minute, 6)]);
    let (a, b) = tokio::join!(h.store.record(&one), second.record(&two));
    a.unwrap();
    b.unwrap();
    h.store.record(&one).await.unwrap();
    let got = h.store.rollups(minute).await.unwrap();
    assert_eq!(got.iter().map(|r| r.completed).sum::<u64>(), 16);
    assert_eq!(got.iter().map(|r| r.run).sum::<Duration>(), Duration::from_millis(3 * 1_234));
}
