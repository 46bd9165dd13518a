//! Queries on the read views `indexing_queue`, `embedding_queue`, `delayed_jobs` and `delayed_jobs_dlq`, and a database
//! with rows of every kind for them. docs/views.md lists the changes that a SQL dialect requires.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::entity::{BoxKind, BoxKinds, Change, EntityWrite, Expected, TypeSpec};
use windlass_core::outcome::decide;
use windlass_core::store::{Claim, WorkerInfo};
use windlass_core::sweep::Level;
use windlass_core::{
    Backoff, KindId, KindSpec, LeasedJob, NewJob, Outcome, QueueId, QueueSpec, RunAt, Settlement, Store,
    Strategy, WorkerId,
};

/// A query, with a variant for a database whose dialect differs.
pub struct ViewQuery {
    pub name: &'static str,
    pub sql: &'static str,
    pub postgres: Option<&'static str>,
    pub sqlite: Option<&'static str>,
    /// Checks the rows for the database of [`fill`], as JSON objects.
    pub answer: fn(&[Value]) -> bool,
}

const fn query(name: &'static str, sql: &'static str, answer: fn(&[Value]) -> bool) -> ViewQuery {
    ViewQuery { name, sql, postgres: None, sqlite: None, answer }
}

/// The views, which have a prefix on SQLite.
const TABLES: [&str; 4] = ["indexing_queue", "embedding_queue", "delayed_jobs_dlq", "delayed_jobs"];

impl ViewQuery {
    pub fn for_postgres(&self) -> String {
        self.postgres.unwrap_or(self.sql).to_owned()
    }

    /// Adds the prefix. Matches up to the line end, because one name is the beginning of another.
    pub fn for_sqlite(&self) -> String {
        let mut sql = self.sqlite.unwrap_or(self.sql).to_owned();
        for table in TABLES {
            sql = sql.replace(&format!("FROM {table}\n"), &format!("FROM windlass_{table}\n"));
        }
        sql
    }
}

pub const QUERIES: &[ViewQuery] = &[
    query(
        "indexing_queue: depth by priority",
        "SELECT priority, status, COUNT(*)
FROM indexing_queue
GROUP BY priority, status;",
        |rows| {
            let count = |priority: &str, status: &str| {
                rows.iter()
                    .find(|row| row["priority"] == priority && row["status"] == status)
                    .map(|row| row.as_object().unwrap().values().next_back().unwrap().as_i64().unwrap())
            };
            rows.len() == 6
                && count("ASYNC", "PENDING") == Some(2)
                && count("BATCH", "PENDING") == Some(1)
                && count("ASYNC", "PROCESSING") == Some(1)
                && count("ASYNC", "COMPLETED") == Some(1)
                && count("ASYNC", "FAILED") == Some(1)
                && count("ASYNC", "DEAD_LETTER") == Some(1)
        },
    ),
    query(
        "indexing_queue: oldest entries",
        "SELECT entity_type, priority, requested_at, retry_count
FROM indexing_queue
WHERE status = 'PENDING'
ORDER BY requested_at ASC
LIMIT 20;",
        |rows| {
            rows.len() == 3
                && rows.iter().all(|row| row["entity_type"] == "document")
                && rows.iter().map(|row| row["retry_count"].as_i64().unwrap()).sum::<i64>() == 1
                && rows.is_sorted_by_key(|row| row["requested_at"].as_str().unwrap().to_owned())
        },
    ),
    query(
        "indexing_queue: errors",
        "SELECT error_message, COUNT(*)
FROM indexing_queue
WHERE status IN ('FAILED', 'DEAD_LETTER')
GROUP BY error_message
ORDER BY COUNT(*) DESC;",
        |rows| {
            let errors: Vec<&str> = rows.iter().map(|row| row["error_message"].as_str().unwrap()).collect();
            errors.len() == 2 && errors.contains(&"never again") && errors.contains(&"at last")
        },
    ),
    ViewQuery {
        sqlite: Some(
            "SELECT id, entity_type, processing_node, started_at
FROM indexing_queue
WHERE status = 'PROCESSING'
AND updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-10 minutes');",
        ),
        ..query(
            "indexing_queue: stuck entries",
            "SELECT id, entity_type, processing_node, started_at
FROM indexing_queue
WHERE status = 'PROCESSING'
AND updated_at < NOW() - INTERVAL '10 minutes';",
            |rows| rows.is_empty(),
        )
    },
    ViewQuery {
        sqlite: Some(
            "SELECT id, entity_type, processing_node, started_at
FROM indexing_queue
WHERE status = 'PROCESSING'
AND updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+10 minutes');",
        ),
        ..query(
            "indexing_queue: stuck entries, ten minutes later",
            "SELECT id, entity_type, processing_node, started_at
FROM indexing_queue
WHERE status = 'PROCESSING'
AND updated_at < NOW() + INTERVAL '10 minutes';",
            |rows| rows.len() == 1 && rows[0]["processing_node"] == "host:7" && rows[0]["started_at"].is_string(),
        )
    },
    ViewQuery {
        sqlite: Some(
            "SELECT entity_id, operation, content, scheduled_for
FROM indexing_queue
WHERE status = 'PENDING'
AND scheduled_for <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
ORDER BY
    CASE priority
        WHEN 'SYNC' THEN 1
        WHEN 'ASYNC' THEN 2
        WHEN 'BATCH' THEN 3
    END,
    requested_at ASC;",
        ),
        ..query(
            "indexing_queue: pending entries of all priorities",
            "SELECT entity_id, operation, content, scheduled_for
FROM indexing_queue
WHERE status = 'PENDING'
AND scheduled_for <= NOW()
ORDER BY
    CASE priority
        WHEN 'SYNC' THEN 1
        WHEN 'ASYNC' THEN 2
        WHEN 'BATCH' THEN 3
    END,
    requested_at ASC;",
            |rows| {
                let ids: Vec<&str> = rows.iter().map(|row| row["entity_id"].as_str().unwrap()).collect();
                let content: Value = serde_json::from_str(rows[0]["content"].as_str().unwrap()).unwrap();
                ids == ["waits", "bulk"]
                    && rows[0]["operation"] == "UPDATE"
                    && rows[1]["operation"] == "CREATE"
                    && content["text"] == "waits, anew"
            },
        )
    },
    query(
        "embedding_queue: order of dequeue",
        "SELECT id, status, priority, retryCount, maxRetries, scheduledFor
FROM embedding_queue
WHERE status = 'pending'
ORDER BY priority DESC, scheduledFor ASC
LIMIT 1;",
        |rows| {
            let max_retries = rows[0].get("maxRetries").or(rows[0].get("maxretries")).unwrap();
            rows.len() == 1 && rows[0]["status"] == "pending" && rows[0]["priority"] == 7 && max_retries == 2
        },
    ),
    ViewQuery {
        postgres: Some(
            "SELECT status, lastError AS error
FROM embedding_queue
WHERE entityData ->> 'id' = 'fails'
LIMIT 1;",
        ),
        ..query(
            "embedding_queue: status by entity id",
            "SELECT status, lastError AS error
FROM embedding_queue
WHERE json_extract(entityData, '$.id') = 'fails'
LIMIT 1;",
            |rows| rows.len() == 1 && rows[0]["status"] == "failed" && rows[0]["error"] == "never again",
        )
    },
    ViewQuery {
        sqlite: Some(
            "SELECT id, job_type, priority, attempts, max_attempts, last_error, created_at
FROM delayed_jobs
WHERE queue = 'BULK' AND locked_at IS NULL AND scheduled_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
ORDER BY priority, scheduled_at;",
        ),
        ..query(
            "delayed_jobs: due jobs of a queue",
            "SELECT id, job_type, priority, attempts, max_attempts, last_error, created_at
FROM delayed_jobs
WHERE queue = 'BULK' AND locked_at IS NULL AND scheduled_at <= NOW()
ORDER BY priority, scheduled_at;",
            |rows| rows.len() == 1 && rows[0]["job_type"] == "AI_TAGGING" && rows[0]["attempts"] == 0,
        )
    },
    query(
        "delayed_jobs: locked jobs",
        "SELECT job_type, locked_by, locked_at, attempts
FROM delayed_jobs
WHERE locked_at IS NOT NULL
ORDER BY job_type;",
        |rows| {
            rows.len() == 2
                && rows.iter().all(|row| row["locked_by"] == "host:7" && row["locked_at"].is_string())
                && rows.iter().all(|row| row["attempts"] == 1)
        },
    ),
    ViewQuery {
        sqlite: Some(
            "SELECT job_type, attempts, last_error, json_extract(payload, '$.trigger') AS triggered, failed_at
FROM delayed_jobs_dlq
WHERE queue = 'BULK';",
        ),
        ..query(
            "delayed_jobs_dlq: dead letters of a queue",
            "SELECT job_type, attempts, last_error, payload ->> 'trigger' AS triggered, failed_at
FROM delayed_jobs_dlq
WHERE queue = 'BULK';",
            |rows| {
                rows.len() == 1
                    && rows[0]["attempts"] == 1
                    && rows[0]["last_error"] == "no answer"
                    && rows[0]["triggered"] == "manual"
                    && rows[0]["failed_at"].is_string()
            },
        )
    },
];

struct ViewFixture<'s> {
    store: &'s dyn Store,
    worker: WorkerId,
}

impl ViewFixture<'_> {
    async fn claim(&self, queue: QueueId, kind: KindId) -> LeasedJob {
        let claim = Claim { worker: self.worker, queue, kinds: vec![kind], limit: 1, level: Level::Ordinary };
        self.store.claim(&claim).await.unwrap().remove(0)
    }

    async fn settle(&self, job: &LeasedJob, outcome: Outcome) {
        let verdict = decide(job, outcome, &Backoff::default(), 0.5);
        let settlement = Settlement {
            id: job.id,
            token: job.token,
            queue: job.queue,
            attempt: job.attempt,
            started_at: job.claimed_at,
            verdict,
            workflow: job.workflow,
            lane: job.lane,
            holds_key: job.holds_key,
        };
        self.store.settle(&[settlement]).await.unwrap();
    }
}

const KINDS: [(&str, u16); 3] = [("INDEX_ASYNC", 3), ("INDEX_BATCH", 5), ("AI_TAGGING", 5)];

/// Adds an indexing job in each state and some other jobs to an empty, migrated database.
pub async fn fill(store: &dyn Store) {
    let kinds = KINDS.map(|(name, max_attempts)| {
        let queue = if name == "AI_TAGGING" { "BULK" } else { name };
        KindSpec { max_attempts, ..KindSpec::new(name, queue) }
    });
    let queues: Vec<QueueSpec> = kinds.iter().map(|kind| QueueSpec::named(&kind.queue)).collect();
    store.sync_registry(&queues, &kinds, None).await.unwrap();
    let known = store.kinds().await.unwrap();
    let of = |name: &str| {
        known.iter().find(|(_, _, spec)| spec.name == name).map(|(kind, queue, _)| (*kind, *queue)).unwrap()
    };
    let lease = Duration::from_secs(60);
    let queues = known.iter().map(|(_, queue, _)| *queue).collect();
    let worker =
        store.register_worker(&WorkerInfo { label: "host:7".to_owned(), queues, lease }).await.unwrap();
    let fixture = ViewFixture { store, worker };
    boxes(&fixture, of("INDEX_ASYNC"), of("INDEX_BATCH")).await;
    tagging(&fixture, of("AI_TAGGING")).await;
}

async fn boxes(fixture: &ViewFixture<'_>, soon: (KindId, QueueId), bulk: (KindId, QueueId)) {
    let spec = Arc::new(TypeSpec::document());
    let type_id = fixture.store.put_type(&spec, None).await.unwrap();
    let kind =
        |(kind, queue), max_attempts| BoxKind { kind, queue, priority: 3, max_attempts, timeout: None };
    let kinds = BoxKinds { soon: kind(soon, 3), bulk: kind(bulk, 5) };
    let save = async |id: &str, text: &str, strategy, max_attempts| {
        let fields = serde_json::from_value(json!({ "title": id, "text": text })).unwrap();
        let write = EntityWrite {
            type_id,
            spec: spec.clone(),
            id: id.to_owned(),
            change: Change::Put(fields),
            expected: Expected::Anything,
            strategy: Some(strategy),
            priority: None,
            delay: None,
            max_attempts,
            prepared: None,
            idempotency: None,
        };
        fixture.store.save(&kinds, [write].into()).await.unwrap();
    };
    let retry = |error: &str| Outcome::Retry { after: None, error: error.to_owned() };
    let ended = [
        ("done", Some(Outcome::Done { result: None }), None),
        ("fails", Some(Outcome::Fail { error: "never again".to_owned() }), None),
        ("dies", Some(retry("at last")), Some(1)),
        ("again", Some(retry("not yet")), None),
        ("runs", None, None),
    ];
    for (id, outcome, max_attempts) in ended {
        save(id, "text", Strategy::Async, max_attempts).await;
        let job = fixture.claim(soon.1, soon.0).await;
        if let Some(outcome) = outcome {
            fixture.settle(&job, outcome).await;
        }
    }
    save("waits", "waits", Strategy::Async, None).await;
    save("waits", "waits, anew", Strategy::Async, None).await;
    save("bulk", "text", Strategy::Batch, None).await;
}

async fn tagging(fixture: &ViewFixture<'_>, (kind, queue): (KindId, QueueId)) {
    let job = |max_attempts| NewJob {
        kind,
        queue,
        priority: 8,
        payload: br#"{"trigger":"manual"}"#.to_vec(),
        run_at: RunAt::Now,
        max_attempts,
        timeout: None,
        unique: None,
        idempotency: None,
        concurrency_key: None,
        tags: Vec::new(),
        entity: None,
    };
    fixture.store.enqueue(&[job(1)]).await.unwrap();
    let dead = fixture.claim(queue, kind).await;
    fixture.settle(&dead, Outcome::Retry { after: None, error: "no answer".to_owned() }).await;
    fixture.store.enqueue(&[job(5)]).await.unwrap();
    fixture.claim(queue, kind).await;
    fixture.store.enqueue(&[job(5)]).await.unwrap();
}
