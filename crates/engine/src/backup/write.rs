//! From a store to a file, which has a temporary name until it is whole and on the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use windlass_core::backup::line::{Head, TableEnd, TableHead, Tail, write_row};
use windlass_core::backup::{Batch, FORMAT, Holdings, Sum};
use windlass_core::{Store, Time};

use super::locked::{self, LockedFile};
use super::{BackupError, Progress};

const BUFFER: usize = 1 << 18;

/// A copy that is whole and on the disk.
#[derive(Clone, Debug)]
pub struct Written {
    pub taken_at: Time,
    pub rows: u64,
    pub bytes: u64,
    /// SHA-256 in hex, as in the file's last line.
    pub digest: String,
}

/// Copies the store into a new file. A failure leaves no file of that name.
pub async fn write(
    store: &dyn Store,
    holdings: &Holdings,
    path: &Path,
    progress: Progress<'_>,
) -> Result<Written, BackupError> {
    if path.exists() {
        return Err(BackupError::Exists { path: path.to_owned() });
    }
    sweep_drafts(path)?;
    let mut export = store.export(holdings).await?;
    let taken_at = export.taken_at();
    let head = Head {
        windlass_backup: FORMAT,
        schema: export.schema(),
        source: store.name().to_owned(),
        taken_at: taken_at.to_string(),
        packs: holdings.versions(),
    };
    let mut draft = Draft::begin(path)?;
    draft.line(&head).map_err(BackupError::file("write", path))?;
    let mut next = export.next().await?;
    for &table in &holdings.tables {
        draft = blocking(draft, path, move |draft| draft.line(&TableHead::of(table))).await?;
        let mut sum = Sum::default();
        while let Some(batch) = next.take_if(|batch| batch.table == table) {
            let rows;
            (draft, rows) = rows_of(draft, path, batch, sum).await?;
            sum = rows;
            progress(draft.rows, draft.bytes);
            next = export.next().await?;
        }
        draft = blocking(draft, path, move |draft| draft.line(&TableEnd::of(table, &sum))).await?;
    }
    let (rows, path) = (draft.rows, path.to_owned());
    let named = path.clone();
    let done = tokio::task::spawn_blocking(move || draft.finish(&named)).await;
    let (digest, bytes) = done.map_err(|error| panicked(&path, error))??;
    Ok(Written { taken_at, rows, bytes, digest })
}

/// Writes outside the runtime's threads: a slow disk must not delay heartbeats.
async fn blocking(
    mut draft: Draft,
    path: &Path,
    work: impl FnOnce(&mut Draft) -> io::Result<()> + Send + 'static,
) -> Result<Draft, BackupError> {
    let done = tokio::task::spawn_blocking(move || work(&mut draft).map(|()| draft)).await;
    done.map_err(|error| panicked(path, error))?.map_err(BackupError::file("write", path))
}

async fn rows_of(
    mut draft: Draft,
    path: &Path,
    batch: Batch,
    mut sum: Sum,
) -> Result<(Draft, Sum), BackupError> {
    let work = move || -> io::Result<(Draft, Sum)> {
        let mut line = Vec::new();
        for row in &batch.rows {
            line.clear();
            write_row(&mut line, row, 0..row.len());
            sum.add(&line);
            line.push(b'\n');
            draft.put(&line)?;
        }
        draft.rows += batch.rows.len() as u64;
        Ok((draft, sum))
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| panicked(path, error))?.map_err(BackupError::file("write", path))
}

pub(super) fn panicked(path: &Path, error: tokio::task::JoinError) -> BackupError {
    BackupError::File { op: "work on", path: path.to_owned(), source: io::Error::other(error) }
}

/// A file under its temporary name; removed when dropped before it is finished.
struct Draft {
    file: BufWriter<File>,
    unfinished: Unfinished,
    hash: Sha256,
    rows: u64,
    bytes: u64,
}

/// Removes the file when dropped.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // A file that cannot be removed has no last line, so it is never taken for a backup.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A temporary name is `FILE.UNIQUE.draft`.
const DRAFT: &str = ".draft";

/// Drafts of killed processes in a folder, of files whose names begin with `begins`.
pub(super) fn left_drafts(folder: &Path, begins: &str) -> Result<Vec<(PathBuf, LockedFile)>, BackupError> {
    let failed = BackupError::file("list", folder);
    let mut left = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        let Some(of) = name.to_str().filter(|name| name.starts_with(begins)) else { continue };
        let Some((_, token)) = of.strip_suffix(DRAFT).and_then(|of| of.rsplit_once('.')) else { continue };
        let path = entry.path();
        // Earlier versions put the number of their process there and held no lock.
        let earlier = !token.is_empty() && token.bytes().all(|c| c.is_ascii_digit());
        if locked::is_unique(token) || (earlier && locked::is_old(&path).unwrap_or(false)) {
            // A file that cannot be opened is not ours.
            left.extend(LockedFile::abandoned(&path).ok().flatten().map(|locked| (path, locked)));
        }
    }
    Ok(left)
}

/// A draft that cannot be removed stays until the next backup: it is no reason to make none now.
pub(super) fn remove_drafts(left: Vec<(PathBuf, LockedFile)>) {
    for (draft, _locked) in left {
        match std::fs::remove_file(&draft) {
            Ok(()) => tracing::info!(file = %draft.display(), "removed what a killed backup left"),
            Err(error) => tracing::warn!(file = %draft.display(), %error, "cannot remove a draft"),
        }
    }
}

/// Removes drafts of this file that killed processes left.
fn sweep_drafts(path: &Path) -> Result<(), BackupError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Ok(());
    }
    remove_drafts(left_drafts(folder, &format!("{name}."))?);
    Ok(())
}

/// How often another name is tried when another process takes the new file for abandoned.
const TRIES: usize = 5;

impl Draft {
    fn begin(path: &Path) -> Result<Draft, BackupError> {
        for _ in 0..TRIES {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}{DRAFT}", locked::unique()));
            let draft = PathBuf::from(name);
            if let Some(locked) = LockedFile::create(&draft).map_err(BackupError::file("create", &draft))? {
                let file = BufWriter::with_capacity(BUFFER, locked.into_file());
                return Ok(Draft {
                    file,
                    unfinished: Unfinished(Some(draft)),
                    hash: Sha256::new(),
                    rows: 0,
                    bytes: 0,
                });
            }
        }
        let source = io::Error::other("another process removes each draft");
        Err(BackupError::File { op: "create a draft of", path: path.to_owned(), source })
    }

    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        self.hash.update(line);
        self.bytes += line.len() as u64;
        self.file.write_all(line)
    }

    fn line(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.put(&line)
    }

    fn finish(mut self, path: &Path) -> Result<(String, u64), BackupError> {
        let failed = BackupError::file("write", path);
        let digest: String = self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.line(&Tail { rows: self.rows, sha256: digest.clone() }).map_err(&failed)?;
        self.file.flush().map_err(&failed)?;
        self.file.get_ref().sync_all().map_err(&failed)?;
        let Some(draft) = self.unfinished.0.as_ref() else { return Ok((digest, self.bytes)) };
        // A link fails where another process was faster; a rename would replace its file. Not every file system has
        // links.
        match std::fs::hard_link(draft, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(BackupError::Exists { path: path.to_owned() });
            }
            Err(_) => std::fs::rename(draft, path).map_err(&failed)?,
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(&failed)?;
        folder.sync_all().map_err(&failed)?;
        Ok((digest, self.bytes))
    }
}
