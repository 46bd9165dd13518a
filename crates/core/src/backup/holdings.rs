//! What a binary backs up: the tables of the schema and those of its parts and packs.

use std::collections::BTreeMap;

use crate::StoreError;
use crate::pack::{PackMigration, PackStep};
use crate::store::PackTrouble;

use super::{TABLES, Table};

/// Assembled at startup. If the database has more than this, a backup is refused rather than incomplete.
#[derive(Clone, Debug)]
pub struct Holdings {
    /// Ordered so that foreign keys point backwards.
    pub tables: Vec<&'static Table>,
    pub packs: Vec<HeldPack>,
}

#[derive(Clone, Debug)]
pub struct HeldPack {
    pub name: String,
    pub steps: Vec<PackStep>,
}

impl HeldPack {
    /// Version of its tables.
    pub fn version(&self) -> i64 {
        self.steps.last().map_or(0, |step| step.version)
    }
}

impl Holdings {
    /// Without parts or packs.
    pub fn core() -> Holdings {
        Holdings { tables: TABLES.iter().collect(), packs: Vec::new() }
    }

    /// Adds a part whose tables belong to the schema.
    pub fn with_tables(mut self, tables: &'static [Table]) -> Holdings {
        self.tables.extend(tables);
        self
    }

    /// Adds a pack and its tables. A pack without tables to copy is added too.
    pub fn with_pack(
        mut self,
        name: impl Into<String>,
        steps: &[PackStep],
        tables: &'static [Table],
    ) -> Holdings {
        if !steps.is_empty() {
            self.packs.push(HeldPack { name: name.into(), steps: steps.to_vec() });
        }
        self.with_tables(tables)
    }

    pub fn table(&self, name: &str) -> Option<&'static Table> {
        self.tables.iter().copied().find(|table| table.name == name)
    }

    pub fn pack(&self, name: &str) -> Option<&HeldPack> {
        self.packs.iter().find(|pack| pack.name == name)
    }

    /// For the head of the file.
    pub fn versions(&self) -> BTreeMap<String, i64> {
        self.packs.iter().map(|pack| (pack.name.clone(), pack.version())).collect()
    }

    /// Checks that the database has the packs of this binary, in the same versions, and no others.
    pub fn check(&self, applied: &[PackMigration]) -> Result<(), StoreError> {
        if let Some(row) = applied.iter().find(|row| self.pack(&row.pack).is_none()) {
            return Err(StoreError::UnknownPack { pack: row.pack.clone() });
        }
        for pack in &self.packs {
            let rows = applied.iter().filter(|row| row.pack == pack.name);
            let found = rows.map(|row| row.version).max().unwrap_or(0);
            let needed = pack.version();
            let trouble = match found {
                0 => PackTrouble::Missing,
                found if found < needed => PackTrouble::Old { found, needed },
                found if found > needed => PackTrouble::New { found, known: needed },
                _ => continue,
            };
            return Err(StoreError::PackSchema { pack: pack.name.clone(), trouble });
        }
        Ok(())
    }

    /// Checks that every column of these packs is listed. A column that is not would be missing from every copy, and
    /// that would only show at a restore.
    pub fn check_whole<'n>(
        &self,
        columns: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Result<(), StoreError> {
        for (table, column) in columns {
            let owner = table.split_once('_').and_then(|(pack, _)| self.pack(pack));
            let listed = || self.table(table).is_some_and(|table| table.column(column).is_some());
            if let Some(pack) = owner.filter(|_| !listed()) {
                let what = format!("{table}.{column}");
                return Err(StoreError::NotHeld { pack: pack.name.clone(), what });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::pack::SqlText;

    fn holdings(versions: i64) -> Holdings {
        let text = SqlText::Same("x");
        let step = |version| PackStep { version, name: "s", up: text, down: text };
        Holdings::core().with_pack("guest", &(1..=versions).map(step).collect::<Vec<_>>(), &[])
    }

    fn applied(pack: &str, versions: i64) -> Vec<PackMigration> {
        let row = |version| PackMigration {
            pack: pack.to_owned(),
            version,
            name: "s".to_owned(),
            applied_at: Time(0),
        };
        (1..=versions).map(row).collect()
    }

    #[test]
    fn every_column_of_a_pack_must_be_listed() {
        use crate::backup::column::int;
        const LISTED: &[Table] = &[Table { name: "guest_a", columns: &[int("x")] }];
        let holdings = holdings(1).with_tables(LISTED);
        let error = |table, column| {
            let whole = holdings.check_whole([("guest_a", "x"), ("jobs", "own"), (table, column)]);
            whole.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(error("other_x", "y"), "", "a table of none of these packs");
        assert!(error("guest_a", "y").contains("`guest_a.y` of pack `guest`"));
        assert!(error("guest_b", "x").contains("`guest_b.x`"));
    }

    #[test]
    fn packs_must_have_the_same_version() {
        let error = |held: i64, rows: &[PackMigration]| {
            holdings(held).check(rows).map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(error(2, &applied("guest", 2)), "");
        assert!(error(2, &applied("guest", 1)).contains("version 1, this binary needs 2"));
        assert!(error(1, &applied("guest", 2)).contains("version 2, this binary knows up to 1"));
        assert!(error(1, &[]).contains("`guest` are missing"));
        let both = [applied("guest", 1), applied("other", 1)].concat();
        assert!(error(1, &both).contains("pack `other`, which this binary does not have"));
        assert_eq!(error(0, &[]), "", "a pack without tables has no version");
    }
}
