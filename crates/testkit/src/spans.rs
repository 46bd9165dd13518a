//! A record of what ran beside what: one line `start key id` and one line `end key id` per run, appended with O_APPEND
//! by processes that may be killed between the two. Read afterwards, it says how many of a key ran at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use windlass_core::JobId;

/// The writing end. Each line is one `write` call: the kernel appends it whole.
#[derive(Debug)]
pub struct Spans {
    file: File,
}

impl Spans {
    pub fn append_to(path: &Path) -> io::Result<Spans> {
        OpenOptions::new().create(true).append(true).open(path).map(|file| Spans { file })
    }

    pub fn start(&mut self, key: &str, id: JobId) -> io::Result<()> {
        self.file.write_all(format!("start {key} {id}\n").as_bytes())
    }

    pub fn end(&mut self, key: &str, id: JobId) -> io::Result<()> {
        self.file.write_all(format!("end {key} {id}\n").as_bytes())
    }
}

/// What a record says about one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Jobs that had begun and not ended at one moment. A job begun again after its process was killed counts once: the
    /// run before is over.
    pub most_at_once: usize,
    /// Began, and no end is on record.
    pub open: BTreeSet<JobId>,
    pub runs: usize,
}

/// By key, without the jobs of which nobody knows when their last run ended. A torn or foreign line panics with its number.
pub fn judge(path: &Path, without: &BTreeSet<JobId>) -> io::Result<BTreeMap<String, Judged>> {
    let mut keys: BTreeMap<String, Judged> = BTreeMap::new();
    for (n, line) in std::fs::read_to_string(path)?.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let foreign = || panic!("{}:{}: `{line}` is no start and no end", path.display(), n + 1);
        let [what, key, id] = words[..] else { foreign() };
        let id = JobId(id.parse().unwrap_or_else(|_| foreign()));
        if without.contains(&id) {
            continue;
        }
        let judged = keys.entry(key.to_owned()).or_default();
        match what {
            "start" => {
                judged.open.insert(id);
                judged.runs += 1;
                judged.most_at_once = judged.most_at_once.max(judged.open.len());
            }
            "end" => assert!(judged.open.remove(&id), "line {}: {id} ended and did not run", n + 1),
            _ => foreign(),
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_seen_and_a_second_run_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("spans");
        let (mut one, mut two) = (Spans::append_to(&path).unwrap(), Spans::append_to(&path).unwrap());
        one.start("a", JobId(1)).unwrap();
        two.start("a", JobId(1)).unwrap();
        two.end("a", JobId(1)).unwrap();
        one.start("a", JobId(2)).unwrap();
        one.start("b", JobId(3)).unwrap();
        two.start("b", JobId(4)).unwrap();
        one.end("b", JobId(3)).unwrap();
        let judged = judge(&path, &BTreeSet::new()).unwrap();
        assert_eq!((judged["a"].most_at_once, judged["a"].runs), (1, 3));
        assert_eq!(judged["a"].open, [JobId(2)].into());
        assert_eq!((judged["b"].most_at_once, judged["b"].open.len()), (2, 1));
        assert_eq!(judge(&path, &[JobId(3)].into()).unwrap()["b"].most_at_once, 1);
    }
}
