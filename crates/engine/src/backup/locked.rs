//! Unique file names, and whether the process that made a file still lives.
//!
//! A process holds a lock on a file for as long as it works on it. The lock belongs to the open file, so it ends with
//! the process, however that ends: a file that can be locked was abandoned. Where the file system has no locks, age
//! decides.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file without a lock counts as abandoned when it was not written to for this long.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3_600);
const DIGITS: usize = 21;

/// Hex digits that sort by time. A process id would not do: in a container it is always 1.
pub fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    format!("{now:013x}{:08x}", fastrand::u32(..))
}

/// Whether [`unique`] makes such names. Only files with such names are ever removed.
pub fn is_unique(name: &str) -> bool {
    name.len() == DIGITS && name.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'a'..=b'f'))
}

/// A file that no other process takes for abandoned while this value lives.
pub struct LockedFile {
    file: File,
}

impl LockedFile {
    /// A new file. `None` when another process took it for abandoned before it was locked: try another name.
    pub fn create(path: &Path) -> io::Result<Option<LockedFile>> {
        // It will hold payloads, so only the owner may read it.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(path.exists().then_some(LockedFile { file })),
        }
    }

    /// Locks a file whose process is gone; `None` when it is not.
    pub fn abandoned(path: &Path) -> io::Result<Option<LockedFile>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let abandoned = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => is_old(path)?,
        };
        Ok(abandoned.then_some(LockedFile { file }))
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

/// Not written to for a day: how a file without a lock counts as abandoned.
pub fn is_old(path: &Path) -> io::Result<bool> {
    let written = std::fs::metadata(path)?.modified()?;
    Ok(SystemTime::now().duration_since(written).is_ok_and(|age| age > ABANDONED_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_abandoned_when_its_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(unique());
        let held = LockedFile::create(&path).unwrap().unwrap();
        assert!(LockedFile::abandoned(&path).unwrap().is_none(), "its process lives");
        drop(held);
        let abandoned = LockedFile::abandoned(&path).unwrap();
        assert!(abandoned.is_some(), "its process is gone");
        assert!(LockedFile::abandoned(&path).unwrap().is_none(), "only one process removes it");
        assert!(LockedFile::abandoned(&folder.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn no_name_comes_twice() {
        let names: std::collections::BTreeSet<String> = (0..1_000).map(|_| unique()).collect();
        assert_eq!(names.len(), 1_000);
        assert!(names.iter().all(|name| is_unique(name)), "{names:?}");
        for other in ["4711", "mine", "", "00065d2f0a1b2c3d4e5f6A", &"g".repeat(DIGITS)] {
            assert!(!is_unique(other), "{other}");
        }
    }
}
