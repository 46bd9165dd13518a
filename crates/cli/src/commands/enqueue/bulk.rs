//! `enqueue --bulk`: checks the whole input, then writes it in chunks.
//!
//! Owns reading lines with a bound on their length. A chunk is written as a whole or not at all; an input with one
//! bad line writes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use windlass_core::input::MAX_PAYLOAD_BYTES;
use windlass_engine::{Catalog, Client, JobRequest};

use super::super::Session;
use super::line;
use crate::failure::{During, Failure};
use crate::output::plural;
use crate::output::progress::Progress;

const CHUNK: usize = 5_000;
/// The payload and as much again for everything around it.
const MAX_LINE_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;
const SHOWN_PROBLEMS: usize = 20;

#[derive(Serialize)]
struct Answer {
    enqueued: u64,
    duplicates: u64,
}

pub(super) async fn run(session: &Session, file: &Path, json: bool) -> Result<(), Failure> {
    let input = Input::open(file)?;
    let client = session.writer().await?;
    let total = check(&input, &client.catalog())?;
    let answer = write(session, &client, &input, total).await?;
    if json {
        return session.output.json(&answer);
    }
    let duplicates = match answer.duplicates {
        0 => String::new(),
        n => format!("; {n} were there already"),
    };
    session.output.line(format_args!("{} enqueued{duplicates}", plural(answer.enqueued, "job")))
}

/// Something that can be read twice: once to check, once to write.
enum Input {
    File(PathBuf),
    /// Standard input, kept.
    Memory(Vec<u8>),
}

impl Input {
    fn open(file: &Path) -> Result<Input, Failure> {
        if file != Path::new("-") {
            return Ok(Input::File(file.to_owned()));
        }
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).during("cannot read standard input")?;
        Ok(Input::Memory(bytes))
    }

    fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Memory(_) => "standard input".to_owned(),
        }
    }

    fn lines(&self) -> Result<Lines<'_>, Failure> {
        let what = format!("cannot read {}", self.name());
        let reader: Box<dyn BufRead + '_> = match self {
            Input::File(path) => Box::new(BufReader::new(File::open(path).during(what.clone())?)),
            Input::Memory(bytes) => Box::new(Cursor::new(bytes)),
        };
        Ok(Lines { reader, number: 0, what })
    }
}

/// Lines that are not blank, with their numbers.
struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    number: u64,
    what: String,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        loop {
            let mut text = Vec::new();
            let mut bounded = self.reader.by_ref().take(MAX_LINE_BYTES as u64 + 1);
            bounded.read_until(b'\n', &mut text).during(self.what.clone())?;
            if text.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            if text.len() > MAX_LINE_BYTES {
                let why = format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.number);
                return Err(
                    Failure::new("cannot enqueue", why).hint("nothing was written; a payload may have 1 MiB")
                );
            }
            if !text.trim_ascii().is_empty() {
                return Ok(Some((self.number, text)));
            }
        }
    }
}

/// How many jobs there are; every bad line is named.
fn check(input: &Input, catalog: &Catalog) -> Result<u64, Failure> {
    let mut lines = input.lines()?;
    let (mut total, mut bad) = (0u64, 0usize);
    let mut problems = String::new();
    while let Some((number, text)) = lines.next()? {
        total += 1;
        let checked =
            line::parse(&text).and_then(|request| request.resolve(catalog).map(drop).map_err(line::texts));
        for problem in checked.err().unwrap_or_default() {
            bad += 1;
            if bad <= SHOWN_PROBLEMS {
                problems.push_str(&format!("\n  line {number}: {problem}"));
            }
        }
    }
    if bad == 0 {
        return Ok(total);
    }
    if bad > SHOWN_PROBLEMS {
        problems.push_str(&format!("\n  and {} more", bad - SHOWN_PROBLEMS));
    }
    let why = format!("{} in {}{problems}", plural(bad as u64, "problem"), input.name());
    Err(Failure::new("cannot enqueue", why).hint("nothing was written"))
}

async fn write(session: &Session, client: &Client, input: &Input, total: u64) -> Result<Answer, Failure> {
    let mut lines = input.lines()?;
    let mut progress = Progress::new(session.output, "enqueued", total);
    let mut answer = Answer { enqueued: 0, duplicates: 0 };
    let mut written = 0u64;
    let mut chunk: Vec<JobRequest> = Vec::with_capacity(CHUNK);
    let mut from = 1;
    loop {
        let next = lines.next()?;
        let last = next.is_none();
        let number = match next {
            Some((number, text)) => {
                let changed = |why: Vec<String>| {
                    let why = format!("line {number}: {}", why.join("; "));
                    Failure::new("the file changed while it was read", why).hint(so_far(written))
                };
                chunk.push(line::parse(&text).map_err(changed)?);
                number
            }
            None => lines.number,
        };
        if chunk.len() == CHUNK || (last && !chunk.is_empty()) {
            let size = chunk.len() as u64;
            let what = format!("cannot enqueue lines {from} to {number}");
            let done = client.enqueue_many(std::mem::take(&mut chunk)).await.during(what);
            let done =
                done.map_err(|failure| if written > 0 { failure.hint(so_far(written)) } else { failure })?;
            let duplicates = done.iter().filter(|job| job.duplicate).count() as u64;
            answer.duplicates += duplicates;
            answer.enqueued += size - duplicates;
            written += size;
            from = number + 1;
            progress.set(written);
        }
        if last {
            progress.finish(written);
            return Ok(answer);
        }
    }
}

fn so_far(written: u64) -> String {
    format!("the first {} are written; the rest is not", plural(written, "job"))
}
