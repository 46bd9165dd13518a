//! The entity tables that a backup contains.

use crate::backup::Table;
use crate::backup::column::{bytes, int, json, serial, text, time};

/// Ordered so that foreign keys point backwards.
pub const TABLES: &[Table] = &[
    Table { name: "types", columns: &[serial("id"), text("name"), json("spec"), time("updated_at")] },
    Table {
        name: "entities",
        columns: &[
            serial("no"),
            int("type"),
            text("id"),
            int("version"),
            json("fields"),
            bytes("hash"),
            int("state"),
            int("waiting"),
            int("indexed_version"),
            int("job_id"),
            text("error"),
            time("created_at"),
            time("updated_at"),
        ],
    },
    Table { name: "vectors", columns: &[int("entity"), text("space"), bytes("hash"), bytes("vector")] },
];
