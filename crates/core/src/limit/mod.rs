//! Limits of queues, kinds and resources, each described once.
//!
//! Owns the table of limits ([`QUEUE_LIMITS`], [`KIND_LIMITS`]). Configuration, HTTP, command line, audit, backup and
//! `docs/limits.md` are derived from it or tested against it. Also owns the rule for which value is in force: the
//! **live** value if an operator set one, else the **configured** one ([`Layers`]). A store keeps both layers as JSON,
//! next to one column per limit with the value in force.
//!
//! To add a limit: add a row in `table.rs`, a field in the spec and the update, and a column in the schema of both
//! stores, then enforce it. Tests name the documentation and the view that lack it.

mod field;
mod layers;
mod limited;
mod live_overrides;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use layers::{LayerChange, Layers, LimitValues, LiveChanges};
pub use limited::{LimitRow, Limited};
pub use live_overrides::LiveOverride;
pub use table::{KIND_LIMITS, QUEUE_LIMITS};
pub use value::{LimitForm, LimitValue};

use crate::store::{CONFIGURED, Live};

pub const KEY_CONCURRENCY: &str = "key_concurrency";
pub const PERMITS: &str = "permits";

/// How "no limit" is written.
pub const NONE: &str = "none";

/// What a limit belongs to: the database row that stores its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOwner {
    Queue,
    Kind,
    /// Set through any queue or kind that uses the resource.
    Resource,
}

impl LimitOwner {
    pub fn limits(self) -> Vec<&'static Limit> {
        let queue = QUEUE_LIMITS.iter().map(|row| &row.limit);
        let kind = KIND_LIMITS.iter().map(|row| &row.limit);
        let mut limits: Vec<&'static Limit> = Vec::new();
        for limit in queue.chain(kind).filter(|limit| limit.owner == self) {
            if !limits.iter().any(|known| known.name == limit.name) {
                limits.push(limit);
            }
        }
        limits
    }

    /// Its database table.
    pub fn table(self) -> &'static str {
        match self {
            LimitOwner::Queue => "queues",
            LimitOwner::Kind => "kinds",
            LimitOwner::Resource => "resources",
        }
    }
}

/// Where a limit can be set to `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    Never,
    /// Only by an operator; in the configuration it is left out instead.
    Live,
    Always,
}

/// The description of one limit. Its name is also the configuration key, the HTTP field and, with dashes, the
/// command-line option.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub name: &'static str,
    pub owner: LimitOwner,
    /// The column with the value in force.
    pub column: &'static str,
    pub form: LimitForm,
    pub lift: Lift,
    /// The scope in which it is counted, such as `one process`.
    pub over: &'static str,
    /// For people; not always a value.
    pub default: &'static str,
    /// A valid value, if `default` is not one.
    pub example: Option<&'static str>,
    pub about: &'static str,
}

impl Limit {
    /// The command-line option without dashes: `concurrency-min`.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Parses an operator's input: a value, `none` if allowed, or `configured`. `Err` is the rule that was violated.
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

    /// For people; no limit is `none`.
    pub fn show(&self, value: Option<LimitValue>) -> String {
        value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
    }

    /// The field name in audit records, which have durations in milliseconds.
    pub fn audit_name(&self) -> String {
        match self.form {
            LimitForm::Duration => format!("{}_ms", self.name),
            LimitForm::Number { .. } | LimitForm::Rate => self.name.to_owned(),
        }
    }

    /// The field name in HTTP responses, which have durations in seconds.
    pub fn shown_name(&self) -> String {
        match self.form {
            LimitForm::Duration => format!("{}_seconds", self.name),
            LimitForm::Number { .. } | LimitForm::Rate => self.name.to_owned(),
        }
    }
}
