//! A record of effects outside the system under test: one line `id token` per effect. Lines are appended with O_APPEND,
//! so that processes killed at any moment cannot damage each other's lines. It shows which effects were lost and which
//! happened twice.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use windlass_core::{JobId, Token};

/// The writer. Each line is one `write` call, which the kernel appends as a whole.
#[derive(Debug)]
pub struct Ledger {
    file: File,
}

impl Ledger {
    pub fn append_to(path: &Path) -> io::Result<Ledger> {
        OpenOptions::new().create(true).append(true).open(path).map(|file| Ledger { file })
    }

    pub fn write(&mut self, id: JobId, token: Token) -> io::Result<()> {
        self.file.write_all(format!("{id} {token}\n").as_bytes())
    }
}

/// Every recorded effect, in the order of writing.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    pub lines: Vec<(JobId, Token)>,
}

/// Comparison of a ledger with the accepted jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Accepted, without an effect.
    pub lost: Vec<JobId>,
    /// Had an effect under more than one token, which at-least-once execution allows.
    pub repeated: Vec<JobId>,
    /// Had more than one effect under one token: two processes used one lease.
    pub doubled: Vec<(JobId, Token)>,
    /// Had an effect and was never accepted.
    pub unknown: Vec<JobId>,
}

impl Entries {
    /// Reads a ledger; a missing file has no entries. Panics on a line it cannot parse. A last line without a line end
    /// is still being written and is left out.
    pub fn read(path: &Path) -> io::Result<Entries> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let written = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = written.lines().enumerate().map(|(n, line)| parse(path, n + 1, line)).collect();
        Ok(Entries { lines })
    }

    pub fn judge(&self, accepted: impl IntoIterator<Item = JobId>) -> Verdict {
        let mut effects: BTreeMap<JobId, BTreeMap<Token, u32>> = BTreeMap::new();
        for (id, token) in &self.lines {
            *effects.entry(*id).or_default().entry(*token).or_default() += 1;
        }
        let mut verdict = Verdict::default();
        for id in accepted {
            let Some(tokens) = effects.remove(&id) else {
                verdict.lost.push(id);
                continue;
            };
            if tokens.len() > 1 {
                verdict.repeated.push(id);
            }
            verdict.doubled.extend(tokens.iter().filter(|(_, n)| **n > 1).map(|(token, _)| (id, *token)));
        }
        verdict.unknown = effects.into_keys().collect();
        verdict
    }
}

fn parse(path: &Path, number: usize, line: &str) -> (JobId, Token) {
    let pair = line.split_once(' ').and_then(|(id, token)| Some((id.parse().ok()?, token.parse().ok()?)));
    pair.unwrap_or_else(|| panic!("{}:{number}: `{line}` is not `id token`", path.display()))
}

/// The default path of a ledger in a test's directory.
pub fn path_in(directory: &Path) -> PathBuf {
    directory.join("effects.ledger")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader may see the first bytes of a line before the others.
    #[test]
    fn an_unfinished_line_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = path_in(directory.path());
        for (text, lines) in [("75", 0), ("7 1\n75", 1), ("7 1\n75 2\n", 2)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Entries::read(&path).unwrap().lines.len(), lines, "{text:?}");
        }
    }

    #[test]
    fn lost_repeated_and_doubled_effects_are_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        let path = path_in(directory.path());
        assert!(Entries::read(&path).unwrap().lines.is_empty());
        let (mut one, mut two) = (Ledger::append_to(&path).unwrap(), Ledger::append_to(&path).unwrap());
        one.write(JobId(1), Token(10)).unwrap();
        two.write(JobId(2), Token(11)).unwrap();
        one.write(JobId(2), Token(12)).unwrap();
        two.write(JobId(3), Token(13)).unwrap();
        one.write(JobId(3), Token(13)).unwrap();
        two.write(JobId(9), Token(14)).unwrap();
        let verdict = Entries::read(&path).unwrap().judge([JobId(1), JobId(2), JobId(3), JobId(4)]);
        let expected = Verdict {
            lost: vec![JobId(4)],
            repeated: vec![JobId(2)],
            doubled: vec![(JobId(3), Token(13))],
            unknown: vec![JobId(9)],
        };
        assert_eq!(verdict, expected);
    }
}
