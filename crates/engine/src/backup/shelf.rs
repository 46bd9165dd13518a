//! The folder that scheduled copies go to: names, rotation, and when the last good copy is too old.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_core::store::BackupNote;
use windlass_core::{Store, StoreError, Time};

use super::BackupError;
use super::write::DRAFT;

const PREFIX: &str = "windlass-";
const SUFFIX: &str = ".backup";
/// What a killed process left is no longer written to after this.
const DRAFT_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Notes looked at; a shelf holds far fewer files.
const NOTES: u32 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    pub folder: PathBuf,
    /// Copies kept, the newest ones.
    pub keep: usize,
}

/// The newest verified copy, or when copies were first asked for, lies further back than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// `None`: no copy was ever verified.
    pub verified: Option<Time>,
    pub age: Duration,
}

impl Shelf {
    /// `windlass-20261116T053000Z.backup`: in the order of time by name.
    pub fn path(&self, at: Time) -> PathBuf {
        let second = Time(at.0 - at.0.rem_euclid(1_000_000)).to_string();
        let stamp: String = second.chars().filter(|c| !matches!(c, '-' | ':')).collect();
        self.folder.join(format!("{PREFIX}{stamp}{SUFFIX}"))
    }

    /// Our own files in the folder, newest first.
    pub fn copies(&self) -> Result<Vec<PathBuf>, BackupError> {
        let ours = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        let mut copies = self.files(ours)?;
        copies.sort();
        copies.reverse();
        Ok(copies)
    }

    fn files(&self, ours: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, BackupError> {
        let failed = BackupError::file("list", &self.folder);
        let entries = std::fs::read_dir(&self.folder).map_err(&failed)?;
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(&failed)?;
            if entry.file_name().to_str().is_some_and(&ours) {
                files.push(entry.path());
            }
        }
        Ok(files)
    }

    /// Removes what is beyond the copies to keep, and what killed processes left half done. The newest verified copy
    /// stays, however old: it is the only one known to be good.
    pub async fn rotate(&self, store: &dyn Store) -> Result<Vec<PathBuf>, BackupError> {
        let notes = store.backups(NOTES).await?;
        let gone = surplus(&self.copies()?, &notes, self.keep);
        for path in &gone {
            std::fs::remove_file(path).map_err(BackupError::file("remove", path))?;
            for note in notes.iter().filter(|note| Path::new(&note.file) == path) {
                store.forget_backup(&note.digest).await?;
            }
        }
        for draft in self.files(|name| name.starts_with(PREFIX) && name.ends_with(DRAFT))? {
            let written = std::fs::metadata(&draft).and_then(|found| found.modified());
            let left =
                written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > DRAFT_AGE));
            if left {
                std::fs::remove_file(&draft).map_err(BackupError::file("remove", &draft))?;
            }
        }
        Ok(gone)
    }
}

fn surplus(copies: &[PathBuf], notes: &[BackupNote], keep: usize) -> Vec<PathBuf> {
    let is_good =
        |path: &PathBuf| notes.iter().any(|note| note.verified_at.is_some() && Path::new(&note.file) == path);
    let good = copies.iter().find(|path| is_good(path));
    copies.iter().skip(keep).filter(|path| Some(*path) != good).cloned().collect()
}

/// When the newest verified copy was taken.
pub async fn last_verified(store: &dyn Store) -> Result<Option<Time>, StoreError> {
    let notes = store.backups(NOTES).await?;
    Ok(notes.into_iter().find(|note| note.verified_at.is_some()).map(|note| note.taken_at))
}

/// `since`: when copies were first asked for.
pub fn too_old(verified: Option<Time>, since: Time, now: Time, after: Duration) -> Option<TooOld> {
    let age = now.since(verified.unwrap_or(since));
    (age > after).then_some(TooOld { verified, age })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(file: &str, verified: bool) -> BackupNote {
        BackupNote {
            digest: file.to_owned(),
            file: file.to_owned(),
            taken_at: Time(0),
            rows: 0,
            bytes: 0,
            verified_at: verified.then_some(Time(1)),
        }
    }

    #[test]
    fn the_last_verified_copy_outlives_its_turn() {
        let copies = ["d", "c", "b", "a"].map(PathBuf::from);
        let gone = |notes: &[BackupNote]| surplus(&copies, notes, 2);
        assert_eq!(gone(&[]), ["b", "a"].map(PathBuf::from));
        assert_eq!(gone(&[note("b", true), note("a", true)]), [PathBuf::from("a")]);
        assert_eq!(gone(&[note("a", true), note("b", false)]), [PathBuf::from("b")]);
        assert_eq!(gone(&[note("d", true), note("a", true)]), ["b", "a"].map(PathBuf::from));
    }

    #[test]
    fn names_sort_by_time() {
        let shelf = Shelf { folder: PathBuf::from("x"), keep: 1 };
        let at: Time = "2026-11-16T05:30:00.75Z".parse().unwrap();
        assert_eq!(shelf.path(at), PathBuf::from("x/windlass-20261116T053000Z.backup"));
    }

    #[test]
    fn an_age_counts_from_the_copy_or_from_the_wish() {
        let hours = |n: u64| Duration::from_secs(n * 3_600);
        let start = Time(0);
        let at = |n| start.plus(hours(n));
        assert_eq!(too_old(None, start, at(47), hours(48)), None);
        assert_eq!(too_old(None, start, at(49), hours(48)), Some(TooOld { verified: None, age: hours(49) }));
        assert_eq!(too_old(Some(at(24)), start, at(49), hours(48)), None);
        assert!(too_old(Some(at(0)), start, at(49), hours(48)).is_some());
    }
}
