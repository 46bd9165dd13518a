//! Budgets as handlers use them: reserve, settle, wait, and reservations that are never settled.

use std::time::{Duration, Instant};

use serde::Deserialize;
use windlass_core::budget::{
    Amount, BudgetChange, BudgetSpec, BudgetState, Estimate, Level, Month, Trigger, Usage,
};
use windlass_core::store::{Booked, Budget, Changed, Charged, Live};
use windlass_core::{JobId, JobState, KindSpec, Time};
use windlass_engine::{
    AlertWatch, Client, Context, EngineError, Handlers, JobError, JobRequest, ReserveError, Sweeper, handler,
};

use crate::on_both;
use crate::place::Place;

/// One provider call: what it asks for and what it costs, in cents.
#[derive(Deserialize)]
struct Call {
    asks: i64,
    costs: Option<i64>,
    #[serde(default)]
    estimated: Option<Trigger>,
    budget: Option<String>,
}

async fn call(context: Context, call: Call) -> Result<(), JobError> {
    let estimate =
        Estimate { amount: Amount::from_cents(call.asks), tokens: 10, trigger: call.estimated, user: None };
    let reservation = context.reserve(call.budget.as_deref().unwrap_or("ai"), estimate).await?;
    let Some(cents) = call.costs else { return Ok(()) };
    let usage = Usage { amount: Amount::from_cents(cents), tokens_in: 5, ..Usage::default() };
    let charged = reservation.settle(usage).await?;
    assert!(matches!(charged, Charged::Booked(_)), "{charged:?}");
    Ok(())
}

fn handlers() -> Handlers {
    let mut handlers = Handlers::default();
    handlers.add(KindSpec::new("CALL", "MAIN"), handler(call));
    handlers
}

async fn client(place: &Place) -> Client {
    let client = place.client(&["MAIN"], &handlers()).await;
    client.set_budgets(&[BudgetSpec::money("ai", Amount::from_cents(1_000))]).await.unwrap();
    client
}

async fn run(client: &Client, payload: &str) -> JobId {
    let job = client.enqueue(JobRequest::new("CALL", payload.as_bytes().to_vec())).await.unwrap().id;
    client.drain(&handlers()).await.unwrap();
    job
}

async fn budget(client: &Client) -> Budget {
    client.budget("ai").await.unwrap().unwrap()
}

async fn sums(client: &Client) -> (i64, i64) {
    let figures = budget(client).await.figures;
    (figures.settled.amount.cents(), figures.reserved.amount.cents())
}

/// State, counted runs, and the time of the next run.
async fn seen(client: &Client, job: JobId) -> (JobState, u16, Option<Time>) {
    let job = client.store().job(job).await.unwrap().unwrap().job;
    (job.state, job.attempt, job.run_at)
}

on_both! {
    async fn a_call_is_reserved_and_booked(place: Place) {
        let client = client(place).await;
        let job = run(&client, r#"{"asks": 20, "costs": 7}"#).await;
        assert_eq!(seen(&client, job).await.0, JobState::Completed);
        assert_eq!(sums(&client).await, (7, 0));
        assert!(client.meter().alerts().is_empty());
    }

    /// A refusal passed on with `?` is a snooze: until the next hour while money is left, else until the next month.
    async fn a_refused_call_waits_without_using_an_attempt(place: Place) {
        let client = client(place).await;
        run(&client, r#"{"asks": 900, "costs": 900}"#).await;
        for _ in 0..2 {
            let job = run(&client, r#"{"asks": 1, "costs": 1}"#).await;
            let (state, attempt, run_at) = seen(&client, job).await;
            assert_eq!((state, attempt), (JobState::Scheduled, 0));
            let now = client.store().now().await.unwrap();
            let wait = run_at.unwrap().since(now);
            assert!(wait > Duration::ZERO && wait <= Duration::from_secs(70 * 60), "{wait:?}");
            let found = client.store().job(job).await.unwrap().unwrap();
            let said = found.attempts[0].error.clone().unwrap_or_default();
            for part in ["budget ai:", "state QUEUE", "90.0 % used", "again from"] {
                assert!(said.contains(part), "{part} in {said}");
            }
            assert_eq!(found.job.last_error.as_deref(), Some(said.as_str()), "the job shows why it waits");
        }
        run(&client, r#"{"asks": 100, "costs": 100, "trigger": "manual"}"#).await;
        assert_eq!(budget(&client).await.state(), BudgetState::HardStop);
        let job = run(&client, r#"{"asks": 0, "costs": 0, "trigger": "manual"}"#).await;
        let (state, attempt, run_at) = seen(&client, job).await;
        assert_eq!((state, attempt), (JobState::Scheduled, 0));
        let next = Month::of(client.store().now().await.unwrap()).next().start();
        let late = run_at.unwrap().since(next);
        assert!(run_at.unwrap() >= next && late <= Duration::from_secs(600), "{run_at:?}");
        let refusals: Vec<_> = client.meter().refusals().into_iter().collect();
        let of = |state, count| (("ai".to_owned(), state), count);
        assert_eq!(refusals, [of(BudgetState::Queue, 2), of(BudgetState::HardStop, 1)]);
        let alerts: Vec<_> = client.meter().alerts().into_iter().collect();
        let of = |level, count| (("ai".to_owned(), level), count);
        assert_eq!(alerts, [of(Level::Info, 1), of(Level::Warning, 2), of(Level::Critical, 1)], "once each");
    }

    /// A server watches while a library process makes the calls. It raises each alert once, its own included, and none
    /// that fired before it started.
    async fn a_watch_raises_alerts_of_other_processes(place: Place) {
        let (server, library) = (client(place).await, client(place).await);
        run(&library, r#"{"asks": 750, "costs": 750}"#).await;
        let mut watch = AlertWatch::new(server.clone());
        watch.tick().await.unwrap();
        assert!(server.meter().alerts().is_empty(), "a restart raises no old alerts");
        run(&library, r#"{"asks": 50, "costs": 50}"#).await;
        run(&server, r#"{"asks": 100, "costs": 100}"#).await;
        let warnings = |client: &Client| client.meter().alerts().into_iter().collect::<Vec<_>>();
        let of = |level, count| (("ai".to_owned(), level), count);
        assert_eq!(warnings(&server), [of(Level::Warning, 1)], "its own alert is raised at once");
        for _ in 0..2 {
            watch.tick().await.unwrap();
            assert_eq!(warnings(&server), [of(Level::Warning, 2)]);
        }
        assert_eq!(warnings(&library), [of(Level::Info, 1), of(Level::Warning, 1)]);
    }

    /// A manual run is recognized by the tag of `schedules run`, or by the field `trigger` of the payload. The
    /// estimate's own trigger takes precedence.
    async fn a_manual_run_may_use_the_whole_limit(place: Place) {
        let client = client(place).await;
        run(&client, r#"{"asks": 900, "costs": 900}"#).await;
        let tagged = async |payload: &str| {
            let request = JobRequest::new("CALL", payload.as_bytes().to_vec());
            let request = JobRequest { tags: vec!["trigger:manual".to_owned()], ..request };
            let job = client.enqueue(request).await.unwrap().id;
            client.drain(&handlers()).await.unwrap();
            seen(&client, job).await.0
        };
        assert_eq!(tagged(r#"{"asks": 1, "costs": 1}"#).await, JobState::Completed);
        assert_eq!(tagged(r#"{"asks": 1, "costs": 1, "estimated": "scheduled"}"#).await, JobState::Scheduled);
        for (payload, state) in [
            (r#"{"asks": 1, "costs": 1, "trigger": "manual"}"#, JobState::Completed),
            (r#"{"asks": 1, "costs": 1, "trigger": "manual", "estimated": "scheduled"}"#, JobState::Scheduled),
            (r#"{"asks": 1, "costs": 1, "trigger": "scheduled"}"#, JobState::Scheduled),
            (r#"{"asks": 1, "costs": 1, "estimated": "manual"}"#, JobState::Completed),
        ] {
            let job = run(&client, payload).await;
            assert_eq!(seen(&client, job).await.0, state, "{payload}");
        }
    }

    async fn unsettled_reservations_are_booked_by_the_sweep(place: Place) {
        let client = client(place).await;
        run(&client, r#"{"asks": 30, "costs": null}"#).await;
        assert_eq!(sums(&client).await, (0, 30));
        let mut sweeper = Sweeper::new(place.store.clone(), Duration::from_secs(60));
        sweeper.tick(Instant::now()).await.unwrap();
        assert_eq!(sums(&client).await, (30, 0));
        let month = budget(&client).await.figures.month;
        let ledger = place.store.ledger("ai", month, 10).await.unwrap();
        assert_eq!((ledger.len(), ledger[0].how), (1, Booked::Leaked));
    }

    async fn configuration_mistakes_are_named(place: Place) {
        let client = client(place).await;
        let unknown = run(&client, r#"{"asks": 1, "costs": 1, "budget": "nope"}"#).await;
        let found = client.store().job(unknown).await.unwrap().unwrap();
        assert_eq!(found.job.attempt, 1, "a mistake is not a snooze");
        let error = found.attempts[0].error.clone().unwrap();
        assert!(error.contains("there is no budget `nope`; describe it under [budgets.NAME]"), "{error}");
        let negative = run(&client, r#"{"asks": -1, "costs": 1}"#).await;
        let found = client.store().job(negative).await.unwrap().unwrap().job;
        assert_eq!(found.state, JobState::Failed);
        assert!(found.last_error.unwrap().contains("amount: must be 0 to"));
        let bad = BudgetSpec { limit: None, ..BudgetSpec::named("Ai") };
        let refused = client.set_budgets(&[bad.clone(), bad]).await.unwrap_err().to_string();
        for part in ["budgets.Ai.name: must begin", "budgets.Ai.limit: or tokens", "is described twice"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(place.store.budgets().await.unwrap().len(), 1);
    }

    async fn an_operators_change_is_checked_and_raises_its_alerts(place: Place) {
        let client = client(place).await;
        run(&client, r#"{"asks": 80, "costs": 80}"#).await;
        let nothing = BudgetChange::new("ai", budget(&client).await.figures.month, None);
        assert!(matches!(client.change_budget(&nothing).await, Err(EngineError::Invalid(_))));
        let lower = BudgetChange { limit: Some(Live::Set(Some(Amount::from_cents(100)))), ..nothing };
        assert!(matches!(client.change_budget(&lower).await.unwrap(), Changed::Done { .. }));
        assert_eq!(client.meter().alerts().values().sum::<u64>(), 2);
        assert_eq!(budget(&client).await.batch_size(Trigger::Scheduled), 10);
    }
}

#[test]
fn only_a_refusal_and_an_unavailable_database_snooze() {
    let is_snooze = |error: ReserveError| matches!(JobError::from(error), JobError::Snooze { .. });
    assert!(!is_snooze(ReserveError::Stale));
    assert!(!is_snooze(ReserveError::Unknown { budget: "x".to_owned() }));
    let busy = windlass_core::StoreError::Busy { op: "reserve", source: "locked".into() };
    assert!(is_snooze(ReserveError::Store(busy.into())));
    assert!(!is_snooze(ReserveError::Store(windlass_core::StoreError::SchemaMissing.into())));
}
