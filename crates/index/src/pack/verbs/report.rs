//! Report of a file load: accepted lines, and refused lines with reasons.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_pack::verb::{VerbCall, VerbError};

const SHOWN_REFUSALS: usize = 20;

#[derive(Default)]
pub(super) struct LoadReport {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// Line and reason, in the order of the file.
    refusals: Vec<(u64, String)>,
    pub(super) seconds: f64,
}

impl LoadReport {
    /// Adds the answer for a chunk; `before` lines of the file precede the chunk.
    pub(super) fn add(&mut self, answer: &Value, before: u64) {
        self.accepted += answer["accepted"].as_u64().unwrap_or_default();
        self.refused += answer["refused"].as_u64().unwrap_or_default();
        for refusal in answer["refusals"].as_array().map_or(&[][..], Vec::as_slice) {
            if self.refusals.len() < SHOWN_REFUSALS {
                let line = before + refusal["line"].as_u64().unwrap_or_default();
                self.refusals.push((line, why(refusal)));
            }
        }
    }

    fn json(&self) -> Value {
        let refusal = |(line, why): &(u64, String)| json!({ "line": line, "why": why });
        json!({
            "accepted": self.accepted,
            "refused": self.refused,
            "refusals": self.refusals.iter().map(refusal).collect::<Vec<_>>(),
            "seconds": self.seconds,
        })
    }
}

/// Every rule that a line breaks. The parser sees one line at a time, so its line number is dropped.
fn why(refusal: &Value) -> String {
    let each = refusal["errors"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|error| {
        let (field, rule) = (error["field"].as_str().unwrap_or_default(), error["rule"].as_str());
        match (field, rule.unwrap_or_default()) {
            ("line", rule) => rule.replace(" at line 1 column ", " at column "),
            (field, rule) => format!("{field}: {rule}"),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

pub(super) fn tell(
    call: &VerbCall,
    loaded: &LoadReport,
    took: Duration,
    left: Option<u64>,
) -> Result<(), VerbError> {
    if call.json {
        call.console.json(&loaded.json())?;
    } else if loaded.accepted == 0 {
        call.console.line(match loaded.refused {
            0 => "there was nothing to index",
            _ => "no entity was accepted",
        })?;
    } else {
        let rate = loaded.accepted as f64 / took.as_secs_f64().max(1e-6);
        let how = if call.has("wait") { "searchable" } else { "accepted" };
        let entities = entities(loaded.accepted);
        call.console.line(&format!("{entities} {how} in {}, {rate:.0}/s", taken(took)))?;
    }
    if let Some(left) = left {
        let text = format!(
            "no worker is running: `windlass serve` makes {} searchable by meaning, as --wait would have",
            entities(left)
        );
        match call.json {
            true => call.console.note(&text),
            false => call.console.line(&text)?,
        }
    }
    refusals(loaded)
}

fn entities(count: u64) -> String {
    if count == 1 { "1 entity".to_owned() } else { format!("{count} entities") }
}

fn taken(took: Duration) -> String {
    match took.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 120.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.1} min", seconds / 60.0),
    }
}

fn refusals(loaded: &LoadReport) -> Result<(), VerbError> {
    if loaded.refused == 0 {
        return Ok(());
    }
    let mut text = format!("{} of {} lines", loaded.refused, loaded.refused + loaded.accepted);
    for (line, why) in &loaded.refusals {
        text.push_str(&format!("\n  line {line}: {why}"));
    }
    let more = loaded.refused.saturating_sub(loaded.refusals.len() as u64);
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    let error = VerbError::new("some entities were refused", text);
    Err(if loaded.accepted == 0 { error } else { error.hint("the others are written") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_their_line_number_in_the_file() {
        let refusal = |line: u64, field: &str, rule: &str| json!({ "line": line, "errors": [{ "field": field, "rule": rule }] });
        let mut loaded = LoadReport::default();
        let first = refusal(2, "line", "is not a JSON object: EOF at line 1 column 2");
        loaded.add(&json!({ "accepted": 999, "refused": 1, "refusals": [first] }), 0);
        let second = refusal(7, "id", "must be text");
        loaded.add(&json!({ "accepted": 3, "refused": 1, "refusals": [second] }), 1_000);
        assert_eq!((loaded.accepted, loaded.refused), (1_002, 2));
        assert_eq!(loaded.refusals[0], (2, "is not a JSON object: EOF at column 2".to_owned()));
        assert_eq!(loaded.refusals[1], (1_007, "id: must be text".to_owned()));
    }
}
