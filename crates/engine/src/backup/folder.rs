//! The folder of scheduled copies: names, rotation, and when the newest good copy is too old.

use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_core::store::BackupNote;
use windlass_core::{JobId, Store, StoreError, Time};

use super::BackupError;
use super::write::{left_drafts, remove_drafts};

const PREFIX: &str = "windlass-";
const SUFFIX: &str = ".backup";
/// Notes read; a folder holds far fewer files.
const NOTES: u32 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFolder {
    pub folder: PathBuf,
    /// Copies kept, the newest ones.
    pub keep: usize,
}

/// The newest verified copy, or the time since copies were first wanted, is older than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// `None`: no copy was ever verified.
    pub verified: Option<Time>,
    pub age: Duration,
}

impl BackupFolder {
    /// `windlass-20261116T053000.750000Z-<job>.backup`: names sort by time, and two jobs that read the same
    /// microsecond from the database's clock still differ.
    pub fn path(&self, at: Time, job: JobId) -> PathBuf {
        let micros = at.0.rem_euclid(1_000_000);
        let second = Time(at.0 - micros).to_string();
        let stamp: String = second.chars().filter(|c| !matches!(c, '-' | ':' | 'Z')).collect();
        self.folder.join(format!("{PREFIX}{stamp}.{micros:06}Z-{job}{SUFFIX}"))
    }

    /// The copies in the folder, newest first; other files are left out.
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

    /// Removes all but the newest `keep` copies. The newest verified copy stays, however old: it is the only one known
    /// to be good.
    pub async fn rotate(&self, store: &dyn Store) -> Result<Vec<PathBuf>, BackupError> {
        let notes = store.backups(NOTES).await?;
        let gone = surplus(&self.copies()?, &notes, self.keep);
        for path in &gone {
            std::fs::remove_file(path).map_err(BackupError::file("remove", path))?;
            for note in notes.iter().filter(|note| Path::new(&note.file) == path) {
                store.forget_backup(&note.digest).await?;
            }
        }
        Ok(gone)
    }

    /// Makes the folder, and removes drafts that killed processes left.
    pub fn prepare(&self) -> Result<(), BackupError> {
        std::fs::create_dir_all(&self.folder).map_err(BackupError::file("make the folder", &self.folder))?;
        remove_drafts(left_drafts(&self.folder, PREFIX)?);
        Ok(())
    }

    /// Drafts that killed processes left. Removes nothing.
    pub fn left(&self) -> Result<Vec<PathBuf>, BackupError> {
        if !self.folder.is_dir() {
            return Ok(Vec::new());
        }
        Ok(left_drafts(&self.folder, PREFIX)?.into_iter().map(|(draft, _)| draft).collect())
    }
}

fn surplus(copies: &[PathBuf], notes: &[BackupNote], keep: usize) -> Vec<PathBuf> {
    let is_good =
        |path: &PathBuf| notes.iter().any(|note| note.verified_at.is_some() && Path::new(&note.file) == path);
    let good = copies.iter().find(|path| is_good(path));
    copies.iter().skip(keep).filter(|path| Some(*path) != good).cloned().collect()
}

/// The verified copies, as seen from this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// When the newest copy was taken that is still there, or that cannot be checked from here.
    pub newest: Option<Time>,
    /// The newest copy that is no longer there, if it is newer than that.
    pub gone: Option<PathBuf>,
}

/// `folder` is where this process puts its copies. A file in another machine's folder cannot be checked, so it counts.
pub async fn last_verified(store: &dyn Store, folder: Option<&Path>) -> Result<Verified, StoreError> {
    let notes = store.backups(NOTES).await?;
    let folder = folder.map(Path::to_owned);
    // A network disk may be slow.
    let looked = tokio::task::spawn_blocking(move || look(&notes, folder.as_deref())).await;
    looked.map_err(|error| StoreError::Open { what: "the backups".to_owned(), why: error.to_string() })
}

/// Newest first.
fn look(notes: &[BackupNote], folder: Option<&Path>) -> Verified {
    let mut verified = Verified::default();
    for note in notes.iter().filter(|note| note.verified_at.is_some()) {
        let path = Path::new(&note.file);
        let ours = path.parent().is_some_and(|of| of.is_dir() || folder.is_some_and(|own| of == own));
        if ours && !path.exists() {
            verified.gone.get_or_insert_with(|| path.to_owned());
            continue;
        }
        verified.newest = Some(note.taken_at);
        break;
    }
    verified
}

/// `since` is when copies were first wanted.
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
    fn the_newest_verified_copy_is_kept() {
        let copies = ["d", "c", "b", "a"].map(PathBuf::from);
        let gone = |notes: &[BackupNote]| surplus(&copies, notes, 2);
        assert_eq!(gone(&[]), ["b", "a"].map(PathBuf::from));
        assert_eq!(gone(&[note("b", true), note("a", true)]), [PathBuf::from("a")]);
        assert_eq!(gone(&[note("a", true), note("b", false)]), [PathBuf::from("b")]);
        assert_eq!(gone(&[note("d", true), note("a", true)]), ["b", "a"].map(PathBuf::from));
    }

    #[test]
    fn only_copies_that_are_there_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a"), "").unwrap();
        let (a, b) = (note(&path("a"), true), note(&path("b"), true));
        let gone = Some(folder.path().join("b"));
        assert_eq!(
            look(&[b.clone(), a], None),
            Verified { newest: Some(Time(0)), gone: gone.clone() },
            "the newest that is there"
        );
        assert_eq!(look(&[b], None), Verified { newest: None, gone });
        let far = note("/no/such/folder/c", true);
        assert_eq!(
            look(std::slice::from_ref(&far), None),
            Verified { newest: Some(Time(0)), gone: None },
            "of another machine"
        );
        let own = look(&[far], Some(Path::new("/no/such/folder")));
        assert_eq!(own.newest, None, "a folder of our own that is gone has no copies");
    }

    #[test]
    fn names_sort_by_time() {
        let folder = BackupFolder { folder: PathBuf::from("x"), keep: 1 };
        let at: Time = "2026-11-16T05:30:00.75Z".parse().unwrap();
        assert_eq!(folder.path(at, JobId(7)), PathBuf::from("x/windlass-20261116T053000.750000Z-7.backup"));
        assert!(folder.path(Time(at.0 + 1), JobId(7)) > folder.path(at, JobId(9)), "time decides the order");
        assert_ne!(folder.path(at, JobId(7)), folder.path(at, JobId(8)), "two jobs in one microsecond");
    }

    #[test]
    fn an_age_counts_from_the_copy_or_from_when_copies_were_wanted() {
        let hours = |n: u64| Duration::from_secs(n * 3_600);
        let start = Time(0);
        let at = |n| start.plus(hours(n));
        assert_eq!(too_old(None, start, at(47), hours(48)), None);
        assert_eq!(too_old(None, start, at(49), hours(48)), Some(TooOld { verified: None, age: hours(49) }));
        assert_eq!(too_old(Some(at(24)), start, at(49), hours(48)), None);
        assert!(too_old(Some(at(0)), start, at(49), hours(48)).is_some());
    }
}
