//! What a backup holds of the schema, without what parts bring. A test of each store compares all of it with the schema and
//! names what is missing.

use super::column::{bytes, column, flag, int, json, serial, text, time};
use super::{Column, ColumnKind, Table};
use crate::limit::{KIND_LIMITS, LimitForm, LimitRow, Limited, Of, QUEUE_LIMITS};

const QUEUES: [Column; 11 + kept(&QUEUE_LIMITS, Of::Queue)] = with_limits(
    &[
        serial("id"),
        text("name"),
        int("priority"),
        int("cadence_us"),
        int("sla_us"),
        text("owner"),
        text("colour"),
        text("resource"),
        flag("paused"),
        text("configured"),
        text("live"),
    ],
    &QUEUE_LIMITS,
    Of::Queue,
);

const KINDS: [Column; 12 + kept(&KIND_LIMITS, Of::Kind)] = with_limits(
    &[
        serial("id"),
        text("name"),
        int("queue"),
        int("priority"),
        int("max_attempts"),
        int("timeout_us"),
        int("backoff_base_us"),
        int("backoff_cap_us"),
        text("description"),
        text("resource"),
        text("configured"),
        text("live"),
    ],
    &KIND_LIMITS,
    Of::Kind,
);

const RESOURCES: [Column; 3 + kept(&QUEUE_LIMITS, Of::Resource)] =
    with_limits(&[text("name"), text("configured"), text("live")], &QUEUE_LIMITS, Of::Resource);

/// How many of these limits such a row keeps.
const fn kept<S: Limited>(rows: &[LimitRow<S>], of: Of) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < rows.len() {
        count += (rows[at].limit.of as u8 == of as u8) as usize;
        at += 1;
    }
    count
}

/// The columns of a table, and those of its limits.
const fn with_limits<S: Limited, const N: usize>(
    plain: &[Column],
    rows: &[LimitRow<S>],
    of: Of,
) -> [Column; N] {
    let mut all = [text(""); N];
    let (mut count, mut at) = (0, 0);
    while count < plain.len() {
        all[count] = plain[count];
        count += 1;
    }
    while at < rows.len() {
        let limit = &rows[at].limit;
        if limit.of as u8 == of as u8 {
            all[count] = match limit.form {
                LimitForm::Rate => text(limit.column),
                LimitForm::Number { .. } | LimitForm::Duration => int(limit.column),
            };
            count += 1;
        }
        at += 1;
    }
    all
}

/// Ordered so that foreign keys point backwards.
pub const TABLES: &[Table] = &[
    Table { name: "queues", columns: &QUEUES },
    Table { name: "kinds", columns: &KINDS },
    Table { name: "resources", columns: &RESOURCES },
    Table { name: "rates", columns: &[int("kind"), time("given_until")] },
    Table {
        name: "jobs",
        columns: &[
            int("id"),
            int("kind"),
            int("queue"),
            int("priority"),
            int("max_attempts"),
            time("created_at"),
            int("timeout_us"),
            int("parent_id"),
            bytes("payload"),
            text("unique_key"),
            text("unique_until"),
            text("concurrency_key"),
            column("tags", ColumnKind::Texts),
            text("entity_type"),
            text("entity_id"),
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
    Table { name: "lane_checks", columns: &[int("kind"), time("at"), int("lane"), flag("freed")] },
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
    Table { name: "unique_keys", columns: &[text("key"), int("job_id")] },
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
    (
        "pack_migrations",
        "the restored tables are those of the binary's own packs; the file's head says which the rows are of",
    ),
    ("workers", "none of them is a worker of the restored database"),
    ("claims", "their jobs are exported as waiting, as if they had been handed back"),
    ("deleted", "SQLite's mark of the highest id; a restore sets it to its own time"),
    ("backups", "copies of the old database, not of the restored one"),
    ("lane_slots", "the jobs that hold slots say so themselves"),
];

/// Columns that a backup does not hold, and why.
pub const COLUMNS_LEFT_OUT: &[(&str, &str, &str)] = &[
    ("entities", "seq", "SQLite's change feed: every restored row is a change"),
    ("entities", "changed", "Postgres' change feed: every restored row is a change"),
    ("ready", "slot", "Postgres' number of a slot, which a restore gives anew"),
    ("queues", "limited_claims", "Postgres' count of claims, which only ever has to change"),
    ("rollups", "seq", "SQLite's row number, which nothing refers to"),
];

/// Numbers that fence or identify something outside the database: tokens, workers, calls to providers. A process that
/// outlived the old database may hold numbers given after the copy was made, so a restore goes on at its own microsecond,
/// which no count reaches.
pub const ABOVE_NOW: &[(&str, &str)] = &[("claims", "token"), ("workers", "id"), ("reservations", "id")];
