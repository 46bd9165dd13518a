//! Four processes spend one budget at a provider that records its own charges, and are killed near the limit. Spending
//! stays within the limit, and the ledger covers every charge of the provider.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    Amount, Backoff, Budget, BudgetSpec, Builder, Context, Estimate, Job, JobError, JobState, KindSpec,
    Request, ReservationId, Trigger, Usage, Windlass, WorkerOptions,
};
use windlass_core::store::{Action, Booked, Entry, JobFilter};
use windlass_testkit::process::Process;
use windlass_testkit::seed::Seed;
use windlass_testkit::signal::{Seen, wait_until};

use crate::child::{DATABASE, log_to_stderr};
use crate::world::World;
use crate::{count, on_both};

const PROVIDER: &str = "WINDLASS_CHILD_PROVIDER";
const LIMIT: &str = "WINDLASS_CHILD_BUDGET";
const PROCESSES: usize = 4;
const AT_ONCE: u32 = 16;
const LEASE: Duration = Duration::from_millis(1_000);
/// The least that a call reserves, in millionths. Calls reserve 5 to 15 cents, in amounts whose sums are not round.
const LEAST: u64 = 50_001;
/// Coarse steps, so that some jobs reserve exactly `LEAST`. Otherwise the budget could stop with room for `LEAST` while
/// every remaining job needs more.
const STEP: u64 = 10_001;
const STEPS: u64 = 10;

#[derive(Debug, Serialize, Deserialize)]
struct Spend {
    asks: i64,
}

impl Job for Spend {
    const KIND: &'static str = "SPEND";

    fn spec() -> KindSpec {
        let backoff = Backoff { base: Duration::from_millis(20), ..Backoff::default() };
        KindSpec { backoff, max_attempts: 1_000, ..KindSpec::new(Self::KIND, Self::QUEUE) }
    }
}

fn builder(url: &str, limit: Amount, provider: String) -> Builder {
    Windlass::builder()
        .database(url)
        .budget(BudgetSpec::money("ai", limit))
        .job(move |context, job| spend(provider.clone(), context, job))
}

async fn spend(provider: String, context: Context, job: Spend) -> Result<(), JobError> {
    let estimate = Estimate {
        amount: Amount(job.asks),
        tokens: 100,
        trigger: Some(Trigger::Manual),
        user: Some(format!("{}", job.asks % 3)),
    };
    let reservation = context.reserve("ai", estimate).await?;
    let key = reservation.id();
    let cost = tokio::task::spawn_blocking(move || call(&provider, key, job.asks)).await??;
    let provider = Some("stand-in".to_owned());
    reservation.settle(Usage { amount: cost, tokens_in: 60, tokens_out: 30, provider, model: None }).await?;
    Ok(())
}

fn call(provider: &str, key: ReservationId, asks: i64) -> std::io::Result<Amount> {
    let mut stream = TcpStream::connect(provider)?;
    writeln!(stream, "{key} {asks}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    answer.trim().parse().map(Amount).map_err(std::io::Error::other)
}

/// Child process: a worker that spends.
#[test]
fn spender() {
    let Ok(provider) = std::env::var(PROVIDER) else { return };
    let url = std::env::var(DATABASE).unwrap();
    let limit = Amount(std::env::var(LIMIT).unwrap().parse().unwrap());
    log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // Little prefetch: every job leased by a killed process runs alone afterwards, which is slow.
        let options = WorkerOptions {
            lease: LEASE,
            concurrency: Some(AT_ONCE),
            prefetch: AT_ONCE,
            ..WorkerOptions::default()
        };
        let windlass = builder(&url, limit, provider).worker(options).build().await.unwrap();
        let _workers = windlass.start().await.unwrap();
        println!("started");
        std::future::pending::<()>().await;
    });
}

/// A stand-in for a paid provider. It records each charge, even if the caller dies before the answer.
#[derive(Clone, Default)]
struct Provider {
    charges: Arc<Mutex<HashMap<ReservationId, Vec<Amount>>>>,
}

impl Provider {
    /// Returns its address.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let provider = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let provider = provider.clone();
                thread::spawn(move || provider.answer(stream));
            }
        });
        address
    }

    /// Charges 30 to 90 % of the reserved amount before it answers.
    fn answer(&self, mut stream: TcpStream) -> Option<()> {
        let mut line = String::new();
        BufReader::new(stream.try_clone().ok()?).read_line(&mut line).ok()?;
        let (key, asks) = line.trim().split_once(' ')?;
        let (key, asks): (i64, i64) = (key.parse().ok()?, asks.parse().ok()?);
        let cost = Amount(asks * (30 + key * 7_919 % 61) / 100);
        self.charges.lock().unwrap().entry(ReservationId(key)).or_default().push(cost);
        thread::sleep(Duration::from_millis(10 + (key * 31 % 50).unsigned_abs()));
        writeln!(stream, "{}", cost.0).ok()
    }

    fn total(&self) -> i64 {
        self.charges.lock().unwrap().values().flatten().map(|cost| cost.0).sum()
    }
}

fn start(world: &World, name: &str, limit: Amount, provider: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "budget::spender", "--nocapture"]);
    command.env(DATABASE, &world.url).env(PROVIDER, provider).env(LIMIT, limit.0.to_string());
    Process::start(name, world.directory(), command).unwrap()
}

/// Reads the budget and checks that it is within its limit.
async fn look(windlass: &Windlass) -> Budget {
    let budget = windlass.client().budget("ai").await.unwrap().expect("it is configured");
    let (used, limit) = (budget.figures.used().amount, budget.figures.limits.amount.unwrap());
    assert!(used <= limit, "{used} of {limit} used");
    budget
}

/// Retries refused jobs, which would otherwise wait for the next hour.
async fn wake(windlass: &Windlass) {
    let filter = JobFilter { states: vec![JobState::Scheduled], ..JobFilter::default() };
    windlass.client().store().act(&filter, Action::Retry, 100_000, None).await.unwrap();
}

/// Waits until `share` percent of the limit is settled, or no further call fits.
async fn until_settled(windlass: &Windlass, share: i64) {
    wait_until(&format!("{share} % to be settled"), Duration::from_secs(240), || async {
        wake(windlass).await;
        let figures = look(windlass).await.figures;
        let limit = figures.limits.amount.unwrap();
        Seen::when(figures, |at| at.settled.amount.0 * 100 >= limit.0 * share || is_full(at))
    })
    .await;
}

/// The smallest call does not fit, and none is in progress.
fn is_full(figures: &windlass_core::budget::BudgetMonth) -> bool {
    let left = figures.limits.amount.unwrap().minus(figures.used().amount);
    left.0 < LEAST as i64 && figures.reserved.amount == Amount::ZERO
}

on_both! {
    async fn killed_spenders_stay_within_their_budget(world: World) {
        let (kills, jobs) = (count(8, 60), count(600, 6_000));
        let limit = Amount(jobs as i64 * 35_000);
        let provider = Provider::default();
        let address = provider.start();
        let windlass = builder(&world.url, limit, address.clone()).build().await.unwrap();
        let mut seed = Seed::from_environment();
        let asks: Vec<Request> =
            (0..jobs).map(|_| Spend { asks: (LEAST + seed.below(STEPS) * STEP) as i64 }.into()).collect();
        windlass.enqueue_many(asks).await.unwrap();
        let mut spenders: Vec<Process> =
            (0..PROCESSES).map(|n| start(&world, &format!("spender-{n}-0"), limit, &address)).collect();
        let mut ended = Vec::new();
        for kill in 0..kills {
            // From half the limit to the last percent of it.
            until_settled(&windlass, 50 + (kill * 48 / kills) as i64).await;
            tokio::time::sleep(Duration::from_millis(seed.below(60))).await;
            let victim = seed.below(PROCESSES as u64) as usize;
            spenders[victim].kill().unwrap();
            let next = start(&world, &format!("spender-{victim}-{}", kill + 1), limit, &address);
            ended.push(std::mem::replace(&mut spenders[victim], next));
        }
        until_settled(&windlass, 1_000).await;
        let logs: String = ended.iter().chain(&spenders).map(Process::stderr).collect();
        for mut spender in spenders {
            spender.kill().unwrap();
        }
        let ledger = check(&windlass, &provider, &logs).await;
        let leaked: Vec<&Entry> = ledger.iter().filter(|entry| entry.how == Booked::Leaked).collect();
        let calls = provider.charges.lock().unwrap().len();
        println!(
            "{kills} kills, {calls} calls, {} of {limit} charged, {} leaked reservations with {}",
            Amount(provider.total()), leaked.len(), Amount(leaked.iter().map(|entry| entry.amount.0).sum())
        );
        assert!(!leaked.is_empty(), "no kill hit a call, so the test proved nothing");
        world.end().await;
    }
}

/// Compares the ledger with the provider's charges and returns the ledger.
async fn check(windlass: &Windlass, provider: &Provider, logs: &str) -> Vec<Entry> {
    let budget = look(windlass).await;
    let figures = budget.figures;
    assert_eq!((figures.reserved.amount, figures.reserved.tokens), (Amount::ZERO, 0), "after the sweep");
    let ledger = windlass.client().store().ledger("ai", figures.month, 1_000_000).await.unwrap();
    let mut entries: HashMap<ReservationId, &Entry> = HashMap::new();
    for entry in &ledger {
        let key = entry.call.as_ref().expect("a call").reservation;
        assert!(entries.insert(key, entry).is_none(), "{key} was booked twice");
    }
    let charges = provider.charges.lock().unwrap().clone();
    for (key, costs) in &charges {
        let [cost] = costs.as_slice() else { panic!("{key} was charged {costs:?}") };
        let entry = entries.get(key).unwrap_or_else(|| panic!("{key} was charged {cost} and is not booked"));
        match entry.how {
            Booked::Settled => assert_eq!(entry.amount, *cost, "{key}"),
            Booked::Leaked => assert!(entry.amount >= *cost, "{key}: {entry:?} does not cover {cost}"),
            Booked::Reset => panic!("{entry:?}"),
        }
    }
    for (key, entry) in &entries {
        assert!(entry.how == Booked::Leaked || charges.contains_key(key), "{key} was invented: {entry:?}");
    }
    let booked: i64 = ledger.iter().map(|entry| entry.amount.0).sum();
    assert_eq!(booked, figures.settled.amount.0);
    let costs = windlass.client().store().costs("ai", figures.month).await.unwrap();
    for by in [&costs.by_kind, &costs.by_user, &costs.by_provider] {
        assert_eq!(by.iter().map(|cost| cost.amount.0).sum::<i64>(), booked, "{by:?}");
    }
    let limit = figures.limits.amount.unwrap().0;
    let total = provider.total();
    assert!(total <= booked && booked <= limit, "{total} charged, {booked} booked, {limit} allowed");
    let fired: Vec<u16> = budget.alerts.iter().map(|fired| fired.threshold.percent).collect();
    assert!(fired.starts_with(&[75, 80, 90]), "{fired:?}");
    for percent in fired {
        // A process may be killed between the commit and the log line; no other process repeats the line.
        let said =
            logs.lines().filter(|line| line.contains(&format!("reached {percent} % of its limit"))).count();
        assert!(said <= 1, "{percent} % was logged {said} times");
    }
    assert!(logs.contains("a budget reached"), "no alert was logged");
    ledger
}
