//! The one list of what a backup holds. A test of each store compares it with the schema and names what is missing.

use super::{Column, ColumnKind, Table};

const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, serial: false }
}

const fn serial(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Int, serial: true }
}

const fn int(name: &'static str) -> Column {
    column(name, ColumnKind::Int)
}

const fn flag(name: &'static str) -> Column {
    column(name, ColumnKind::Flag)
}

const fn time(name: &'static str) -> Column {
    column(name, ColumnKind::Time)
}

const fn text(name: &'static str) -> Column {
    column(name, ColumnKind::Text)
}

const fn json(name: &'static str) -> Column {
    column(name, ColumnKind::Json)
}

const fn bytes(name: &'static str) -> Column {
    column(name, ColumnKind::Bytes)
}

/// Whoever refers to another table stands behind it.
pub const TABLES: &[Table] = &[
    Table {
        name: "queues",
        columns: &[
            serial("id"),
            text("name"),
            int("priority"),
            int("concurrency"),
            int("cadence_us"),
            int("sla_us"),
            text("owner"),
            text("colour"),
            int("depth_cap"),
            flag("paused"),
            int("live_concurrency"),
            int("live_depth_cap"),
            flag("live_depth_cap_set"),
            int("global_concurrency"),
            int("live_global_concurrency"),
            flag("live_global_concurrency_set"),
            text("resource"),
            int("concurrency_min"),
            int("concurrency_max"),
            int("live_concurrency_min"),
            int("live_concurrency_max"),
            int("boost_after_us"),
            int("live_boost_after_us"),
        ],
    },
    Table {
        name: "kinds",
        columns: &[
            serial("id"),
            text("name"),
            int("queue"),
            int("priority"),
            int("max_attempts"),
            int("timeout_us"),
            int("backoff_base_us"),
            int("backoff_cap_us"),
            text("description"),
            int("key_concurrency"),
            int("configured_key_concurrency"),
            int("live_key_concurrency"),
            text("rate"),
            text("live_rate"),
            text("resource"),
        ],
    },
    Table { name: "resources", columns: &[text("name"), int("permits"), int("live_permits")] },
    Table { name: "rates", columns: &[int("kind"), time("given_until")] },
    Table {
        name: "jobs",
        columns: &[
            int("id"),
            int("kind"),
            int("queue"),
            int("priority"),
            int("max_attempts"),
            int("payload_key_id"),
            int("waiting_on"),
            time("created_at"),
            int("timeout_us"),
            int("parent_id"),
            bytes("payload"),
            text("unique_key"),
            text("concurrency_key"),
            column("tags", ColumnKind::Texts),
            text("entity_type"),
            text("entity_id"),
            text("tenant"),
            int("lane"),
        ],
    },
    Table {
        name: "ready",
        columns: &[
            int("queue"),
            int("priority"),
            time("run_at"),
            int("id"),
            int("kind"),
            int("attempt"),
            int("suspect"),
            text("unique_key"),
            int("lane"),
        ],
    },
    Table { name: "looks", columns: &[int("kind"), time("at"), int("lane"), flag("freed")] },
    Table {
        name: "finished",
        columns: &[
            int("id"),
            int("state"),
            int("attempt"),
            int("token"),
            int("worker"),
            time("started_at"),
            time("finished_at"),
            bytes("result"),
            text("error"),
        ],
    },
    Table {
        name: "attempts",
        columns: &[
            int("id"),
            int("token"),
            int("attempt"),
            int("worker"),
            time("started_at"),
            time("ended_at"),
            text("outcome"),
            text("error"),
        ],
    },
    Table {
        name: "logs",
        columns: &[serial("seq"), int("job_id"), int("attempt"), time("at"), text("line")],
    },
    Table {
        name: "progress",
        columns: &[int("job_id"), column("percent", ColumnKind::Real), text("message"), time("at")],
    },
    Table { name: "unique_windows", columns: &[text("key"), int("job_id"), time("until")] },
    Table { name: "cancels", columns: &[int("job_id"), time("requested_at")] },
    Table {
        name: "workflows",
        columns: &[
            int("id"),
            text("name"),
            int("on_failure"),
            int("state"),
            time("created_at"),
            time("ended_at"),
        ],
    },
    Table {
        name: "workflow_jobs",
        columns: &[
            int("workflow"),
            int("no"),
            int("job_id"),
            text("name"),
            int("state"),
            flag("goes_on"),
            column("parents", ColumnKind::Ints),
            column("children", ColumnKind::Ints),
            int("undoes"),
            time("run_at"),
            int("delay_us"),
            text("undo"),
            bytes("undo_payload"),
        ],
    },
    Table {
        name: "idempotency",
        columns: &[text("key"), int("job_id"), bytes("fingerprint"), time("created_at"), text("answer")],
    },
    Table {
        name: "rollups",
        columns: &[
            time("minute"),
            int("queue"),
            int("kind"),
            int("completed"),
            int("retried"),
            int("dead"),
            int("run_us"),
            column("latency", ColumnKind::Ints),
        ],
    },
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
    Table {
        name: "schedules",
        columns: &[
            text("name"),
            json("spec"),
            bytes("payload"),
            int("revision"),
            flag("paused"),
            time("last_tick"),
            time("next_at"),
            int("missed"),
            time("created_at"),
            time("updated_at"),
        ],
    },
    Table {
        name: "budgets",
        columns: &[
            serial("id"),
            text("name"),
            text("currency"),
            int("amount"),
            int("tokens"),
            json("thresholds"),
        ],
    },
    Table {
        name: "budget_months",
        columns: &[
            int("budget"),
            text("month"),
            int("limit_amount"),
            int("limit_tokens"),
            flag("live_amount"),
            flag("live_tokens"),
            int("settled_amount"),
            int("settled_tokens"),
            int("reserved_amount"),
            int("reserved_tokens"),
            time("updated_at"),
        ],
    },
    Table {
        name: "reservations",
        columns: &[
            serial("id"),
            int("budget"),
            text("month"),
            int("job_id"),
            int("token"),
            text("kind"),
            text("user_id"),
            int("amount"),
            int("tokens"),
            time("at"),
        ],
    },
    Table {
        name: "usage_ledger",
        columns: &[
            serial("seq"),
            time("at"),
            int("budget"),
            text("month"),
            text("how"),
            int("reservation"),
            int("token"),
            int("job_id"),
            text("kind"),
            text("user_id"),
            text("provider"),
            text("model"),
            int("tokens_in"),
            int("tokens_out"),
            int("amount"),
        ],
    },
    Table {
        name: "budget_costs",
        columns: &[
            int("budget"),
            text("month"),
            text("dimension"),
            text("key"),
            int("requests"),
            int("tokens_in"),
            int("tokens_out"),
            int("amount"),
            time("updated_at"),
        ],
    },
    Table {
        name: "budget_alerts",
        columns: &[int("budget"), text("month"), int("percent"), text("level"), time("at")],
    },
    Table {
        name: "audit",
        columns: &[serial("seq"), time("at"), text("actor"), text("act"), text("subject"), json("detail")],
    },
];

/// Tables that a backup does not hold, and why.
pub const TABLES_LEFT_OUT: &[(&str, &str)] = &[
    ("migrations", "the restored schema is the binary's own; the file's head says which one the rows are of"),
    ("workers", "none of them is a worker of the restored database"),
    ("claims", "their jobs are exported as waiting, as if they had been handed back"),
    ("deleted", "SQLite's mark of the highest id; a restore sets it to its own time"),
    ("backups", "copies of the old database, not of the restored one"),
    ("slots", "who holds one is told by where jobs stand"),
    ("turns", "exported as looks: what was offered is offered anew"),
    ("lines", "SQLite's order of those who wait in line, which their own rows tell"),
];

/// Tables of older copies, which are read over.
pub const TABLES_GONE: &[Table] =
    &[Table { name: "slots", columns: &[int("lane"), int("slot"), int("job_id")] }];

/// Columns that a backup does not hold, and why.
pub const COLUMNS_LEFT_OUT: &[(&str, &str, &str)] = &[
    ("entities", "seq", "SQLite's change feed: every restored row is a change"),
    ("entities", "changed", "Postgres' change feed: every restored row is a change"),
    (
        "kinds",
        "key_lowered",
        "a note that slots above a limit may be taken, which either database is careful to assume",
    ),
    (
        "kinds",
        "lined",
        "SQLite's note of how urgent anybody in line ever was, which a restore reads from those who are",
    ),
    ("ready", "slot", "Postgres' number of a slot, which a restore gives anew"),
    ("queues", "laned", "Postgres' note that it has lanes, which a restore is careful to assume"),
    ("queues", "limited_claims", "Postgres' count of claims, which only ever has to change"),
    ("rollups", "seq", "SQLite's row number, which nothing refers to"),
];

/// Numbers that fence or identify something outside the database: tokens, workers, calls to providers. A process that
/// outlived the old database may hold numbers given after the copy was made, so a restore goes on at its own microsecond,
/// which no count reaches.
pub const ABOVE_NOW: &[(&str, &str)] = &[("claims", "token"), ("workers", "id"), ("reservations", "id")];
