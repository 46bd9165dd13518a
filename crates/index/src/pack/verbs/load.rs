//! `index`: loads a file of entities, one `{"id", …fields}` per line.
//!
//! Owns reading and chunking. A refused line is reported and the others are written. With `--wait` the command also
//! runs a worker, so it ends with or without a server.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use windlass_core::Time;
use windlass_core::entity::Strategy;
use windlass_core::input::MAX_PAYLOAD_BYTES;
use windlass_pack::api::ApiRequest;
use windlass_pack::verb::{Arg, Goes, Verb, VerbCall, VerbError};

use super::report::{LoadReport, tell};
use super::types::explained;
use crate::service::{ASYNC_KIND, BATCH_KIND};

const CHUNK: usize = 1_000;
/// Most bytes of one request.
const CHUNK_BYTES: usize = 16 << 20;
const MAX_LINE_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A worker with an older heartbeat may be dead and not swept yet.
const HEARTBEAT_AGE: Duration = Duration::from_secs(120);

const EXAMPLES: &str = "Examples:
  windlass index products.ndjson --type product --wait
  windlass index products.ndjson --type product --strategy batch
  echo '{\"id\": \"kettle\", \"title\": \"Copper kettle\"}' | windlass index - --wait
  windlass index --type product --explain

A line is one entity: its id, if it has one, and whatever fields it has. A line that is refused is
named; the others are written.";

pub(super) fn verbs() -> Vec<Verb> {
    let strategy = "sync, async or batch; the type decides when it is not said";
    vec![
        Verb::run("index", "", "Load a file of entities: one {\"id\", …fields} a line", run)
            .arg(Arg::positional("FILE", "Lines of JSON, or - for standard input", Goes::Code).optional())
            .arg(Arg::option("type", "Type of the entities [default: document]", Goes::Code).value("TYPE"))
            .arg(Arg::option("strategy", strategy, Goes::Code).value("STRATEGY"))
            .arg(Arg::switch("wait", "Return when everything is searchable by meaning", Goes::Code))
            .arg(Arg::switch("explain", "Only say which strategy would be taken, and why", Goes::Code))
            .creates()
            .examples(EXAMPLES),
    ]
}

async fn run(call: VerbCall) -> Result<(), VerbError> {
    let entity_type = call.get("type").unwrap_or("document");
    let described = call.ask("cannot index", ApiRequest::get("/v1/types/{type}", &[entity_type])).await?;
    let strategy = call.get("strategy").map(str::parse::<Strategy>).transpose();
    let strategy =
        strategy.map_err(|rule| VerbError::usage("cannot index", format!("--strategy: {rule}")))?;
    if call.has("explain") {
        return explain(&call, &described, strategy);
    }
    let Some(file) = call.get("FILE") else {
        return Err(VerbError::usage("cannot index", "no file was named; `-` reads standard input"));
    };
    let begun = Instant::now();
    let mut loaded = load(&call, file, entity_type, strategy).await?;
    if call.has("wait") {
        wait(&call, loaded.accepted).await?;
    }
    loaded.seconds = (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    let left = if call.has("wait") { None } else { pending_without_worker(&call).await? };
    tell(&call, &loaded, begun.elapsed(), left)
}

async fn load(
    call: &VerbCall,
    file: &str,
    entity_type: &str,
    strategy: Option<Strategy>,
) -> Result<LoadReport, VerbError> {
    let broken = |error: std::io::Error| VerbError::new(format!("cannot read {file}"), error);
    let (mut reader, size): (Box<dyn BufRead + Send>, Option<u64>) = match file {
        "-" => (Box::new(BufReader::new(std::io::stdin())), None),
        file => {
            let opened = File::open(file).map_err(broken)?;
            let size = opened.metadata().ok().filter(|facts| facts.is_file()).map(|facts| facts.len());
            (Box::new(BufReader::new(opened)), size)
        }
    };
    let mut progress = call.console.bytes("indexed", size);
    let (mut loaded, mut number, mut read) = (LoadReport::default(), 0, 0);
    let mut chunk = Chunk::new(1);
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line).map_err(broken)?;
        let last = line.is_empty();
        number += u64::from(!last);
        read += line.len() as u64;
        if line.len() > MAX_LINE_BYTES {
            let why = format!("line {number} is longer than {MAX_LINE_BYTES} bytes");
            return Err(VerbError::new("cannot index", why).hint("an entity may have 1 MiB"));
        }
        if !last {
            chunk.add(&line);
        }
        if chunk.is_full() || last {
            chunk.send(call, entity_type, strategy, &mut loaded).await?;
            chunk = Chunk::new(number + 1);
            progress.set(read);
        }
        if last {
            progress.finish(read);
            return Ok(loaded);
        }
    }
}

/// Lines sent in one request.
struct Chunk {
    /// Line number in the file of its first line.
    first: u64,
    lines: usize,
    body: Vec<u8>,
}

impl Chunk {
    fn new(first: u64) -> Chunk {
        Chunk { first, lines: 0, body: Vec::new() }
    }

    fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        self.body.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            self.body.push(b'\n');
        }
    }

    fn is_full(&self) -> bool {
        self.lines >= CHUNK || self.body.len() >= CHUNK_BYTES
    }

    async fn send(
        self,
        call: &VerbCall,
        entity_type: &str,
        strategy: Option<Strategy>,
        loaded: &mut LoadReport,
    ) -> Result<(), VerbError> {
        if self.body.trim_ascii().is_empty() {
            return Ok(());
        }
        let request = ApiRequest::post("/v1/entities/{type}/bulk", &[entity_type])
            .query("strategy", strategy.map(Strategy::name))
            .lines(self.body);
        loaded.add(&call.ask("cannot index", request).await?, self.first - 1);
        Ok(())
    }
}

/// Runs indexing jobs here until no entity is pending; a running server may run some of them.
async fn wait(call: &VerbCall, accepted: u64) -> Result<(), VerbError> {
    let working = match &call.work {
        Some(work) => Some(work().await?),
        None => None,
    };
    let mut progress = call.console.progress("embedded", Some(accepted));
    loop {
        let left = pending(call).await?;
        progress.set(accepted.saturating_sub(left));
        if left == 0 {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    progress.finish(accepted);
    match working {
        Some(working) => working.stop().await,
        None => Ok(()),
    }
}

async fn pending(call: &VerbCall) -> Result<u64, VerbError> {
    let stats = call.ask("cannot wait for the index", ApiRequest::get("/v1/stats", &[])).await?;
    Ok(stats["pending_entities"].as_u64().unwrap_or_default())
}

/// Number of pending entities, if there are any and no worker runs indexing jobs.
async fn pending_without_worker(call: &VerbCall) -> Result<Option<u64>, VerbError> {
    let what = "cannot look for workers";
    let stats = call.ask(what, ApiRequest::get("/v1/stats", &[])).await?;
    let now: Option<Time> = stats["at"].as_str().and_then(|at| at.parse().ok());
    let workers = call.ask(what, ApiRequest::get("/v1/workers", &[])).await?;
    let at_work = |worker: &Value| {
        let heard: Option<Time> = worker["heartbeat_at"].as_str().and_then(|at| at.parse().ok());
        let recent = now.zip(heard).is_some_and(|(now, heard)| now.since(heard) < HEARTBEAT_AGE);
        let queues = worker["queues"].as_array().map_or(&[][..], Vec::as_slice);
        recent && queues.iter().any(|queue| *queue == ASYNC_KIND || *queue == BATCH_KIND)
    };
    if workers["items"].as_array().is_some_and(|workers| workers.iter().any(at_work)) {
        return Ok(None);
    }
    Ok(stats["pending_entities"].as_u64().filter(|pending| *pending > 0))
}

/// Prints which strategy a write would take, and why.
fn explain(call: &VerbCall, described: &Value, strategy: Option<Strategy>) -> Result<(), VerbError> {
    let explained = explained(described, strategy);
    if call.json {
        let object: Map<String, Value> = explained
            .into_iter()
            .map(|(operation, strategy, because)| {
                (operation.to_owned(), json!({ "strategy": strategy, "because": because }))
            })
            .collect();
        return call.console.json(&Value::Object(object));
    }
    let name = described["name"].as_str().unwrap_or_default();
    for (operation, strategy, because) in explained {
        call.console.line(&format!("{operation} of {name}: {strategy} ({because})"))?;
    }
    Ok(())
}
