//! Names that nobody else takes, and whether who took one still lives.
//!
//! A maker holds a lock on a file for as long as it works. The lock belongs to the open file, so it ends with the
//! process, however that ends: what can be locked is left over. Where the file system has no locks, only age tells.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Without a lock to ask, nobody works on a file that was not written to for this long.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 3_600);
const DIGITS: usize = 21;

/// Hex digits, in the order of time. The number of a process would not do: in a container it is always 1.
pub fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    format!("{now:013x}{:08x}", fastrand::u32(..))
}

/// Whether [`unique`] makes such names: nothing else is ever removed.
pub fn is_unique(name: &str) -> bool {
    name.len() == DIGITS && name.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'a'..=b'f'))
}

/// A file whose maker lives for as long as this is kept.
pub struct Held {
    file: File,
}

impl Held {
    /// A new file. `None` when somebody took it for left over before it was locked: take another name.
    pub fn begin(path: &Path) -> io::Result<Option<Held>> {
        // Payloads are nobody else's business.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(path.exists().then_some(Held { file })),
        }
    }

    /// A file whose maker is gone; nobody else finds it so while this is kept.
    pub fn left(path: &Path) -> io::Result<Option<Held>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let left = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => is_old(path)?,
        };
        Ok(left.then_some(Held { file }))
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

/// What carries no lock is left over when nothing was written to it for a day.
pub fn is_old(path: &Path) -> io::Result<bool> {
    let written = std::fs::metadata(path)?.modified()?;
    Ok(SystemTime::now().duration_since(written).is_ok_and(|age| age > LEFT_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_left_when_its_maker_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(unique());
        let held = Held::begin(&path).unwrap().unwrap();
        assert!(Held::left(&path).unwrap().is_none(), "its maker lives");
        drop(held);
        let left = Held::left(&path).unwrap();
        assert!(left.is_some(), "its maker is gone");
        assert!(Held::left(&path).unwrap().is_none(), "one alone removes it");
        assert!(Held::left(&folder.path().join("none")).unwrap().is_none());
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
