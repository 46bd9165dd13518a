//! Constructors for columns of backup tables.

use super::{Column, ColumnKind};

pub const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, serial: false }
}

/// Filled from a sequence.
pub const fn serial(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Int, serial: true }
}

pub const fn int(name: &'static str) -> Column {
    column(name, ColumnKind::Int)
}

pub const fn flag(name: &'static str) -> Column {
    column(name, ColumnKind::Flag)
}

pub const fn time(name: &'static str) -> Column {
    column(name, ColumnKind::Time)
}

pub const fn text(name: &'static str) -> Column {
    column(name, ColumnKind::Text)
}

pub const fn json(name: &'static str) -> Column {
    column(name, ColumnKind::Json)
}

pub const fn bytes(name: &'static str) -> Column {
    column(name, ColumnKind::Bytes)
}

/// Full precision.
pub const fn double(name: &'static str) -> Column {
    column(name, ColumnKind::Double)
}
