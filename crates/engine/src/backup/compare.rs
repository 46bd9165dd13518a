//! Verifies that a copy restores to what it holds.

use std::path::Path;

use windlass_core::Store;
use windlass_core::backup::line::write_row;
use windlass_core::backup::{Holdings, Sum};

use super::read::{Contents, TableContents};
use super::{BackupError, Progress, restore};

/// Restores the file into `scratch`, which has to be empty. Compares for each table the count and the digest of its
/// rows with those in the file.
pub async fn verify(
    scratch: &dyn Store,
    holdings: &Holdings,
    path: &Path,
    progress: Progress<'_>,
) -> Result<Contents, BackupError> {
    let contents = restore(scratch, holdings, path, progress).await?;
    let mut export = scratch.export(holdings).await?;
    let mut found: Vec<Sum> = vec![Sum::default(); contents.tables.len()];
    let mut line = Vec::new();
    while let Some(batch) = export.next().await? {
        let at = contents.tables.iter().position(|of| of.table == batch.table);
        let Some((of_file, sum)) = at.map(|at| (&contents.tables[at], &mut found[at])) else {
            return Err(differs(path, format!("`{}` has rows that the file has not", batch.table.name)));
        };
        for row in &batch.rows {
            line.clear();
            write_row(&mut line, row, of_file.columns.iter().copied());
            sum.add(&line);
        }
    }
    for (contents, sum) in contents.tables.iter().zip(&found) {
        let TableContents { table, sum: written, .. } = contents;
        if sum.rows != written.rows {
            let why = format!("`{}` has {} rows instead of {}", table.name, sum.rows, written.rows);
            return Err(differs(path, why));
        }
        if sum != written {
            return Err(differs(path, format!("the rows of `{}` came back changed", table.name)));
        }
    }
    Ok(contents)
}

fn differs(path: &Path, why: String) -> BackupError {
    BackupError::Differs { path: path.to_owned(), why }
}
