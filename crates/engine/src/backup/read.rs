//! From a file to a store. Every byte is hashed; nothing is committed before the hash in the last line agrees.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use windlass_core::backup::line::{Head, HeadError, TableEnd, TableHead, Tail, read_row};
use windlass_core::backup::{Column, Gather, Holdings, Row, Sum, Table};
use windlass_core::store::Import;
use windlass_core::{Store, StoreError, Time};

use super::write::panicked;
use super::{BackupError, Progress};

/// Longer than any line: a payload has at most 1 MiB, a schedule 256 KiB, an entity somewhat more.
const LONGEST_LINE: u64 = 256 << 20;
const BUFFER: usize = 1 << 18;

/// What a file holds, known once it was read to its end.
#[derive(Clone, Debug)]
pub struct Contents {
    pub head: Head,
    pub taken_at: Time,
    pub tables: Vec<TableContents>,
    pub rows: u64,
    pub bytes: u64,
    /// SHA-256 in hex.
    pub digest: String,
}

/// One table of a file.
#[derive(Clone, Debug)]
pub struct TableContents {
    pub table: &'static Table,
    /// Indexes of the columns the file has, in its order.
    pub columns: Vec<usize>,
    pub sum: Sum,
}

/// The head of a file, if this binary can read what follows: worth knowing before a database is made or migrated for
/// it.
pub fn inspect(path: &Path, known_schema: i64, holdings: &Holdings) -> Result<Head, BackupError> {
    Reading::open(path, known_schema, holdings).map(|(_, head)| head)
}

/// Reads the file into an empty store, all or nothing.
pub async fn restore(
    store: &dyn Store,
    holdings: &Holdings,
    path: &Path,
    progress: Progress<'_>,
) -> Result<Contents, BackupError> {
    let migrations = store.migrations().await?;
    let known = migrations.iter().map(|migration| migration.version).max().unwrap_or(0);
    // The head first: a file that does not fit is refused before the database is touched.
    let (mut file, head) = Reading::open(path, known, holdings)?;
    let mut import = store.import(holdings).await?;
    let mut tables = Vec::new();
    loop {
        let chunk;
        (file, chunk) = next_chunk(file).await?;
        match chunk {
            Chunk::Rows { table, columns, rows } => {
                put(path, import.as_mut(), table, &columns, rows).await?;
                progress(file.rows, file.bytes);
            }
            Chunk::Table(held) => tables.push(held),
            Chunk::End => break,
        }
    }
    import.finish().await?;
    let taken_at = head
        .taken_at
        .parse()
        .map_err(|_| BackupError::broken(path, "its head says no time that can be read"))?;
    let (rows, bytes, digest) = (file.rows, file.bytes, file.digest);
    Ok(Contents { head, taken_at, tables, rows, bytes, digest })
}

/// An export writes no row that breaks a rule of the schema, so the file was changed.
async fn put(
    path: &Path,
    import: &mut dyn Import,
    table: &'static Table,
    columns: &[usize],
    rows: Vec<Row>,
) -> Result<(), BackupError> {
    import.put(table, columns, rows).await.map_err(|error| match error {
        StoreError::Constraint { .. } | StoreError::Other { .. } => {
            BackupError::broken(path, format!("a row of {} is refused: {}", table.name, error.chain()))
        }
        error => BackupError::Store(error),
    })
}

async fn next_chunk(mut file: Reading) -> Result<(Reading, Chunk), BackupError> {
    let path = file.path.clone();
    let done = tokio::task::spawn_blocking(move || file.next().map(|chunk| (file, chunk))).await;
    done.map_err(|error| panicked(&path, error))?
}

enum Chunk {
    Rows { table: &'static Table, columns: Vec<usize>, rows: Vec<Row> },
    Table(TableContents),
    End,
}

/// A file that is being read.
struct Reading {
    path: PathBuf,
    holdings: Holdings,
    file: BufReader<File>,
    hash: Sha256,
    open: Option<Open>,
    line: u64,
    rows: u64,
    bytes: u64,
    digest: String,
}

/// The table the next rows belong to.
struct Open {
    table: &'static Table,
    columns: Vec<usize>,
    kinds: Vec<Column>,
    sum: Sum,
}

/// A line that is not a row.
#[derive(Deserialize)]
#[serde(untagged)]
enum Mark {
    Head(TableHead),
    End(TableEnd),
    Tail(Tail),
}

impl Reading {
    fn open(path: &Path, known_schema: i64, holdings: &Holdings) -> Result<(Reading, Head), BackupError> {
        let file = File::open(path).map_err(BackupError::file("open", path))?;
        let mut reading = Reading {
            path: path.to_owned(),
            holdings: holdings.clone(),
            file: BufReader::with_capacity(BUFFER, file),
            hash: Sha256::new(),
            open: None,
            line: 0,
            rows: 0,
            bytes: 0,
            digest: String::new(),
        };
        let line = reading.read_line()?;
        let head = Head::read(&line, known_schema, holdings).map_err(|error| match error {
            HeadError::Broken(why) => BackupError::broken(path, why),
            HeadError::Unfit(why) => BackupError::Unfit { path: path.to_owned(), why },
        })?;
        reading.hash.update(&line);
        Ok((reading, head))
    }

    /// Includes the line end; a line without one means that the file was cut off.
    fn read_line(&mut self) -> Result<Vec<u8>, BackupError> {
        let mut line = Vec::new();
        let mut within = (&mut self.file).take(LONGEST_LINE);
        let read = within.read_until(b'\n', &mut line).map_err(BackupError::file("read", &self.path))?;
        self.line += 1;
        self.bytes += read as u64;
        if line.last() != Some(&b'\n') {
            return Err(self.broken("it ends in the middle: it was cut off or not written to its end"));
        }
        Ok(line)
    }

    fn broken(&self, why: impl std::fmt::Display) -> BackupError {
        BackupError::broken(&self.path, format!("line {}: {why}", self.line))
    }

    /// A batch of rows, or the next line that is not a row.
    fn next(&mut self) -> Result<Chunk, BackupError> {
        let mut gather = Gather::default();
        loop {
            let over = self.next_is_not_a_row()?;
            if let (true, Some(open)) = (over, &self.open)
                && let Some(rows) = gather.take()
            {
                return Ok(Chunk::Rows { table: open.table, columns: open.columns.clone(), rows });
            }
            let line = self.read_line()?;
            let text = &line[..line.len() - 1];
            if !text.starts_with(b"[") {
                return self.mark(&line);
            }
            self.hash.update(&line);
            let Some(open) = &mut self.open else { return Err(self.broken("a row of no table")) };
            open.sum.add(text);
            let row = read_row(text, &open.kinds);
            let (table, columns) = (open.table, open.columns.clone());
            let row = row.map_err(|why| self.broken(format!("a row of `{}`: {why}", table.name)))?;
            self.rows += 1;
            if let Some(rows) = gather.add(row) {
                return Ok(Chunk::Rows { table, columns, rows });
            }
        }
    }

    fn next_is_not_a_row(&mut self) -> Result<bool, BackupError> {
        let ahead = self.file.fill_buf().map_err(BackupError::file("read", &self.path))?;
        Ok(ahead.first() != Some(&b'['))
    }

    fn mark(&mut self, line: &[u8]) -> Result<Chunk, BackupError> {
        let mark = serde_json::from_slice(line).map_err(|_| self.broken("it is no line of a backup"))?;
        if !matches!(mark, Mark::Tail(_)) {
            self.hash.update(line);
        }
        match (mark, self.open.take()) {
            (Mark::Head(head), None) => {
                let (table, columns) = head.resolve(&self.holdings).map_err(|why| self.broken(why))?;
                let kinds = columns.iter().map(|at| table.columns[*at]).collect();
                self.open = Some(Open { table, columns, kinds, sum: Sum::default() });
                self.next()
            }
            (Mark::End(end), Some(open)) if end.end == open.table.name => {
                if (end.rows, end.digest) != (open.sum.rows, open.sum.hex()) {
                    return Err(self.broken(format!("the rows of `{}` are not those written", end.end)));
                }
                Ok(Chunk::Table(TableContents { table: open.table, columns: open.columns, sum: open.sum }))
            }
            (Mark::Tail(tail), None) => self.end(&tail).map(|()| Chunk::End),
            _ => Err(self.broken("it stands in the wrong place")),
        }
    }

    fn end(&mut self, tail: &Tail) -> Result<(), BackupError> {
        let hash = std::mem::take(&mut self.hash).finalize();
        self.digest = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        if self.digest != tail.sha256 || self.rows != tail.rows {
            return Err(self.broken("its SHA-256 is not that of what was written: it was changed since"));
        }
        let mut more = [0u8; 1];
        match self.file.read(&mut more).map_err(BackupError::file("read", &self.path))? {
            0 => Ok(()),
            _ => Err(self.broken("something stands behind its last line")),
        }
    }
}
