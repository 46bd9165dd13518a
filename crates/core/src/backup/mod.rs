//! The contents and the file format of backups.
//!
//! Owns the list of the schema's tables with the type of each column ([`TABLES`]), what parts and packs add to it
//! ([`Holdings`]), values that both databases can read and write ([`Cell`]), the lines of the file ([`line`]), and the
//! digest by which two databases are compared. Does no IO: the stores supply rows, the engine supplies bytes.

pub mod column;
mod holdings;
pub mod line;
mod sum;
mod tables;

pub use holdings::{HeldPack, Holdings};

pub use sum::Sum;
pub use tables::{ABOVE_NOW, COLUMNS_LEFT_OUT, TABLES, TABLES_LEFT_OUT};

/// The version this binary writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// A table in the backup. The name has no schema or prefix.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
    /// Filled from a sequence, which a restore must move above the restored numbers.
    pub serial: bool,
}

/// The type of a column, independent of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Int,
    /// Single precision.
    Real,
    /// Double precision.
    Double,
    Flag,
    Time,
    Text,
    /// JSON text, byte for byte.
    Json,
    Bytes,
    Ints,
    Texts,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Real(f32),
    Double(f64),
    Flag(bool),
    /// Microseconds since 1970.
    Time(i64),
    /// Of [`ColumnKind::Text`] and [`ColumnKind::Json`].
    Text(String),
    Bytes(Vec<u8>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Cell {
    /// Approximate memory use, to bound batches.
    pub fn weight(&self) -> usize {
        let held = match self {
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
            Cell::Ints(ints) => ints.len() * size_of::<i64>(),
            Cell::Texts(texts) => texts.iter().map(|text| text.len() + size_of::<String>()).sum(),
            _ => 0,
        };
        size_of::<Cell>() + held
    }
}

/// One cell per column of the table, in the order of the list.
pub type Row = Vec<Cell>;

#[derive(Clone, Debug)]
pub struct Batch {
    pub table: &'static Table,
    pub rows: Vec<Row>,
}

/// Collects rows into batches, bounded by count and by size.
#[derive(Debug, Default)]
pub struct Gather {
    rows: Vec<Row>,
    weight: usize,
}

const BATCH_ROWS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

impl Gather {
    /// Returns a batch once it is full.
    pub fn add(&mut self, row: Row) -> Option<Vec<Row>> {
        self.weight += row.iter().map(Cell::weight).sum::<usize>();
        self.rows.push(row);
        let full = self.rows.len() >= BATCH_ROWS || self.weight >= BATCH_BYTES;
        full.then(|| self.take()).flatten()
    }

    /// The remaining rows, if any.
    pub fn take(&mut self) -> Option<Vec<Row>> {
        self.weight = 0;
        let rows = std::mem::take(&mut self.rows);
        (!rows.is_empty()).then_some(rows)
    }
}

/// The largest token in these rows, or 0.
pub fn largest_token(table: &Table, columns: &[usize], rows: &[Row]) -> i64 {
    let Some(at) = columns.iter().position(|at| table.columns[*at].name == "token") else { return 0 };
    let token = |row: &Row| match row.get(at) {
        Some(Cell::Int(token)) => *token,
        _ => 0,
    };
    rows.iter().map(token).max().unwrap_or(0)
}

impl Table {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed_once() {
        let all = Holdings::core().with_tables(crate::entity::TABLES);
        for (at, table) in all.tables.iter().enumerate() {
            assert!(all.tables[at + 1..].iter().all(|other| other.name != table.name), "{}", table.name);
            assert!(TABLES_LEFT_OUT.iter().all(|(left, _)| *left != table.name), "{}", table.name);
            for (at, column) in table.columns.iter().enumerate() {
                let again = table.columns[at + 1..].iter().any(|other| other.name == column.name);
                assert!(!again, "{}.{}", table.name, column.name);
            }
        }
    }

    #[test]
    fn large_rows_make_small_batches() {
        let mut gather = Gather::default();
        assert!(gather.add(vec![Cell::Bytes(vec![0; 100])]).is_none());
        let full = gather.add(vec![Cell::Bytes(vec![0; BATCH_BYTES])]);
        assert_eq!(full.map(|rows| rows.len()), Some(2));
        assert!(gather.take().is_none());
    }
}
