//! Why a verb did not do what it was asked, as a person reads it.
//!
//! Owns the shape of every error line and the exit code behind it. Never prints: `main` does, once.

use std::fmt::{Display, Write};
use std::io;

use windlass_core::StoreError;
use windlass_core::store::PackTrouble;
use windlass_engine::EngineError;
use windlass_engine::backup::BackupError;

use windlass_pack::verb::VerbError;

use crate::output::visible_lines;

#[derive(Debug)]
pub(crate) enum Failure {
    Told(Box<Told>),
    /// Whoever read our output went away; nothing is wrong.
    Pipe,
    /// Everything was said already; only the exit code is left.
    Silent(u8),
}

#[derive(Debug)]
pub(crate) struct Told {
    what: String,
    why: String,
    hint: Option<String>,
    code: u8,
}

impl Told {
    pub(crate) fn into_verb_error(self) -> VerbError {
        VerbError { what: self.what, why: self.why, hint: self.hint, code: self.code }
    }
}

impl Failure {
    /// `error: what: why`, exit code 1.
    pub(crate) fn new(what: impl Into<String>, why: impl Display) -> Failure {
        let told = Told { what: what.into(), why: why.to_string(), hint: None, code: 1 };
        Failure::Told(Box::new(told))
    }

    /// The same with exit code 2: the command line itself is wrong.
    pub(crate) fn usage(what: impl Into<String>, why: impl Display) -> Failure {
        let told = Told { what: what.into(), why: why.to_string(), hint: None, code: 2 };
        Failure::Told(Box::new(told))
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        if let Failure::Told(told) = &mut self {
            told.hint = Some(hint.into());
        }
        self
    }

    /// Exit code 2: what is wrong stands on the command line.
    pub(crate) fn misused(mut self) -> Failure {
        if let Failure::Told(told) = &mut self {
            told.code = 2;
        }
        self
    }

    /// Exit code 1: what is wrong does not stand on the command line itself.
    pub(crate) fn failed(mut self) -> Failure {
        if let Failure::Told(told) = &mut self {
            told.code = 1;
        }
        self
    }

    /// What to do about it, where nothing better is known.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Failure {
        match &self {
            Failure::Told(told) if told.hint.is_none() => self.hint(hint),
            _ => self,
        }
    }

    /// A change that was refused; a better hint stays.
    pub(crate) fn unchanged(self) -> Failure {
        match &self {
            Failure::Told(told) if told.hint.as_deref().is_none_or(|hint| hint == "nothing was written") => {
                self.hint("nothing was changed")
            }
            _ => self,
        }
    }

    /// On one line, without what was being done.
    pub(crate) fn why(&self) -> &str {
        match self {
            Failure::Told(told) => &told.why,
            Failure::Pipe | Failure::Silent(_) => "",
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Told(told) => told.code,
            Failure::Pipe => 0,
            Failure::Silent(code) => *code,
        }
    }

    /// The lines for stderr; empty when there is nothing to say.
    pub(crate) fn text(&self, colour: bool) -> String {
        let Failure::Told(told) = self else { return String::new() };
        let (red, bold, plain) = if colour { ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!(
            "{red}error:{plain} {}: {}\n",
            visible_lines(&told.what),
            visible_lines(told.why.trim_end())
        );
        if let Some(hint) = &told.hint {
            let _ = writeln!(text, "{bold}hint:{plain} {}", visible_lines(hint));
        }
        text
    }
}

/// Names what was being done when an error came up.
pub(crate) trait During<T> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure>;
}

impl<T> During<T> for Result<T, StoreError> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| of_store(what.into(), &error))
    }
}

impl<T> During<T> for Result<T, EngineError> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| match &error {
            EngineError::Store(store) => of_store(what.into(), store),
            EngineError::Invalid(invalid) => Failure::new(what, invalid),
        })
    }
}

impl<T> During<T> for Result<T, BackupError> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| match &error {
            BackupError::Store(store) => of_store(what.into(), store),
            BackupError::Exists { .. } => {
                Failure::new(what, &error).hint("name another file; nothing is overwritten")
            }
            BackupError::File { .. } => Failure::new(what, &error),
            BackupError::Unfit { .. } => Failure::new(what, &error)
                .hint("the copy is not to blame: this binary is another one than it is for"),
            BackupError::Broken { .. } | BackupError::Differs { .. } => Failure::new(what, &error)
                .hint("use another copy; `windlass backup list` shows those that were made"),
        })
    }
}

impl<T> During<T> for io::Result<T> {
    fn during(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::new(what, error),
        })
    }
}

pub(crate) fn of_store(what: String, error: &StoreError) -> Failure {
    let hint = match error {
        StoreError::Unavailable { .. } => "check that the server runs and that --database names it",
        StoreError::Full { .. } => "free space on the disk that holds the database",
        StoreError::Broken { .. } => "check the disk, then start again; `windlass doctor` tells more",
        StoreError::Busy { .. } => "see which process holds the database; `windlass doctor` tells more",
        StoreError::SchemaMissing | StoreError::SchemaOld { .. } => {
            "run `windlass migrate up` with the same --database"
        }
        StoreError::PackSchema { trouble: PackTrouble::Missing | PackTrouble::Old { .. }, .. } => {
            "run `windlass migrate up` with the same --database"
        }
        StoreError::PackSchema { .. } | StoreError::UnknownPack { .. } | StoreError::PacksLeft { .. } => {
            "use the windlass that made the pack's tables"
        }
        StoreError::SchemaNew { .. } => "use the windlass that migrated this database, or a newer one",
        StoreError::SchemaChanged { .. } => "use the windlass that migrated this database",
        StoreError::Corrupt { .. } => {
            "make a copy of the database before anything else; `windlass doctor` tells more"
        }
        StoreError::Open { why, .. } if why.contains("database.pooler") => {
            "set database.pooler = true in the configuration, or WINDLASS_DATABASE__POOLER=true"
        }
        StoreError::Open { .. } => {
            "check the path and its permissions, or name another database with --database"
        }
        StoreError::NotEmpty { .. } => {
            "restore into a new database: another file, or another schema (…?schema=NAME)"
        }
        StoreError::KindsMoved { .. } => "give each its old queue, or use a new name for it",
        StoreError::CurrencyChanged { .. } => "give it its old currency, or use a new name for the budget",
        _ => "`windlass doctor` looks for what is wrong",
    };
    Failure::new(what, error.chain()).hint(hint)
}
