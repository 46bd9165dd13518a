//! Entities under faults: a worker dies between embedding and writing, an entity is deleted while its indexing job
//! runs, two nodes share one database.

use std::time::Duration;

use serde_json::json;
use windlass::{
    Change, EmbedError, Embedder, IndexState, Mode, SaveRequest, SearchRequest, StaticTable, Strategy,
    Vector, Windlass, WorkerOptions,
};
use windlass_core::JobState;
use windlass_core::store::JobFilter;
use windlass_testkit::process::Process;
use windlass_testkit::signal::{Seen, wait_until};

use crate::child;
use crate::on_both;
use crate::world::{Database, World};

const DEADLINE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_millis(800);
const HANG: &str = "WINDLASS_CHILD_HANG";

/// The built-in embedder, which prints a line after each call and can then hang.
struct PrintingEmbedder {
    table: StaticTable,
    hangs: bool,
}

impl Embedder for PrintingEmbedder {
    fn space(&self) -> &str {
        self.table.space()
    }

    fn dimension(&self) -> usize {
        self.table.dimension()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        let vectors = self.table.embed(texts);
        println!("embedded {}", texts.len());
        if self.hangs {
            // Until it is killed.
            loop {
                std::thread::park();
            }
        }
        vectors
    }
}

/// Child process that runs indexing jobs.
#[test]
fn indexer() {
    let Ok(url) = std::env::var(child::DATABASE) else { return };
    child::log_to_stderr();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let embedder =
            PrintingEmbedder { table: StaticTable::load().unwrap(), hangs: std::env::var(HANG).is_ok() };
        let options = WorkerOptions { lease: LEASE, ..WorkerOptions::default() };
        let builder = Windlass::builder().database(url).entities([]).embedder(embedder).worker(options);
        let _workers = builder.build().await.unwrap().start().await.unwrap();
        std::future::pending::<()>().await;
    });
}

async fn node(world: &World) -> Windlass {
    Windlass::builder().database(&world.url).entities([]).build().await.unwrap()
}

fn indexer_process(world: &World, name: &str, hangs: bool) -> Process {
    let mut command = world.command("index::indexer");
    if hangs {
        command.env(HANG, "1");
    }
    Process::start(name, world.directory(), command).unwrap()
}

fn put(id: &str, text: &str) -> SaveRequest {
    let fields = json!({ "text": text }).as_object().unwrap().clone();
    SaveRequest::new("document", id, Change::Put(fields))
}

async fn found(node: &Windlass, query: &str, mode: Mode) -> Vec<String> {
    let request = SearchRequest { mode, ..SearchRequest::new("document", query) };
    node.search(request).await.unwrap().hits.into_iter().map(|hit| hit.id).collect()
}

async fn until_indexed(node: &Windlass, id: &str) {
    wait_until("the entity to be indexed", DEADLINE, || async {
        let row = node.entities().unwrap().get("document", id).await.unwrap();
        Seen::when(row.state, |state| *state == IndexState::Indexed)
    })
    .await;
}

async fn until_embedded(process: &Process) {
    wait_until("the process to embed", DEADLINE, || async {
        Seen::when(process.stdout(), |text| text.contains("embedded"))
    })
    .await;
}

on_both! {
    async fn killed_between_embedding_and_writing(world: World) {
        let node = node(&world).await;
        node.save(put("a", "a brass trumpet")).await.unwrap();
        let mut first = indexer_process(&world, "first", true);
        until_embedded(&first).await;
        first.kill().unwrap();
        let row = node.entities().unwrap().get("document", "a").await.unwrap();
        assert_eq!((row.state, row.indexed_version), (IndexState::Pending, None), "nothing was written");
        assert!(found(&node, "musical instrument", Mode::Vector).await.is_empty());
        let _second = indexer_process(&world, "second", false);
        until_indexed(&node, "a").await;
        assert_eq!(found(&node, "musical instrument", Mode::Vector).await, ["a"]);
        world.end().await;
    }

    async fn deleted_while_its_indexing_job_runs(world: World) {
        let node = node(&world).await;
        node.save(put("a", "a brass trumpet")).await.unwrap();
        let mut holder = indexer_process(&world, "holder", true);
        until_embedded(&holder).await;
        node.save(SaveRequest::new("document", "a", Change::Delete)).await.unwrap();
        holder.kill().unwrap();
        let _worker = indexer_process(&world, "worker", false);
        wait_until("the indexing job to end", DEADLINE, || async {
            let live = [JobState::Scheduled, JobState::Pending, JobState::Running];
            let filter = JobFilter { states: live.to_vec(), ..JobFilter::default() };
            Seen::when(node.client().store().count(&filter).await.unwrap(), |left| *left == 0)
        })
        .await;
        assert!(node.entities().unwrap().get("document", "a").await.is_err(), "it came back");
        assert!(found(&node, "trumpet", Mode::Hybrid).await.is_empty());
        world.end().await;
    }

    async fn another_node_finds_a_committed_write_at_once(world: World) {
        let (one, other) = (node(&world).await, node(&world).await);
        for round in 0..20 {
            let request = SaveRequest { strategy: Some(Strategy::Sync), ..put("a", &format!("walnut table {round}")) };
            one.save(request).await.unwrap();
            assert_eq!(found(&other, &format!("{round}"), Mode::Keyword).await, ["a"], "round {round}");
            one.save(SaveRequest::new("document", "a", Change::Delete)).await.unwrap();
            assert!(found(&other, "walnut", Mode::Hybrid).await.is_empty(), "round {round}");
        }
        world.end().await;
    }

    /// Concurrent searches share one read of the change feed, which must begin after each of them was called.
    async fn concurrent_writers_each_find_their_own_save(world: World) {
        let node = node(&world).await;
        let writer = |n: usize| {
            let node = node.clone();
            async move {
                for round in 0..25 {
                    let (id, word) = (format!("e{n}"), format!("word{n}x{round}"));
                    node.save(put(&id, &word)).await.unwrap();
                    assert_eq!(found(&node, &word, Mode::Keyword).await, [id], "{word}");
                }
            }
        };
        let writers: Vec<_> = (0..16).map(|n| tokio::spawn(writer(n))).collect();
        for writer in writers {
            writer.await.unwrap();
        }
        world.end().await;
    }

    async fn a_rollback_leaves_neither_entity_nor_indexing_job(world: World) {
        let node = node(&world).await;
        let mut tx = node.begin().await.unwrap();
        node.save_in(&mut tx, put("a", "copper kettle")).await.unwrap();
        tx.rollback().await.unwrap();
        assert!(node.entities().unwrap().get("document", "a").await.is_err());
        let mut tx = node.begin().await.unwrap();
        node.save_in(&mut tx, put("b", "copper kettle")).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(found(&node, "kettle", Mode::Keyword).await, ["b"]);
        let jobs = node.client().store().count(&JobFilter::default()).await.unwrap();
        assert_eq!(jobs, 1, "only the committed entity has an indexing job");
        world.end().await;
    }

    async fn a_deletion_takes_effect_with_its_transaction(world: World) {
        let node = node(&world).await;
        node.save(put("a", "copper kettle")).await.unwrap();
        let mut tx = node.begin().await.unwrap();
        node.delete_in(&mut tx, "document", "a").await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(found(&node, "kettle", Mode::Keyword).await, ["a"], "the rollback undid the deletion");
        let mut tx = node.begin().await.unwrap();
        node.delete_in(&mut tx, "document", "a").await.unwrap();
        tx.commit().await.unwrap();
        assert!(found(&node, "kettle", Mode::Keyword).await.is_empty());
        node.save(put("b", "copper kettle")).await.unwrap();
        assert_eq!(node.delete("document", "b").await.unwrap().version, 2);
        assert!(found(&node, "kettle", Mode::Keyword).await.is_empty());
        assert!(node.entities().unwrap().get("document", "b").await.is_err());
        world.end().await;
    }
}

/// On Postgres, where each row records the transaction that wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_load_uses_smaller_transactions_during_searches() {
    let world = World::new(Database::Postgres).await;
    let node = node(&world).await;
    let load = async |name: &str| {
        let lines = (0..1_000).map(|n| put(&format!("{name}{n}"), "walnut table")).collect();
        let answers = node.entities().unwrap().save_many(lines).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
        let steps = "select count(distinct changed::text) from windlass.entities where starts_with(id, $1)";
        world.number(steps, name).await
    };
    let alone = load("alone").await;
    found(&node, "walnut", Mode::Keyword).await;
    let searching = async {
        loop {
            found(&node, "walnut", Mode::Keyword).await;
        }
    };
    let beside = tokio::select! {
        beside = load("beside") => beside,
        () = searching => unreachable!("the loop never ends"),
    };
    assert!(alone <= 4 && beside >= 10, "{alone} transactions alone, {beside} beside a search");
    world.end().await;
}
