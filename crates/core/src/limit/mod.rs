//! Limits that an operator can set live: one description each.
//!
//! Owns the table of limits ([`QUEUE_LIMITS`], [`KIND_LIMITS`]), which configuration, HTTP, command line, audit, backup
//! and `docs/limits.md` follow, and the rule what is in force: the **live** value where an operator set one, else
//! the **configured** one ([`Layers`]). Pure; a store keeps both layers beside the columns that hold what is in force.
//!
//! To add a limit: a row in `table.rs`, a field in the spec and in the update, a column in the schema of both stores,
//! and the code that keeps to it. Tests name the pages and the view that lack it.

mod field;
mod layers;
mod limited;
mod overruled;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use layers::{LayerChange, Layers, LimitValues, LiveChanges};
pub use limited::{LimitRow, Limited};
pub use overruled::Overruled;
pub use table::{KIND_LIMITS, QUEUE_LIMITS};
pub use value::{LimitForm, LimitValue};

use crate::store::{CONFIGURED, Live};

pub const KEY_CONCURRENCY: &str = "key_concurrency";
pub const PERMITS: &str = "permits";

/// The word for a limit that is lifted.
pub const NONE: &str = "none";

/// What a limit is of: whose row keeps its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Queue,
    Kind,
    /// Set through any queue or kind that names the resource.
    Resource,
}

impl Of {
    pub fn limits(self) -> Vec<&'static Limit> {
        let queue = QUEUE_LIMITS.iter().map(|row| &row.limit);
        let kind = KIND_LIMITS.iter().map(|row| &row.limit);
        let mut limits: Vec<&'static Limit> = Vec::new();
        for limit in queue.chain(kind).filter(|limit| limit.of == self) {
            if !limits.iter().any(|known| known.name == limit.name) {
                limits.push(limit);
            }
        }
        limits
    }

    /// The table of the schema.
    pub fn table(self) -> &'static str {
        match self {
            Of::Queue => "queues",
            Of::Kind => "kinds",
            Of::Resource => "resources",
        }
    }
}

/// Where `none` lifts a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    Never,
    /// An operator can; a configuration simply does not set it.
    Live,
    Always,
}

/// The description of one limit. Its name is that of a configuration key, a field over HTTP and, with dashes, an option.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub name: &'static str,
    pub of: Of,
    /// Holds what is in force.
    pub column: &'static str,
    pub form: LimitForm,
    pub lift: Lift,
    /// What it is counted over: `one process`.
    pub over: &'static str,
    /// As a person would write it.
    pub default: &'static str,
    /// A value that can be used as it stands, where the default is words.
    pub example: Option<&'static str>,
    pub about: &'static str,
}

impl Limit {
    /// `concurrency-min`.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// As an operator writes it: a value, `none` where that is allowed, or `configured`. `Err` is the broken rule.
    pub fn read_live(&self, text: &str) -> Result<Live<Option<LimitValue>>, String> {
        match text {
            CONFIGURED => Ok(Live::Configured),
            NONE if self.lift != Lift::Never => Ok(Live::Set(None)),
            text => self.form.read(text).map(|value| Live::Set(Some(value))).map_err(|rule| {
                let none = match (self.form, self.lift) {
                    (LimitForm::Number { .. }, Lift::Live | Lift::Always) => ", none",
                    (LimitForm::Duration, Lift::Live | Lift::Always) => ", or none",
                    _ => "",
                };
                format!("{rule}{none}, or {CONFIGURED}")
            }),
        }
    }

    /// For people; nothing is `none`.
    pub fn show(&self, value: Option<LimitValue>) -> String {
        value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
    }

    /// The name under which the audit has it: a duration is told in milliseconds.
    pub fn audit_name(&self) -> String {
        match self.form {
            LimitForm::Duration => format!("{}_ms", self.name),
            LimitForm::Number { .. } | LimitForm::Rate => self.name.to_owned(),
        }
    }

    /// The name under which `GET` shows it: a duration is shown in seconds.
    pub fn shown_name(&self) -> String {
        match self.form {
            LimitForm::Duration => format!("{}_seconds", self.name),
            LimitForm::Number { .. } | LimitForm::Rate => self.name.to_owned(),
        }
    }
}
