//! Many queries on standard input, answered line by line.

use std::io::{BufRead, BufWriter, Read, Write};

use serde::Serialize;
use windlass_core::Invalid;
use windlass_pack::fields::Fields;

use super::super::line;
use crate::failure::{During, Failure};
use crate::output::Output;

const MAX_LINE_BYTES: u64 = 64 << 10;

#[derive(Serialize)]
struct Refused {
    error: String,
}

/// An invalid line is answered in place, and the exit code is set at the end. Output is flushed as soon as no more
/// input is available, so that an interactive caller gets its answer.
pub(super) fn answer<T: Serialize>(
    output: &Output,
    mut answer: impl FnMut(Fields<'_>) -> Result<T, Invalid>,
) -> Result<(), Failure> {
    let mut input = std::io::BufReader::with_capacity(MAX_LINE_BYTES as usize, std::io::stdin().lock());
    let mut out = BufWriter::with_capacity(MAX_LINE_BYTES as usize, std::io::stdout().lock());
    let (mut text, mut bad) = (Vec::new(), false);
    while read(&mut input, &mut text)? {
        if text.trim_ascii().is_empty() {
            continue;
        }
        let answered = match text.len() as u64 > MAX_LINE_BYTES {
            true => Err(format!("the line is longer than {MAX_LINE_BYTES} bytes")),
            false => line::fields(&text).and_then(|fields| answer(fields).map_err(|error| error.to_string())),
        };
        match answered {
            Ok(answer) => output.json_line(&mut out, &answer)?,
            Err(error) => {
                bad = true;
                output.json_line(&mut out, &Refused { error })?;
            }
        }
        if input.buffer().is_empty() {
            out.flush().during("write the answer")?;
        }
    }
    out.flush().during("write the answer")?;
    if bad { Err(Failure::Silent(1)) } else { Ok(()) }
}

/// Reads the next line; only the beginning of one that is too long.
fn read(input: &mut impl BufRead, text: &mut Vec<u8>) -> Result<bool, Failure> {
    let what = "cannot read standard input";
    text.clear();
    input.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', text).during(what)?;
    if text.len() as u64 > MAX_LINE_BYTES && !text.ends_with(b"\n") {
        input.skip_until(b'\n').during(what)?;
    }
    Ok(!text.is_empty())
}
