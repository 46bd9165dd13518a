//! A record of overlapping runs: one line `start key id` and one line `end key id` per run, appended with O_APPEND by
//! processes that may be killed between the two. It shows how many jobs of a key ran at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use windlass_core::JobId;

/// The writer. Each line is one `write` call, which the kernel appends as a whole.
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

/// Summary of the runs of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Most jobs that had begun and not ended at one moment. A job that began again after its process was killed counts
    /// once, because its earlier run is over.
    pub most_at_once: usize,
    /// Jobs that began and have no recorded end.
    pub open: BTreeSet<JobId>,
    pub runs: usize,
}

/// Summaries by key. Leaves out the jobs in `without`, whose last end is unknown. Panics on a line it cannot parse.
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
    fn overlaps_are_counted_and_a_second_run_of_a_job_is_none() {
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
