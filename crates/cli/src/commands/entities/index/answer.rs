//! What loading a file came to: how many lines were taken, which were not, and why.

use std::time::Duration;

use serde::Serialize;
use windlass_core::Invalid;

use crate::args;
use crate::commands::Session;
use crate::failure::Failure;
use crate::output::{plural, taken, visible};

const SHOWN_REFUSALS: usize = 20;

#[derive(Default, Serialize)]
pub(super) struct Answer {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    refusals: Vec<Refused>,
    pub(super) seconds: f64,
}

#[derive(Serialize)]
struct Refused {
    line: u64,
    why: String,
}

impl Answer {
    pub(super) fn refuse(&mut self, line: u64, why: String) {
        self.refused += 1;
        self.refusals.push(Refused { line, why });
    }

    /// After each chunk: a line is refused while it is read or while it is written, but told in its place.
    pub(super) fn keep_first_refusals(&mut self) {
        self.refusals.sort_by_key(|refused| refused.line);
        self.refusals.truncate(SHOWN_REFUSALS);
    }
}

/// Every rule a line breaks. Its number is said by whoever shows it, so the reader's own count of lines, which is 1, is not.
pub(super) fn why(invalid: &Invalid) -> String {
    let each = invalid.problems.iter().map(|problem| match problem.field.as_str() {
        "line" => problem.rule.replace(" at line 1 column ", " at column "),
        _ => format!("{}: {}", problem.field, problem.rule),
    });
    each.collect::<Vec<_>>().join("; ")
}

pub(super) fn tell(
    session: &Session,
    answer: &Answer,
    args: &args::Index,
    took: Duration,
    left: Option<u64>,
) -> Result<(), Failure> {
    let output = &session.output;
    if args.json.json {
        output.json(answer)?;
    } else if answer.accepted == 0 {
        output.line(if answer.refused == 0 {
            "there was nothing to index"
        } else {
            "no entity was accepted"
        })?;
    } else {
        let rate = answer.accepted as f64 / took.as_secs_f64().max(1e-6);
        let how = if args.wait { "searchable" } else { "accepted" };
        output.line(format_args!("{} {how} in {}, {rate:.0}/s", entities(answer.accepted), taken(took)))?;
    }
    if let Some(left) = left {
        let text = format!(
            "no worker is running: `windlass serve` makes {} searchable by meaning, as --wait would have",
            entities(left)
        );
        match args.json.json {
            true => output.note(text),
            false => output.line(text)?,
        }
    }
    refusals(answer)
}

fn entities(count: u64) -> String {
    plural(count, "entity").replace("entitys", "entities")
}

fn refusals(answer: &Answer) -> Result<(), Failure> {
    if answer.refused == 0 {
        return Ok(());
    }
    let mut text = format!("{} of {} lines", answer.refused, answer.refused + answer.accepted);
    for refused in &answer.refusals {
        text.push_str(&format!("\n  line {}: {}", refused.line, visible(&refused.why)));
    }
    if answer.refused as usize > answer.refusals.len() {
        text.push_str(&format!("\n  and {} more", answer.refused as usize - answer.refusals.len()));
    }
    let failure = Failure::new("some entities were refused", text);
    Err(if answer.accepted == 0 { failure } else { failure.hint("the others are written") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_the_order_of_their_lines() {
        let mut answer = Answer::default();
        for line in [40, 2, 31, 7] {
            answer.refuse(line, why(&Invalid::one("line", "is not a JSON object: EOF at line 1 column 2")));
        }
        answer.keep_first_refusals();
        let lines: Vec<u64> = answer.refusals.iter().map(|refused| refused.line).collect();
        assert_eq!(lines, [2, 7, 31, 40]);
        assert_eq!(answer.refusals[0].why, "is not a JSON object: EOF at column 2");
        assert_eq!(why(&Invalid::one("id", "must be text")), "id: must be text");
    }
}
