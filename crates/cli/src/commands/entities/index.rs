//! `index`: loads a file of entities, one `{"id", …fields}` a line.
//!
//! Owns reading and chunking. A line that is refused is named and the others are written; with `--wait` the command
//! embeds by itself what no worker has embedded, so it ends with or without a server.

mod answer;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_core::QueueId;
use windlass_core::entity::{Change, Operation, Strategy, resolve};
use windlass_core::input::MAX_PAYLOAD_BYTES;
use windlass_core::store::WorkerRow;
use windlass_engine::{Worker, WorkerOptions};
use windlass_index::{EntityError, SaveRequest, service};

use super::Desk;
use crate::args;
use crate::commands::Session;
use crate::failure::{During, Failure};
use crate::output::progress::Progress;
use crate::output::visible;
use answer::{Answer, tell, why};

const CHUNK: usize = 1_000;
const MAX_LINE_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;
const LOOK: Duration = Duration::from_millis(50);

pub(crate) async fn run(session: &Session, args: &args::Index) -> Result<(), Failure> {
    if args.explain {
        return explain(session, &Desk::open(session).await?, args).await;
    }
    let Some(file) = &args.file else {
        return Err(Failure::usage("cannot index", "no file was named; `-` reads standard input"));
    };
    let desk = Desk::open_to_write(session).await?;
    desk.entities.type_named(&args.entity_type).await.during("cannot index")?;
    let begun = Instant::now();
    let mut answer = load(session, &desk, file, &args.entity_type, args.strategy).await?;
    if args.wait {
        wait(session, &desk).await?;
    }
    answer.seconds = (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    let left = if args.wait { None } else { left_to_nobody(session, &desk).await? };
    tell(session, &answer, args, begun.elapsed(), left)
}

/// How many entities wait for their embedding while nobody is there to do it.
async fn left_to_nobody(session: &Session, desk: &Desk) -> Result<Option<u64>, Failure> {
    let what = "cannot look for workers";
    let store = desk.client.store();
    let boxes: Vec<QueueId> = service::queues()
        .iter()
        .filter_map(|queue| desk.client.catalog().queue_named(&queue.name).map(|queue| queue.id))
        .collect();
    let (workers, now) = (store.workers().await.during(what)?, store.now().await.during(what)?);
    let at_work = |worker: &WorkerRow| {
        // One that was killed is listed until somebody sweeps.
        let heard = now.since(worker.heartbeat_at) < session.config.server.lease;
        heard && worker.queues.iter().any(|queue| boxes.contains(queue))
    };
    if workers.iter().any(at_work) {
        return Ok(None);
    }
    let pending = store.pending_entities(u64::MAX).await.during(what)?;
    Ok(Some(pending).filter(|pending| *pending > 0))
}

async fn load(
    session: &Session,
    desk: &Desk,
    file: &Path,
    entity_type: &str,
    strategy: Option<Strategy>,
) -> Result<Answer, Failure> {
    let what = || format!("cannot read {}", file.display());
    let (mut reader, size): (Box<dyn BufRead>, Option<u64>) = if file == Path::new("-") {
        (Box::new(BufReader::new(std::io::stdin())), None)
    } else {
        let opened = File::open(file).during(what())?;
        let size = opened.metadata().ok().filter(|facts| facts.is_file()).map(|facts| facts.len());
        (Box::new(BufReader::new(opened)), size)
    };
    let template = SaveRequest { strategy, ..SaveRequest::new(entity_type, "", Change::Delete) };
    let mut progress = Progress::of_bytes(session.output, "indexed", size);
    let (mut answer, mut number, mut read) = (Answer::default(), 0, 0);
    let mut chunk: Vec<(u64, SaveRequest)> = Vec::with_capacity(CHUNK);
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line).during(what())?;
        let last = line.is_empty();
        number += u64::from(!last);
        read += line.len() as u64;
        if line.len() > MAX_LINE_BYTES {
            let why = format!("line {number} is longer than {MAX_LINE_BYTES} bytes");
            return Err(Failure::new("cannot index", why).hint("an entity may have 1 MiB"));
        }
        if !line.trim_ascii().is_empty() {
            match SaveRequest::from_line(&line, &template) {
                Ok(request) => chunk.push((number, request)),
                Err(invalid) => answer.refuse(number, why(&invalid)),
            }
        }
        if chunk.len() == CHUNK || last {
            write(desk, std::mem::take(&mut chunk), &mut answer).await?;
            answer.keep_first_refusals();
            progress.set(read);
        }
        if last {
            progress.finish(read);
            return Ok(answer);
        }
    }
}

async fn write(desk: &Desk, chunk: Vec<(u64, SaveRequest)>, answer: &mut Answer) -> Result<(), Failure> {
    if chunk.is_empty() {
        return Ok(());
    }
    let (numbers, requests): (Vec<u64>, Vec<SaveRequest>) = chunk.into_iter().unzip();
    let saved = desk.entities.save_many(requests).await.during("cannot index")?;
    for (number, saved) in numbers.into_iter().zip(saved) {
        match saved {
            Ok(_) => answer.accepted += 1,
            Err(EntityError::Invalid(invalid)) => answer.refuse(number, why(&invalid)),
            Err(error) => answer.refuse(number, error.to_string()),
        }
    }
    Ok(())
}

/// Works off boxes here until none is left; a running server takes its share.
async fn wait(session: &Session, desk: &Desk) -> Result<(), Failure> {
    let what = "cannot wait for the index";
    let options =
        WorkerOptions { label: format!("index:{}", std::process::id()), ..WorkerOptions::default() };
    let worker = Worker::start(desk.client.clone(), &desk.handlers, options).await.during(what)?;
    let store = desk.client.store();
    let total = store.pending_entities(u64::MAX).await.during(what)?;
    let mut progress = Progress::new(session.output, "embedded", total);
    loop {
        let left = store.pending_entities(u64::MAX).await.during(what)?;
        progress.set(total.saturating_sub(left));
        if left == 0 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    progress.finish(total);
    worker.shutdown().await.during("could not stop cleanly")
}

/// Which strategy a write would take, and why.
async fn explain(session: &Session, desk: &Desk, args: &args::Index) -> Result<(), Failure> {
    let spec = desk.entities.type_named(&args.entity_type).await.during("cannot explain")?;
    let each = [Operation::Create, Operation::Update, Operation::Delete];
    let resolved = each.map(|operation| (operation.name(), resolve(args.strategy, operation, &spec)));
    if args.json.json {
        let object = |(name, resolved): (&str, windlass_core::entity::Resolved)| {
            (
                name.to_owned(),
                serde_json::json!({"strategy": resolved.strategy.name(), "because": resolved.because}),
            )
        };
        return session.output.json(&Value::Object(resolved.map(object).into_iter().collect()));
    }
    for (operation, resolved) in resolved {
        session.output.line(format_args!(
            "{operation} of {}: {} ({})",
            visible(&spec.name),
            resolved.strategy.name(),
            resolved.because
        ))?;
    }
    Ok(())
}
