//! Numbered migrations of tables: of the schema, or of one pack.
//!
//! Decides which steps are applied, missing, newer than this binary, or different from its own. The stores run steps
//! and record them.

use sha2::{Digest, Sha256};

use crate::store::{Migration, PackTrouble};
use crate::{StoreError, Time};

/// One migration and its reverse.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub version: i64,
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

impl Step {
    /// Of the `up` text, in hex. Only that determines the tables.
    pub fn checksum(&self) -> String {
        hex(&Sha256::digest(self.up))
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A step recorded in the database.
#[derive(Clone, Debug)]
pub struct Applied {
    pub version: i64,
    pub name: String,
    pub checksum: String,
    pub at: Time,
}

/// All steps of the schema or of one pack, oldest first.
#[derive(Clone, Debug)]
pub struct Steps {
    /// `None` for the schema itself.
    pub pack: Option<String>,
    pub steps: Vec<Step>,
}

impl Steps {
    pub fn newest(&self) -> i64 {
        self.steps.last().map_or(0, |step| step.version)
    }

    /// For error messages.
    pub fn name_of(&self, step: &Step) -> String {
        match &self.pack {
            None => format!("step {}", step.version),
            Some(pack) => format!("step {} of pack `{pack}`", step.version),
        }
    }

    /// Checks that no applied step differs from this binary's or is newer.
    pub fn known(&self, applied: &[Applied]) -> Result<(), StoreError> {
        for row in applied {
            match self.steps.iter().find(|step| step.version == row.version) {
                None => {
                    return Err(self.trouble(PackTrouble::New { found: row.version, known: self.newest() }));
                }
                Some(step) if step.checksum() != row.checksum => {
                    return Err(self.trouble(PackTrouble::Changed { version: row.version }));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that all steps are applied, and [`Steps::known`].
    pub fn check(&self, applied: &[Applied]) -> Result<(), StoreError> {
        self.known(applied)?;
        match (applied.last(), self.newest()) {
            (None, needed) if needed > 0 => Err(self.trouble(PackTrouble::Missing)),
            (Some(last), needed) if last.version < needed => {
                Err(self.trouble(PackTrouble::Old { found: last.version, needed }))
            }
            _ => Ok(()),
        }
    }

    fn trouble(&self, trouble: PackTrouble) -> StoreError {
        match (&self.pack, trouble) {
            (Some(pack), trouble) => StoreError::PackSchema { pack: pack.clone(), trouble },
            (None, PackTrouble::New { found, known }) => StoreError::SchemaNew { found, known },
            (None, PackTrouble::Old { found, needed }) => StoreError::SchemaOld { found, needed },
            (None, PackTrouble::Changed { version }) => StoreError::SchemaChanged { version },
            (None, PackTrouble::Missing) => StoreError::SchemaMissing,
        }
    }

    /// All steps with the time they were applied, followed by those of a newer binary.
    pub fn list(&self, applied: &[Applied]) -> Vec<Migration> {
        let at = |version| applied.iter().find(|row| row.version == version).map(|row| row.at);
        let known = self.steps.iter().map(|step| Migration {
            version: step.version,
            name: step.name.to_owned(),
            applied_at: at(step.version),
        });
        let newer = applied.iter().filter(|row| row.version > self.newest()).map(|row| Migration {
            version: row.version,
            name: row.name.clone(),
            applied_at: Some(row.at),
        });
        known.chain(newer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(pack: Option<&str>, count: i64) -> Steps {
        let step = |version| Step { version, name: "s", up: "up", down: "down" };
        Steps { pack: pack.map(str::to_owned), steps: (1..=count).map(step).collect() }
    }

    fn applied(steps: &Steps) -> Vec<Applied> {
        let row = |step: &Step| Applied {
            version: step.version,
            name: step.name.to_owned(),
            checksum: step.checksum(),
            at: Time(step.version),
        };
        steps.steps.iter().map(row).collect()
    }

    #[test]
    fn each_mismatch_has_its_own_error() {
        for pack in [None, Some("guest")] {
            let message = |known: i64, applied: &[Applied]| {
                let error = steps(pack, known).check(applied).unwrap_err();
                assert_eq!(matches!(error, StoreError::PackSchema { .. }), pack.is_some(), "{error:?}");
                let message = error.to_string();
                assert_eq!(message.contains("pack `guest`"), pack.is_some(), "{message}");
                message
            };
            let two = applied(&steps(pack, 2));
            assert!(steps(pack, 2).check(&two).is_ok());
            assert!(message(3, &two).contains("version 2, this binary needs 3; run `windlass migrate up`"));
            assert!(message(1, &two).contains("version 2, this binary knows up to 1; use a newer windlass"));
            assert!(message(1, &[]).contains("run `windlass migrate up`"));
            let mut changed = two.clone();
            changed[0].checksum = "other".to_owned();
            assert!(message(2, &changed).contains("changed after release"));
            assert!(steps(pack, 3).known(&two).is_ok(), "older is no obstacle to going up");
        }
        assert!(steps(Some("bare"), 0).check(&[]).is_ok(), "a pack without tables needs none");
    }

    #[test]
    fn steps_of_a_newer_binary_are_shown() {
        let list = steps(None, 2).list(&applied(&steps(None, 3))[1..]);
        let seen: Vec<_> = list.iter().map(|m| (m.version, m.applied_at)).collect();
        assert_eq!(seen, [(1, None), (2, Some(Time(2))), (3, Some(Time(3)))]);
    }
}
