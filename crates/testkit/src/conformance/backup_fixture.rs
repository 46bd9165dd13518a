//! A database with rows in every table, and its rows as a backup reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::backup::line::write_row;
use windlass_core::backup::{Batch, Cell, Holdings, Sum, Table};
use windlass_core::store::{
    Action, BackupStore, Import, KindUpdate, LATENCY_BUCKETS, Live, QueueUpdate, Report, ReportBody, Rollup,
};
use windlass_core::workflow::OnFailure;
use windlass_core::{
    EntityRef, Idempotency, JobId, NewJob, OnConflict, Outcome, QueueSpec, Resource, Store, Unique,
};

use super::budget_fixture::BudgetFixture;
use super::entity_fixture::EntityFixture;
use super::schedule_fixture::{HOUR, spec};
use super::workflow_fixture::WorkflowFixture;
use super::{Harness, settlement};

/// Jobs that the cases check after a restore.
pub struct Filled {
    /// Leased in its second attempt.
    pub leased: JobId,
    /// Leased while a newer job with its unique key waits.
    pub duplicate: JobId,
    pub waiting: JobId,
    pub completed: JobId,
}

/// Adds jobs in every state with every option, entities, schedules, budgets and operator actions.
pub async fn fill(h: &Harness) -> Filled {
    let fixture = BudgetFixture::new(h).await;
    let dying = h.worker().await;
    h.put(h.job()).await;
    h.claim_one(dying).await;
    h.lose(dying).await;
    let worker = h.worker().await;
    let waiting = waiting(h).await;
    let completed = ended(h, fixture.worker).await;
    books(h, &fixture).await;
    entities(h).await;
    h.schedule(&spec("hourly", "every 1h")).await;
    h.schedule(&spec("paused", "@daily")).await;
    h.store.pause_schedule("paused", true, None).await.unwrap();
    h.advance(HOUR * 2);
    let turn = h.tick_of(&h.read("hourly").await, h.now().await);
    assert_eq!(h.store.tick(&[turn]).await.unwrap(), [true]);
    let update = QueueUpdate {
        paused: Some(true),
        concurrency: Some(Live::Set(3)),
        depth_cap: Some(Live::Set(Some(9))),
        boost_after: Some(Live::Set(None)),
        ..QueueUpdate::default()
    };
    h.store.update_queue(h.other_queue, &update).await.unwrap();
    h.store.record(&[rollup(h).await]).await.unwrap();
    let (leased, duplicate) = leased(h, worker).await;
    limits(h).await;
    WorkflowFixture::diamond(h, OnFailure::Compensate).await;
    Filled { leased, duplicate, waiting, completed }
}

/// A rate with leased tokens, a live limit per key, a resource, and an open window of a unique key.
async fn limits(h: &Harness) {
    let rate = Some(Live::Set(Some("2/s".parse().unwrap())));
    let update = KindUpdate { rate, key_concurrency: Some(Live::Set(2)), ..KindUpdate::default() };
    assert!(h.store.update_kind(h.kind, &update).await.unwrap());
    h.store.lease_tokens(h.kind, 1, 0).await.unwrap();
    let queue = QueueSpec { resource: Some(Resource::new("browser", 6)), ..QueueSpec::named("HELD") };
    h.store.sync_registry(&[queue], &[], None).await.unwrap();
    let unique = Some(Unique { window: Some(HOUR), ..Unique::new("window", OnConflict::Keep) });
    h.put(NewJob { unique, ..h.delayed(HOUR * 24 * 40) }).await;
}

async fn waiting(h: &Harness) -> JobId {
    let full = NewJob {
        payload: (0..=255).collect(),
        priority: 9,
        timeout: Some(Duration::from_millis(1_500)),
        idempotency: Some(Idempotency { key: "once".to_owned(), fingerprint: vec![0, 1, 255] }),
        concurrency_key: Some("lane".to_owned()),
        tags: vec!["a\"b\\".to_owned(), "tab\tand\nline".to_owned(), "ü".to_owned()],
        entity: Some(EntityRef { entity_type: "order".to_owned(), entity_id: "7".to_owned() }),
        ..h.unique("waits", OnConflict::Keep)
    };
    let id = h.put(full).await;
    h.put(h.delayed(HOUR * 24 * 40)).await;
    h.put(NewJob { concurrency_key: Some("later".to_owned()), ..h.delayed(HOUR * 24 * 40) }).await;
    h.put(h.unique("replaced", OnConflict::Keep)).await;
    h.put(NewJob { priority: 9, ..h.unique("replaced", OnConflict::Replace) }).await;
    id
}

/// One job for each way to end, with its attempts.
async fn ended(h: &Harness, worker: windlass_core::WorkerId) -> JobId {
    let errors = [
        Outcome::Done { result: Some(b"{\"ok\": true}".to_vec()) },
        Outcome::Retry { after: Some(HOUR * 50), error: "not\tyet \\ \u{202e}".to_owned() },
        Outcome::snooze(HOUR * 50),
        Outcome::Fail { error: "never".to_owned() },
    ];
    let mut completed = None;
    for outcome in errors {
        h.put(NewJob { priority: 0, ..h.job() }).await;
        let job = h.claim_one(worker).await;
        let body = ReportBody::Log { line: "line \\N".to_owned() };
        let log = Report { id: job.id, token: job.token, attempt: job.attempt, body };
        assert_eq!(h.store.report(&[log]).await.unwrap(), 1);
        h.settle(&job, outcome).await;
        completed.get_or_insert(job.id);
    }
    h.put(NewJob { priority: 0, max_attempts: 1, ..h.job() }).await;
    let last = h.claim_one(worker).await;
    h.settle(&last, Outcome::Retry { after: None, error: "dead".to_owned() }).await;
    let cancelled = h.put(h.job()).await;
    h.act(&[cancelled], Action::Cancel).await;
    completed.unwrap()
}

async fn books(h: &Harness, fixture: &BudgetFixture<'_>) {
    h.put(NewJob { priority: 0, ..h.job() }).await;
    let job = h.claim_one(fixture.worker).await;
    fixture.change(&fixture.to_limit(20_000).await).await;
    fixture.spend(&job, 15_500).await;
    fixture.granted(&job, 100).await;
    h.done(&job).await;
}

async fn entities(h: &Harness) {
    let entities = EntityFixture::new(h).await;
    for (id, text) in [("a", "waits for its vector"), ("b", "is deleted"), ("c", "ü \"quoted\" \\ text")] {
        entities.saved(entities.put(id, text)).await;
    }
    entities.saved(entities.delete("b")).await;
    entities.saved(entities.prepared("d", "has one", &[0, 1, 2, 255])).await;
}

async fn rollup(h: &Harness) -> Rollup {
    let mut latency = vec![0; LATENCY_BUCKETS];
    latency[3] = 7;
    let minute = windlass_core::Time(h.now().await.0 / 60_000_000 * 60_000_000);
    let run = Duration::from_micros(123_456);
    Rollup { minute, queue: h.queue, kind: h.kind, completed: 7, retried: 1, dead: 0, latency, run }
}

/// A job in its second attempt with progress and a cancel request, and one whose duplicate waits.
async fn leased(h: &Harness, worker: windlass_core::WorkerId) -> (JobId, JobId) {
    let first = h.put(NewJob { priority: 0, ..h.job() }).await;
    let job = h.claim_one(worker).await;
    h.store
        .settle(&[settlement(&job, Outcome::Retry { after: Some(Duration::ZERO), error: "once".to_owned() })])
        .await
        .unwrap();
    h.advance(Duration::from_secs(1));
    // In a lane: the superseded job frees its slot.
    let keyed = |job| NewJob { concurrency_key: Some("duplicate".to_owned()), priority: 0, ..job };
    let duplicate = h.put(keyed(h.unique("duplicate", OnConflict::Keep))).await;
    let held = h.claim(worker, 2).await;
    assert_eq!(held.iter().map(|job| job.id).collect::<Vec<_>>(), [first, duplicate]);
    let body = ReportBody::Progress { percent: 12.3, message: Some("half".to_owned()) };
    let progress = Report { id: first, token: held[0].token, attempt: held[0].attempt, body };
    assert_eq!(h.store.report(&[progress]).await.unwrap(), 1);
    h.act(&[first], Action::Cancel).await;
    h.put(keyed(h.unique("duplicate", OnConflict::Keep))).await;
    (first, duplicate)
}

/// The tables of the schema and of entities.
pub fn holdings() -> Holdings {
    Holdings::core().with_tables(windlass_core::entity::TABLES)
}

/// All rows of a backup.
pub async fn exported(store: &(impl BackupStore + ?Sized)) -> Vec<Batch> {
    exported_as(store, &holdings()).await
}

pub async fn exported_as(store: &(impl BackupStore + ?Sized), holdings: &Holdings) -> Vec<Batch> {
    let mut export = store.export(holdings).await.unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = export.next().await.unwrap() {
        batches.push(batch);
    }
    batches
}

/// Count and digest of each table that has rows.
pub fn sums(batches: &[Batch]) -> BTreeMap<&'static str, Sum> {
    let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
    for batch in batches {
        for row in &batch.rows {
            let mut line = Vec::new();
            write_row(&mut line, row, 0..row.len());
            sums.entry(batch.table.name).or_default().add(&line);
        }
    }
    sums
}

pub async fn import(store: &dyn Store, batches: Vec<Batch>) {
    import_as(store, &holdings(), batches).await;
}

pub async fn import_as(store: &dyn Store, holdings: &Holdings, batches: Vec<Batch>) {
    let mut import = store.import(holdings).await.unwrap();
    for Batch { table, rows } in batches {
        put(import.as_mut(), table, rows).await;
    }
    import.finish().await.unwrap();
}

pub(super) async fn put(import: &mut dyn Import, table: &'static Table, rows: Vec<Vec<Cell>>) {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    import.put(table, &columns, rows).await.unwrap();
}

/// The one row of a table with this id.
pub(super) fn row_of(batches: &[Batch], name: &str, id: JobId) -> Option<BTreeMap<&'static str, Cell>> {
    let table = holdings().table(name).unwrap();
    let at = table.column("id").unwrap();
    let rows = batches.iter().filter(|batch| batch.table == table).flat_map(|batch| &batch.rows);
    let mut found = rows.filter(|row| row[at] == Cell::Int(id.0));
    let row = found.next()?;
    assert!(found.next().is_none(), "{name} has job {id} twice");
    Some(table.columns.iter().map(|column| column.name).zip(row.iter().cloned()).collect())
}

/// Fails if a table is empty, because the backup cases would then not test it.
pub fn check_full(batches: &[Batch]) {
    let sums = sums(batches);
    let empty: Vec<&str> =
        holdings().tables.iter().map(|table| table.name).filter(|name| !sums.contains_key(name)).collect();
    assert_eq!(empty, Vec::<&str>::new(), "tables without a row in the tests of backups");
}
