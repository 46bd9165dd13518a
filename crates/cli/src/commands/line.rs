//! One line of JSON that somebody handed in, before its fields are looked at.

use windlass_pack::fields::{Fields, Unreadable};

/// What is wrong with a line is said without its number.
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
