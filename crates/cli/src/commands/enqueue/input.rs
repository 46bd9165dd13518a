//! Lines of a bulk file: read with a length limit and combined into arrays for a route.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use windlass_core::input::MAX_PAYLOAD_BYTES;

use crate::failure::{During, Failure};

/// The payload plus the same again for the other fields.
const MAX_LINE_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;

/// Input that can be read twice: to validate and to write.
pub(super) enum Input {
    File(PathBuf),
    /// Standard input, buffered.
    Memory(Vec<u8>),
}

impl Input {
    pub(super) fn open(file: &Path) -> Result<Input, Failure> {
        if file != Path::new("-") {
            return Ok(Input::File(file.to_owned()));
        }
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).during("cannot read standard input")?;
        Ok(Input::Memory(bytes))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Memory(_) => "standard input".to_owned(),
        }
    }

    pub(super) fn lines(&self) -> Result<Lines<'_>, Failure> {
        let what = format!("cannot read {}", self.name());
        let reader: Box<dyn BufRead + Send + '_> = match self {
            Input::File(path) => Box::new(BufReader::new(File::open(path).during(what.clone())?)),
            Input::Memory(bytes) => Box::new(Cursor::new(bytes)),
        };
        Ok(Lines { reader, number: 0, what })
    }
}

/// Non-blank lines with their numbers.
pub(super) struct Lines<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    number: u64,
    what: String,
}

impl Lines<'_> {
    pub(super) fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
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

/// Objects for one request, and their line numbers.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) numbers: Vec<u64>,
    /// Without the closing bracket.
    array: Vec<u8>,
}

impl Chunk {
    /// Small enough for one short transaction.
    const MOST: usize = 5_000;
    /// Half of the route's limit.
    const MOST_BYTES: usize = 8 << 20;

    /// Whether to send it, because `next` would not fit or there is none.
    pub(super) fn is_full(&self, next: Option<&(u64, Vec<u8>)>) -> bool {
        match next {
            _ if self.numbers.is_empty() => false,
            None => true,
            Some((_, text)) => {
                self.numbers.len() >= Chunk::MOST || self.array.len() + text.len() > Chunk::MOST_BYTES
            }
        }
    }

    /// `text` is one JSON object.
    pub(super) fn add(&mut self, number: u64, text: &[u8]) {
        self.array.push(if self.numbers.is_empty() { b'[' } else { b',' });
        self.array.extend_from_slice(text.trim_ascii());
        self.numbers.push(number);
    }

    pub(super) fn body(&self) -> Vec<u8> {
        [self.array.as_slice(), b"]"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_ends_before_it_is_too_large_or_with_the_input() {
        let mut chunk = Chunk::default();
        assert!(!chunk.is_full(None), "an empty chunk is not sent");
        chunk.add(3, b" {\"kind\":\"A\"}\n");
        chunk.add(5, b"{}");
        assert_eq!(chunk.body(), b"[{\"kind\":\"A\"},{}]");
        assert_eq!(chunk.numbers, [3, 5]);
        assert!(chunk.is_full(None) && !chunk.is_full(Some(&(6, b"{}".to_vec()))));
        assert!(chunk.is_full(Some(&(6, vec![b' '; Chunk::MOST_BYTES]))));
        while chunk.numbers.len() < Chunk::MOST {
            chunk.add(0, b"{}");
        }
        assert!(chunk.is_full(Some(&(6, b"{}".to_vec()))));
    }
}
