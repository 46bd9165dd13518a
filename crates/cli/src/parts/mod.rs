//! Parts that belong to the command, because they need its configuration or its access to a database.

pub(crate) mod backup;
