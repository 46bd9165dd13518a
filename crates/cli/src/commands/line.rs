//! Parses one line of JSON input.

use windlass_pack::fields::{Fields, Unreadable};

/// Errors do not include the line number.
pub(super) fn fields(text: &[u8]) -> Result<Fields<'_>, String> {
    Fields::read(text, "").map_err(|error| match error {
        Unreadable::Syntax(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            format!("column {}: {message}", error.column())
        }
        Unreadable::NotAnObject(sort) => format!("must be an object, not {sort}"),
    })
}
