//! The lines of a backup file.
//!
//! The file starts with a head. Each table has its own head, one JSON array per row, and an end with count and digest.
//! The last line has the SHA-256 of everything above it. A truncated file lacks that line, and a modified one does not
//! match it.
//!
//! Each table's head names its columns, so a newer binary can read older files: a missing column takes its default.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cell, Column, ColumnKind, FORMAT, Holdings, Row, Sum, Table};

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub windlass_backup: u32,
    /// The schema version of the rows.
    pub schema: i64,
    /// `sqlite` or `postgres`.
    pub source: String,
    pub taken_at: String,
    /// Packs with tables in the file, and the version of those tables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packs: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHead {
    pub table: String,
    pub columns: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEnd {
    pub end: String,
    pub rows: u64,
    pub digest: String,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    pub rows: u64,
    /// Of all bytes above.
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// Not a backup.
    Broken(String),
    /// A backup that this binary cannot read.
    Unfit(String),
}

impl Head {
    pub fn read(line: &[u8], known_schema: i64, holdings: &Holdings) -> Result<Head, HeadError> {
        #[derive(Deserialize)]
        struct Probe {
            windlass_backup: u32,
        }
        let probe: Probe = serde_json::from_slice(line)
            .map_err(|_| HeadError::Broken("it does not begin like a backup of windlass".to_owned()))?;
        if probe.windlass_backup > FORMAT {
            let format = probe.windlass_backup;
            return Err(HeadError::Unfit(format!(
                "it has format {format}, this binary knows up to {FORMAT}; use a newer windlass"
            )));
        }
        let head: Head =
            serde_json::from_slice(line).map_err(|error| HeadError::Broken(format!("its head: {error}")))?;
        if head.schema > known_schema {
            return Err(HeadError::Unfit(format!(
                "it is of schema {}, this binary knows up to {known_schema}; use a newer windlass",
                head.schema
            )));
        }
        let fit = head.packs.iter().try_for_each(|(pack, version)| fits(pack, *version, holdings));
        fit.map_err(HeadError::Unfit)?;
        Ok(head)
    }
}

/// A pack's rows are restored only into tables of the same version. A missing column cannot take its default as in the
/// schema's own tables: only the pack's migration knows how to convert its rows.
fn fits(pack: &str, version: i64, holdings: &Holdings) -> Result<(), String> {
    let Some(held) = holdings.pack(pack) else {
        return Err(format!(
            "it has tables of pack `{pack}`, which this binary does not have; use one that has it"
        ));
    };
    let known = held.version();
    match version {
        version if version > known => Err(format!(
            "its tables of pack `{pack}` are of version {version}, this binary knows up to {known}; use a newer windlass"
        )),
        version if version < known => Err(format!(
            "its tables of pack `{pack}` are of version {version}, those of this binary of version {known}; restore it with \
             the windlass that wrote it, then run `windlass migrate up` with this one"
        )),
        _ => Ok(()),
    }
}

impl TableHead {
    pub fn of(table: &Table) -> TableHead {
        let columns = table.columns.iter().map(|column| column.name.to_owned()).collect();
        TableHead { table: table.name.to_owned(), columns }
    }

    /// The table, and the indexes of the columns that the file has, in the file's order.
    pub fn resolve(&self, holdings: &Holdings) -> Result<(&'static Table, Vec<usize>), String> {
        let known = holdings.table(&self.table);
        let known = known.ok_or_else(|| format!("there is no table `{}`", self.table))?;
        let columns = self
            .columns
            .iter()
            .map(|name| known.column(name).ok_or_else(|| format!("`{}` has no column `{name}`", self.table)));
        Ok((known, columns.collect::<Result<_, _>>()?))
    }
}

impl TableEnd {
    pub fn of(table: &Table, sum: &Sum) -> TableEnd {
        TableEnd { end: table.name.to_owned(), rows: sum.rows, digest: sum.hex() }
    }
}

/// Appends a row without a newline. `columns` selects cells of the row.
pub fn write_row(out: &mut Vec<u8>, row: &Row, columns: impl Iterator<Item = usize>) {
    out.push(b'[');
    for (n, at) in columns.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write_cell(out, row.get(at).unwrap_or(&Cell::Null));
    }
    out.push(b']');
}

fn write_cell(out: &mut Vec<u8>, cell: &Cell) {
    // Writing to a Vec cannot fail, and all of these values are valid JSON.
    let _ = match cell {
        Cell::Null => out.write_all(b"null"),
        Cell::Int(number) | Cell::Time(number) => write!(out, "{number}"),
        Cell::Real(number) => write!(out, "{number}"),
        // A string, because some JSON readers lose digits and JSON has no infinity. SQLite does not store the sign of
        // zero.
        Cell::Double(number) => write!(out, "\"{}\"", if *number == 0.0 { 0.0 } else { *number }),
        Cell::Flag(flag) => write!(out, "{flag}"),
        Cell::Text(text) => serde_json::to_writer(out, text).map_err(Into::into),
        Cell::Bytes(bytes) => write!(out, "\"{}\"", BASE64.encode(bytes)),
        Cell::Ints(ints) => serde_json::to_writer(out, ints).map_err(Into::into),
        Cell::Texts(texts) => serde_json::to_writer(out, texts).map_err(Into::into),
    };
}

/// A row with one cell per entry of `columns`.
pub fn read_row(line: &[u8], columns: &[Column]) -> Result<Row, String> {
    let values: Vec<Value> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if values.len() != columns.len() {
        return Err(format!("{} values for {} columns", values.len(), columns.len()));
    }
    let cells = values.into_iter().zip(columns).map(|(value, column)| {
        read_cell(value, column.kind).ok_or_else(|| format!("`{}` is not what it should be", column.name))
    });
    cells.collect()
}

fn read_cell(value: Value, kind: ColumnKind) -> Option<Cell> {
    if value.is_null() {
        return Some(Cell::Null);
    }
    Some(match (kind, value) {
        (ColumnKind::Int, value) => Cell::Int(value.as_i64()?),
        (ColumnKind::Time, value) => Cell::Time(value.as_i64()?),
        // The text has enough digits to restore the same f32.
        (ColumnKind::Real, value) => Cell::Real(value.as_f64()? as f32),
        (ColumnKind::Double, Value::String(text)) => Cell::Double(text.parse().ok()?),
        (ColumnKind::Flag, value) => Cell::Flag(value.as_bool()?),
        (ColumnKind::Text | ColumnKind::Json, Value::String(text)) => Cell::Text(text),
        (ColumnKind::Bytes, Value::String(text)) => Cell::Bytes(BASE64.decode(text).ok()?),
        (ColumnKind::Ints, Value::Array(items)) => {
            Cell::Ints(items.iter().map(Value::as_i64).collect::<Option<_>>()?)
        }
        (ColumnKind::Texts, Value::Array(items)) => {
            Cell::Texts(items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        use ColumnKind::*;
        let column = |kind| Column { name: "c", kind, serial: false };
        [Int, Real, Double, Flag, Time, Text, Json, Bytes, Ints, Texts].map(column).to_vec()
    }

    #[test]
    fn every_value_survives_a_round_trip() {
        let full = vec![
            Cell::Int(i64::MIN),
            Cell::Real(12.3),
            Cell::Double(f64::MAX),
            Cell::Flag(true),
            Cell::Time(i64::MAX),
            Cell::Text("a\"\\\n\u{0}\u{202e}é".to_owned()),
            Cell::Text("{\"b\":1, \"a\": 2}".to_owned()),
            Cell::Bytes((0..=255).collect()),
            Cell::Ints(vec![1, -2, i64::MAX]),
            Cell::Texts(vec![String::new(), "x,y".to_owned()]),
        ];
        for row in [full, vec![Cell::Null; 10]] {
            let mut line = Vec::new();
            write_row(&mut line, &row, 0..row.len());
            assert!(!line.contains(&b'\n'), "{}", String::from_utf8_lossy(&line));
            assert_eq!(read_row(&line, &columns()).unwrap(), row);
        }
    }

    #[test]
    fn doubles_keep_every_digit() {
        for number in [0.1 + 0.2, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, -1e300, 2.0_f64.powi(53) + 2.0] {
            let mut line = Vec::new();
            write_row(&mut line, &vec![Cell::Double(number)], 0..1);
            assert_eq!(read_row(&line, &columns()[2..3]).unwrap(), [Cell::Double(number)]);
        }
        let mut line = Vec::new();
        write_row(&mut line, &vec![Cell::Double(-0.0)], 0..1);
        assert_eq!(line, b"[\"0\"]");
    }

    #[test]
    fn values_of_the_wrong_type_are_refused() {
        let one = [Column { name: "n", kind: ColumnKind::Int, serial: false }];
        for bad in ["[]", "[1,2]", "[\"1\"]", "[1.5]", "{}", "[1", "[9223372036854775808]"] {
            assert!(read_row(bad.as_bytes(), &one).is_err(), "{bad}");
        }
    }

    #[test]
    fn newer_files_and_broken_files_give_different_errors() {
        let head = Head {
            windlass_backup: FORMAT,
            schema: 5,
            source: "sqlite".to_owned(),
            taken_at: "2026-11-15T20:10:56Z".to_owned(),
            packs: BTreeMap::new(),
        };
        let none = Holdings::core();
        let text = serde_json::to_vec(&head).unwrap();
        assert_eq!(Head::read(&text, 5, &none), Ok(head));
        let unfit = |text: &[u8], schema, part: &str| match Head::read(text, schema, &none) {
            Err(HeadError::Unfit(why)) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        };
        unfit(&text, 4, "schema 5");
        unfit(br#"{"windlass_backup": 9}"#, 5, "format 9");
        match Head::read(b"PK\x03\x04", 5, &none) {
            Err(HeadError::Broken(why)) => assert!(why.contains("does not begin"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn packs_must_match_this_binary() {
        let text = crate::pack::SqlText::Same("x");
        let step = |version| crate::pack::PackStep { version, name: "s", up: text, down: text };
        let head =
            br#"{"windlass_backup":1,"schema":5,"source":"sqlite","taken_at":"x","packs":{"guest":2}}"#;
        let packs = |steps: i64| {
            let steps: Vec<_> = (1..=steps).map(step).collect();
            let read = Head::read(head, 5, &Holdings::core().with_pack("guest", &steps, &[]));
            read.map(|head| head.packs).map_err(|error| format!("{error:?}"))
        };
        assert_eq!(packs(2).unwrap()["guest"], 2);
        assert!(packs(0).unwrap_err().contains("pack `guest`, which this binary does not have"));
        assert!(packs(1).unwrap_err().contains("use a newer windlass"));
        assert!(packs(3).unwrap_err().contains("the windlass that wrote it"));
    }
}
