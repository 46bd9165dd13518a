//! Behaviour of the library: outcomes, batches, queue limits, transactions, test modes, cancel, shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    Backoff, Builder, Completion, Context, EnqueueError, Job, JobError, JobState, KindSpec, OnConflict,
    QueueSpec, Request, TestMode, UniqueUntil, Waited, Windlass, WorkerOptions,
};
use windlass_core::store::{Action, JobFilter, QueueUpdate};
use windlass_testkit::signal::{Seen, wait_until};

use crate::on_both;
use crate::world::{World, state_of};

const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    Double(i64),
    Panic,
    Snooze,
    Fail,
    Hang,
    FailOnce,
    /// The handler settles in a transaction with a result, then returns without one.
    Inside,
}

impl Job for Ask {
    const KIND: &'static str = "ASK";
    const QUEUE: &'static str = "HIGH";

    fn spec() -> KindSpec {
        let backoff = Backoff { base: Duration::from_millis(10), ..Backoff::default() };
        KindSpec { backoff, max_attempts: 2, ..KindSpec::new(Self::KIND, Self::QUEUE) }
    }
}

async fn answer(context: Context, ask: Ask) -> Result<Completion, JobError> {
    match ask {
        Ask::Double(n) => Completion::with(&(n * 2)),
        Ask::Panic => panic!("as asked"),
        Ask::Snooze => Err(JobError::snooze(Duration::from_secs(600))),
        Ask::Fail => Err(JobError::fail("never again")),
        Ask::Hang => {
            context.progress(40.0, Some("hanging"));
            context.log("hung up");
            std::future::pending().await
        }
        Ask::FailOnce if context.attempt() == 1 => Err(JobError::retry("the first time")),
        Ask::FailOnce => Ok(Completion::done()),
        Ask::Inside => {
            let mut tx = context.begin().await?;
            assert!(context.settle_in_with(&mut tx, Completion::with(&"kept")?).await?);
            tx.commit().await?;
            Ok(Completion::done())
        }
    }
}

fn builder(world: &World) -> Builder {
    Windlass::builder().database(&world.url).job(answer)
}

async fn finished(windlass: &Windlass, ask: impl Into<Request>) -> windlass::JobRecord {
    let id = windlass.enqueue(ask).await.unwrap().id;
    match windlass.wait(id, DEADLINE).await.unwrap() {
        Waited::Finished(job) => *job,
        other => panic!("{other:?}"),
    }
}

on_both! {
    async fn every_outcome_ends_in_its_state(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        let workers = windlass.start().await.unwrap();
        let doubled = finished(&windlass, Ask::Double(21)).await;
        assert_eq!((doubled.state, doubled.result.as_deref()), (JobState::Completed, Some(&b"42"[..])));
        let failed = finished(&windlass, Ask::Fail).await;
        assert_eq!((failed.state, failed.last_error.as_deref()), (JobState::Failed, Some("never again")));
        let panicked = finished(&windlass, Ask::Panic).await;
        assert_eq!((panicked.state, panicked.attempt), (JobState::DeadLetter, 2));
        assert!(panicked.last_error.unwrap().contains("panicked: as asked"));
        let late = finished(&windlass, Request::from(Ask::Hang).timeout(Duration::from_millis(50))).await;
        assert_eq!(late.state, JobState::DeadLetter);
        assert!(late.last_error.unwrap().contains("timed out after 50ms"));
        let second = finished(&windlass, Ask::FailOnce).await;
        assert_eq!((second.state, second.attempt), (JobState::Completed, 2));
        let inside = finished(&windlass, Ask::Inside).await;
        assert_eq!((inside.state, inside.result.as_deref()), (JobState::Completed, Some(&b"\"kept\""[..])));
        let snoozed = windlass.enqueue(Ask::Snooze).await.unwrap().id;
        wait_until("the snooze", DEADLINE, || async {
            Seen::when(state_of(&windlass, snoozed).await, |state| *state == JobState::Scheduled)
        })
        .await;
        let detail = windlass.client().store().job(snoozed).await.unwrap().unwrap();
        assert_eq!(detail.job.attempt, 0, "a snooze burns no attempt");
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn an_undecodable_payload_becomes_a_dead_letter(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        let workers = windlass.start().await.unwrap();
        let request = windlass_engine::JobRequest::new("ASK", b"{\"Unheard\":1}".to_vec());
        let id = windlass.client().enqueue(request).await.unwrap().id;
        let Waited::Finished(job) = windlass.wait(id, DEADLINE).await.unwrap() else { panic!("not finished") };
        assert_eq!(job.state, JobState::DeadLetter);
        assert!(job.last_error.unwrap().contains("cannot be decoded"));
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn a_running_job_is_cancelled_from_another_process(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        let workers = windlass.start().await.unwrap();
        let other = builder(&world).build().await.unwrap();
        let id = other.enqueue(Ask::Hang).await.unwrap().id;
        wait_until("its log line", DEADLINE, || async {
            let detail = other.client().store().job(id).await.unwrap().unwrap();
            Seen::when(detail, |d| !d.logs.is_empty() && d.job.progress.is_some())
        })
        .await;
        let filter = JobFilter { ids: vec![id], ..JobFilter::default() };
        let bulk = other.client().store().act(&filter, Action::Cancel, 1, None).await.unwrap();
        assert_eq!((bulk.requested, bulk.done), (1, 0));
        let Waited::Finished(job) = other.wait(id, DEADLINE).await.unwrap() else { panic!("not finished") };
        assert_eq!(job.state, JobState::Cancelled);
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn a_unique_key_is_held_until_the_job_has_finished_or_until_it_starts(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        let workers = windlass.start().await.unwrap();
        for until in [UniqueUntil::Finished, UniqueUntil::Started] {
            let unique = |ask: Ask| {
                let key = until.name();
                Request::from(ask).unique_key(key, OnConflict::Keep).unique_until(until)
            };
            let first = windlass.enqueue(unique(Ask::Hang)).await.unwrap().id;
            wait_until("the first to run", DEADLINE, || async {
                Seen::when(state_of(&windlass, first).await, |state| *state == JobState::Running)
            })
            .await;
            let second = windlass.enqueue(unique(Ask::Double(1))).await.unwrap();
            assert_eq!(second.duplicate, until == UniqueUntil::Finished, "{}", until.name());
            let filter = JobFilter { ids: vec![first], ..JobFilter::default() };
            windlass.client().store().act(&filter, Action::Cancel, 1, None).await.unwrap();
            windlass.wait(first, DEADLINE).await.unwrap();
            let after = windlass.enqueue(unique(Ask::Double(2))).await.unwrap();
            windlass.wait(after.id, DEADLINE).await.unwrap();
        }
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn shutdown_returns_unfinished_jobs_to_their_queue(world: World) {
        let options = WorkerOptions { grace: Duration::from_millis(200), ..WorkerOptions::default() };
        let windlass = builder(&world).worker(options).build().await.unwrap();
        let workers = windlass.start().await.unwrap();
        let id = windlass.enqueue(Ask::Hang).await.unwrap().id;
        wait_until("it to run", DEADLINE, || async {
            Seen::when(state_of(&windlass, id).await, |state| *state == JobState::Running)
        })
        .await;
        workers.shutdown().await.unwrap();
        let detail = windlass.client().store().job(id).await.unwrap().unwrap();
        assert_eq!((detail.job.state, detail.job.attempt), (JobState::Pending, 0), "no attempt was burnt");
        assert!(windlass.client().store().workers().await.unwrap().is_empty());
        world.end().await;
    }

    async fn a_bad_job_in_a_batch_fails_alone(world: World) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = calls.clone();
        let batch = move |jobs: Vec<(Context, Ask)>| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(!jobs.iter().any(|(_, ask)| matches!(ask, Ask::Panic)), "a bad item");
                jobs.iter().map(|_| Ok(Completion::done())).collect()
            }
        };
        let windlass = Windlass::builder().database(&world.url).batch_job(64, batch).build().await.unwrap();
        let asks = (0..32).map(|n| if n == 13 { Ask::Panic } else { Ask::Double(n) });
        let ids: Vec<_> = windlass.enqueue_many(asks).await.unwrap().iter().map(|e| e.id).collect();
        let workers = windlass.start().await.unwrap();
        for (n, id) in ids.iter().enumerate() {
            let Waited::Finished(job) = windlass.wait(*id, DEADLINE).await.unwrap() else { panic!("job {n} hangs") };
            let expected = if n == 13 { JobState::DeadLetter } else { JobState::Completed };
            assert_eq!((n, job.state), (n, expected));
        }
        assert!(calls.load(Ordering::Relaxed) < 32, "they were run one by one");
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn a_transaction_writes_data_and_job_or_neither(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        for commit in [false, true] {
            let mut tx = windlass.begin().await.unwrap();
            let insert = format!("insert into {} (job_id) values (7)", world.effects());
            let insert = sqlx::AssertSqlSafe(insert);
            if let Some(postgres) = tx.postgres() {
                sqlx::query(insert).execute(postgres).await.unwrap();
            } else {
                sqlx::query(insert).execute(tx.sqlite().unwrap()).await.unwrap();
            }
            windlass.enqueue_in(&mut tx, Ask::Double(1)).await.unwrap();
            if commit { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
            assert_eq!(windlass.enqueued::<Ask>().await.unwrap().len(), usize::from(commit));
            assert_eq!(world.effect_ids().await.len(), usize::from(commit));
        }
        world.end().await;
    }

    async fn the_three_test_modes(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        windlass.enqueue(Ask::Double(4)).await.unwrap();
        windlass.assert_enqueued::<Ask>(|ask| matches!(ask, Ask::Double(4))).await;
        let drained = windlass.drain().await.unwrap();
        assert_eq!((drained.completed, drained.ended), (1, 0));
        let inline = builder(&world).test_mode(TestMode::Inline).build().await.unwrap();
        let id = inline.enqueue(Ask::Double(5)).await.unwrap().id;
        assert_eq!(state_of(&inline, id).await, JobState::Completed);
        let mut tx = inline.begin().await.unwrap();
        let refused = inline.enqueue_in(&mut tx, Ask::Double(6)).await.unwrap_err();
        assert!(matches!(refused, EnqueueError::InlineInTransaction), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("test mode Inline") && text.contains("drain()"), "{text}");
        tx.commit().await.unwrap();
        assert!(inline.enqueued::<Ask>().await.unwrap().is_empty(), "a job waits although none was accepted");
        world.end().await;
    }

    async fn a_full_queue_refuses_jobs(world: World) {
        let spec = QueueSpec { depth_cap: Some(3), ..QueueSpec::named("HIGH") };
        let windlass = builder(&world).queue(spec).build().await.unwrap();
        for n in 0..3 {
            windlass.enqueue(Ask::Double(n)).await.unwrap();
        }
        let refused = windlass.enqueue(Ask::Double(4)).await.unwrap_err().to_string();
        assert!(refused.contains("queue HIGH holds 3 waiting jobs"), "{refused}");
        assert_eq!(windlass.enqueued::<Ask>().await.unwrap().len(), 3);
        windlass.drain().await.unwrap();
        windlass.enqueue(Ask::Double(5)).await.unwrap();
        world.end().await;
    }

    async fn a_queue_can_be_paused_and_resumed(world: World) {
        let windlass = builder(&world).build().await.unwrap();
        let queue = windlass.client().catalog().queue_named("high").unwrap().id;
        let store = windlass.client().store().clone();
        let update = QueueUpdate { paused: Some(true), ..QueueUpdate::default() };
        assert!(store.update_queue(queue, &update).await.unwrap());
        let workers = windlass.start().await.unwrap();
        let id = windlass.enqueue(Ask::Double(1)).await.unwrap().id;
        assert!(matches!(windlass.wait(id, Duration::from_millis(300)).await.unwrap(), Waited::TimedOut));
        let update = QueueUpdate { paused: Some(false), ..QueueUpdate::default() };
        store.update_queue(queue, &update).await.unwrap();
        assert!(matches!(windlass.wait(id, DEADLINE).await.unwrap(), Waited::Finished(_)));
        workers.shutdown().await.unwrap();
        world.end().await;
    }

    async fn every_clash_of_kinds_is_reported_at_once(world: World) {
        let elsewhere = KindSpec::new("ASK", "NOWHERE");
        let handlers = windlass_engine::Handlers::default();
        let store = builder(&world).build().await.unwrap().client().store().clone();
        let twice = [elsewhere.clone(), elsewhere];
        let error = windlass_engine::Client::open(store, &[], &twice).await.err().unwrap().to_string();
        assert!(error.contains("NOWHERE") && error.contains("registered twice"), "{error}");
        assert!(handlers.check().is_ok());
        world.end().await;
    }
}
