//! `index`: loads a file of entities, one `{"id", …fields}` a line.
//!
//! Owns reading and chunking. A line that is refused is named and the others are written; with `--wait` the command
//! embeds by itself what no worker has embedded, so it ends with or without a server.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use windlass_core::entity::{Change, Operation, Strategy, resolve};
use windlass_core::input::MAX_PAYLOAD_BYTES;
use windlass_engine::{Worker, WorkerOptions};
use windlass_index::SaveRequest;

use super::Desk;
use crate::args;
use crate::commands::Session;
use crate::failure::{During, Failure};
use crate::output::progress::Progress;
use crate::output::{plural, taken, visible};

const CHUNK: usize = 1_000;
const MAX_LINE_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;
const SHOWN_REFUSALS: usize = 20;
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default, Serialize)]
struct Answer {
    accepted: u64,
    refused: u64,
    refusals: Vec<Refused>,
    seconds: f64,
}

#[derive(Serialize)]
struct Refused {
    line: u64,
    why: String,
}

impl Answer {
    fn refuse(&mut self, line: u64, why: String) {
        self.refused += 1;
        if self.refusals.len() < SHOWN_REFUSALS {
            self.refusals.push(Refused { line, why });
        }
    }
}

pub(crate) async fn run(session: &Session, args: &args::Index) -> Result<(), Failure> {
    let desk = Desk::open(session).await?;
    if args.explain {
        return explain(session, &desk, args).await;
    }
    let Some(file) = &args.file else {
        return Err(Failure::usage("cannot index", "no file was named; `-` reads standard input"));
    };
    desk.entities.type_named(&args.entity_type).await.during("cannot index")?;
    let begun = Instant::now();
    let mut answer = load(session, &desk, file, &args.entity_type, args.strategy).await?;
    if args.wait {
        wait(session, &desk).await?;
    }
    answer.seconds = (begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    tell(session, &answer, args, begun.elapsed())
}

async fn load(
    session: &Session,
    desk: &Desk,
    file: &Path,
    entity_type: &str,
    strategy: Option<Strategy>,
) -> Result<Answer, Failure> {
    let what = || format!("cannot read {}", file.display());
    let (mut reader, size): (Box<dyn BufRead>, u64) = if file == Path::new("-") {
        (Box::new(BufReader::new(std::io::stdin())), 0)
    } else {
        let opened = File::open(file).during(what())?;
        let size = opened.metadata().map(|facts| facts.len()).unwrap_or(0);
        (Box::new(BufReader::new(opened)), size)
    };
    let template = SaveRequest { strategy, ..SaveRequest::new(entity_type, "", Change::Delete) };
    let mut progress = Progress::new(session.output, "bytes indexed", size);
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
                Err(invalid) => answer.refuse(number, invalid.to_string()),
            }
        }
        if chunk.len() == CHUNK || last {
            write(desk, std::mem::take(&mut chunk), &mut answer).await?;
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

fn tell(session: &Session, answer: &Answer, args: &args::Index, took: Duration) -> Result<(), Failure> {
    let output = &session.output;
    if args.json.json {
        output.json(answer)?;
    } else {
        let rate = answer.accepted as f64 / took.as_secs_f64().max(1e-6);
        let how = if args.wait { "searchable" } else { "accepted" };
        let count = plural(answer.accepted, "entity").replace("entitys", "entities");
        output.line(format_args!("{count} {how} in {}, {rate:.0}/s", taken(took)))?;
    }
    if answer.refused == 0 {
        return Ok(());
    }
    let mut why = format!("{} of {} lines", answer.refused, answer.refused + answer.accepted);
    for refused in &answer.refusals {
        why.push_str(&format!("\n  line {}: {}", refused.line, visible(&refused.why)));
    }
    if answer.refused as usize > answer.refusals.len() {
        why.push_str(&format!("\n  and {} more", answer.refused as usize - answer.refusals.len()));
    }
    Err(Failure::new("some entities were refused", why).hint("the others are written"))
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
            "{operation} of {}: {}, because of {}",
            visible(&spec.name),
            resolved.strategy.name(),
            resolved.because
        ))?;
    }
    Ok(())
}
