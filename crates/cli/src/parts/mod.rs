//! Parts that belong to the command: they need its configuration or its ways to a database.

pub(crate) mod backup;
