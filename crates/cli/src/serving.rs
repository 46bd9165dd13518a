//! A note that a server leaves in the data folder while it runs, so that verbs in the same folder find its database.
//!
//! Owns the note's file. It is locked while its process runs, so a note that can be locked is stale. Never contains a
//! password: an address with one is masked, and the user must name the database.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compose::Address;
use crate::config::Config;
use crate::failure::Failure;

const PREFIX: &str = "serving-";

#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Note {
    process: u32,
    database: String,
    /// The full address would show a password.
    masked: bool,
}

/// Removes the note when dropped.
pub(crate) struct Serving {
    path: PathBuf,
    _locked: File,
}

impl Serving {
    /// A server that cannot write its note still serves, and logs it.
    pub(crate) fn begin(data: &Path, database: &Address) -> Option<Serving> {
        match record(data, database) {
            Ok(serving) => Some(serving),
            Err(error) => {
                tracing::warn!(folder = %data.display(), %error, "no note of this server could be left");
                None
            }
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // A note that stays behind is recognized as stale.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Gets its final name only once it is locked and complete.
fn record(data: &Path, database: &Address) -> io::Result<Serving> {
    std::fs::create_dir_all(data)?;
    remove_old(data)?;
    let (database, masked) = noted(database)?;
    let process = std::process::id();
    let text = serde_json::to_string(&Note { process, database, masked })?;
    let (draft, path) = (data.join(format!(".{PREFIX}{process}")), data.join(format!("{PREFIX}{process}")));
    let mut file = File::create(&draft)?;
    file.lock()?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&draft, &path)?;
    Ok(Serving { path, _locked: file })
}

/// With an absolute path.
fn noted(database: &Address) -> io::Result<(String, bool)> {
    Ok(match database {
        Address::Sqlite(path) => (Address::Sqlite(std::path::absolute(path)?).to_string(), false),
        Address::Postgres(url) => (database.to_string(), database.to_string() != *url),
    })
}

/// Removes notes of killed processes.
fn remove_old(data: &Path) -> io::Result<()> {
    for path in paths(data)? {
        if let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

fn paths(data: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(data)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// The notes of running processes.
fn notes(data: &Path) -> Vec<Note> {
    let read = |path: PathBuf| {
        let mut file = File::open(path).ok()?;
        if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        serde_json::from_str::<Note>(&text).ok()
    };
    paths(data).unwrap_or_default().into_iter().filter_map(read).collect()
}

/// For verbs without a named database: uses that of a server running on this data folder, if any.
pub(crate) fn join(config: &mut Config) -> Result<(), Failure> {
    if !config.database.is_default {
        return Ok(());
    }
    let mut notes = notes(&config.server.data);
    let usual = noted(&config.database.address).map(|(usual, _)| usual).unwrap_or_default();
    if notes.iter().any(|note| note.database == usual) {
        return Ok(());
    }
    notes.sort_by(|one, other| one.database.cmp(&other.database));
    notes.dedup_by(|one, other| one.database == other.database);
    match notes.as_slice() {
        [] => Ok(()),
        [note] if !note.masked => {
            let address = Address::parse(&note.database);
            let address =
                address.map_err(|why| Failure::new("cannot use the running server's database", why))?;
            config.adopt(address, format!("the server that runs, process {}", note.process));
            Ok(())
        }
        several => {
            let what = format!("cannot tell which database is meant in {}", config.server.data.display());
            let each =
                several.iter().map(|note| format!("process {} serves {}", note.process, note.database));
            Err(Failure::usage(what, each.collect::<Vec<_>>().join(", "))
                .hint("name the database with --database or DATABASE_URL"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_exists_as_long_as_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        assert_eq!(notes(&data), []);
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("serving-1"), r#"{"process":1,"database":"sqlite:///x","masked":false}"#)
            .unwrap();
        assert_eq!(notes(&data), [], "its lock is free");
        let serving = Serving::begin(&data, &Address::parse("sqlite://some.db").unwrap()).unwrap();
        assert!(!data.join("serving-1").exists(), "stale notes are removed");
        let found = notes(&data);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].database.starts_with("sqlite:///") && found[0].database.ends_with("/some.db"),
            "{found:?}"
        );
        drop(serving);
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    }

    #[test]
    fn a_password_is_not_noted() {
        let noted = |url| noted(&Address::parse(url).unwrap()).unwrap();
        assert_eq!(noted("postgres://me:hush@h/d"), ("postgres://me:***@h/d".to_owned(), true));
        assert_eq!(noted("postgres://me@h/d"), ("postgres://me@h/d".to_owned(), false));
    }
}
