//! `enqueue --bulk`: validates the whole input, then writes it in chunks.
//!
//! A chunk is all or nothing. If any line is invalid, nothing is written.

use std::path::Path;

use serde::{Deserialize, Serialize};
use windlass_pack::api::{Api, ApiRequest};

use super::super::{Session, line};
use super::input::{Chunk, Input};
use crate::api::answer::{ask, list, number, text};
use crate::failure::{During, Failure};
use crate::output::plural;
use crate::output::progress::Progress;

const SHOWN_PROBLEMS: usize = 20;

#[derive(Default, Serialize)]
struct Answer {
    enqueued: u64,
    duplicates: u64,
}

pub(super) async fn run(session: &Session, file: &Path, json: bool) -> Result<(), Failure> {
    let input = Input::open(file)?;
    let api = session.creating_api().await?;
    let total = check(&input, api.as_ref()).await?;
    let answer = write(session, api.as_ref(), &input, total).await?;
    if json {
        return session.output.json(&answer);
    }
    let duplicates = match answer.duplicates {
        0 => String::new(),
        n => format!("; {n} were there already"),
    };
    session.output.line(format_args!("{} enqueued{duplicates}", plural(answer.enqueued, "job")))
}

#[derive(Default)]
struct Problems {
    count: u64,
    shown: Vec<(u64, String)>,
}

impl Problems {
    fn add(&mut self, line: u64, problem: String) {
        self.count += 1;
        self.shown.push((line, problem));
    }
}

/// Counts the jobs and reports every invalid line. A line that is not an object is not sent to the route.
async fn check(input: &Input, api: &dyn Api) -> Result<u64, Failure> {
    let mut lines = input.lines()?;
    let (mut total, mut problems) = (0u64, Problems::default());
    let mut chunk = Chunk::default();
    loop {
        let next = lines.next()?;
        if chunk.is_full(next.as_ref()) {
            check_chunk(api, std::mem::take(&mut chunk), &mut problems).await?;
        }
        let Some((number, text)) = next else { break };
        total += 1;
        match line::fields(&text) {
            Ok(_) => chunk.add(number, &text),
            Err(why) => problems.add(number, why),
        }
    }
    match problems.count {
        0 => Ok(total),
        _ => Err(refused(input, problems)),
    }
}

/// The route identifies jobs by their index in the array.
async fn check_chunk(api: &dyn Api, chunk: Chunk, problems: &mut Problems) -> Result<(), Failure> {
    let request = ApiRequest::post("/v1/jobs/check", &[]).raw_json(chunk.body());
    let found = api.call(request).await.during(super::WHAT)?;
    let errors = list(&found, "errors");
    for error in errors {
        let (place, field) =
            text(error, "field").strip_prefix('[').and_then(|f| f.split_once(']')).unwrap_or_default();
        let line = place.parse().ok().and_then(|place: usize| chunk.numbers.get(place)).copied();
        let field = field.trim_start_matches('.');
        problems.add(line.unwrap_or_default(), format!("{field}: {}", text(error, "rule")));
    }
    problems.count += number(&found, "problems").saturating_sub(errors.len() as u64);
    Ok(())
}

fn refused(input: &Input, mut problems: Problems) -> Failure {
    problems.shown.sort_by_key(|(line, _)| *line);
    problems.shown.truncate(SHOWN_PROBLEMS);
    let mut why = format!("{} in {}", plural(problems.count, "problem"), input.name());
    for (line, problem) in &problems.shown {
        why.push_str(&format!("\n  line {line}: {problem}"));
    }
    match problems.count - problems.shown.len() as u64 {
        0 => {}
        more => why.push_str(&format!("\n  and {more} more")),
    }
    Failure::new(super::WHAT, why).hint("nothing was written")
}

async fn write(session: &Session, api: &dyn Api, input: &Input, total: u64) -> Result<Answer, Failure> {
    let mut lines = input.lines()?;
    let mut progress = Progress::new(session.output, "enqueued", total);
    let (mut answer, mut written) = (Answer::default(), 0u64);
    let mut chunk = Chunk::default();
    loop {
        let next = lines.next()?;
        if chunk.is_full(next.as_ref()) {
            let chunk = std::mem::take(&mut chunk);
            let size = chunk.numbers.len() as u64;
            let duplicates = write_chunk(api, &chunk).await.map_err(|failure| match written {
                0 => failure,
                _ => failure.hint(so_far(written)),
            })?;
            answer.duplicates += duplicates;
            answer.enqueued += size.saturating_sub(duplicates);
            written += size;
            progress.set(written);
        }
        let Some((number, text)) = next else { break };
        if let Err(why) = line::fields(&text) {
            let why = format!("line {number}: {why}");
            return Err(Failure::new("the file changed while it was read", why).hint(so_far(written)));
        }
        chunk.add(number, &text);
    }
    progress.finish(written);
    Ok(answer)
}

/// Only parses what is counted: the response contains every job in full.
#[derive(Deserialize)]
struct Enqueued {
    items: Vec<Duplicate>,
}

#[derive(Deserialize)]
struct Duplicate {
    duplicate: bool,
}

/// Returns how many were duplicates.
async fn write_chunk(api: &dyn Api, chunk: &Chunk) -> Result<u64, Failure> {
    let (first, last) = (chunk.numbers.first().unwrap_or(&0), chunk.numbers.last().unwrap_or(&0));
    let what = format!("cannot enqueue lines {first} to {last}");
    let answer = ask(api, ApiRequest::post("/v1/jobs", &[]).raw_json(chunk.body())).await;
    let answer = answer.during(what.clone()).map_err(Failure::failed)?;
    let enqueued: Enqueued = serde_json::from_str(&answer.text())
        .map_err(|error| Failure::new(what, format!("the answer cannot be read: {error}")))?;
    Ok(enqueued.items.iter().filter(|job| job.duplicate).count() as u64)
}

fn so_far(written: u64) -> String {
    format!("the first {} are written; the rest is not", plural(written, "job"))
}
