//! Errors of verbs, for people.
//!
//! Owns the format of error messages and exit codes. `main` prints them, once.

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
    Reported(Box<ErrorReport>),
    /// The reader of our output closed the pipe; not an error.
    Pipe,
    /// Everything was already printed; only the exit code is left.
    Silent(u8),
}

#[derive(Debug)]
pub(crate) struct ErrorReport {
    what: String,
    why: String,
    hint: Option<String>,
    code: u8,
}

impl ErrorReport {
    pub(crate) fn into_verb_error(self) -> VerbError {
        VerbError { what: self.what, why: self.why, hint: self.hint, code: self.code }
    }
}

impl Failure {
    /// `error: what: why`, exit code 1.
    pub(crate) fn new(what: impl Into<String>, why: impl Display) -> Failure {
        let report = ErrorReport { what: what.into(), why: why.to_string(), hint: None, code: 1 };
        Failure::Reported(Box::new(report))
    }

    /// With exit code 2: the command line is wrong.
    pub(crate) fn usage(what: impl Into<String>, why: impl Display) -> Failure {
        let report = ErrorReport { what: what.into(), why: why.to_string(), hint: None, code: 2 };
        Failure::Reported(Box::new(report))
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        if let Failure::Reported(report) = &mut self {
            report.hint = Some(hint.into());
        }
        self
    }

    /// Changes the exit code to 2: the problem is on the command line.
    pub(crate) fn misused(mut self) -> Failure {
        if let Failure::Reported(report) = &mut self {
            report.code = 2;
        }
        self
    }

    /// Changes the exit code to 1: the problem is not on the command line.
    pub(crate) fn failed(mut self) -> Failure {
        if let Failure::Reported(report) = &mut self {
            report.code = 1;
        }
        self
    }

    /// A hint, unless there is already one.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Failure {
        match &self {
            Failure::Reported(report) if report.hint.is_none() => self.hint(hint),
            _ => self,
        }
    }

    /// For a refused change; keeps a more specific hint.
    pub(crate) fn unchanged(self) -> Failure {
        match &self {
            Failure::Reported(report)
                if report.hint.as_deref().is_none_or(|hint| hint == "nothing was written") =>
            {
                self.hint("nothing was changed")
            }
            _ => self,
        }
    }

    /// The reason on one line, without what was being done.
    pub(crate) fn why(&self) -> &str {
        match self {
            Failure::Reported(report) => &report.why,
            Failure::Pipe | Failure::Silent(_) => "",
        }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Reported(report) => report.code,
            Failure::Pipe => 0,
            Failure::Silent(code) => *code,
        }
    }

    /// The text for stderr; may be empty.
    pub(crate) fn text(&self, colour: bool) -> String {
        let Failure::Reported(report) = self else { return String::new() };
        let (red, bold, plain) = if colour { ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!(
            "{red}error:{plain} {}: {}\n",
            visible_lines(&report.what),
            visible_lines(report.why.trim_end())
        );
        if let Some(hint) = &report.hint {
            let _ = writeln!(text, "{bold}hint:{plain} {}", visible_lines(hint));
        }
        text
    }
}

/// Adds what was being done to an error.
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
        StoreError::Broken { .. } => "check the disk, then start again; `windlass doctor` shows details",
        StoreError::Busy { .. } => "see which process holds the database; `windlass doctor` shows details",
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
            "make a copy of the database before anything else; `windlass doctor` shows details"
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
