//! The tables of the schema that a backup contains, without those of parts. A test in each store compares the list with
//! the schema and names what is missing.

use super::column::{bytes, column, flag, int, json, serial, text, time};
use super::{Column, ColumnKind, Table};
use crate::limit::{KIND_LIMITS, LimitForm, LimitOwner, LimitRow, Limited, QUEUE_LIMITS};

const QUEUES: [Column; 11 + count_of(&QUEUE_LIMITS, LimitOwner::Queue)] = with_limits(
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
    LimitOwner::Queue,
);

const KINDS: [Column; 13 + count_of(&KIND_LIMITS, LimitOwner::Kind)] = with_limits(
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
        flag("at_most_once"),
        text("configured"),
        text("live"),
    ],
    &KIND_LIMITS,
    LimitOwner::Kind,
);

const RESOURCES: [Column; 3 + count_of(&QUEUE_LIMITS, LimitOwner::Resource)] =
    with_limits(&[text("name"), text("configured"), text("live")], &QUEUE_LIMITS, LimitOwner::Resource);

/// Number of these limits that such a row stores.
const fn count_of<S: Limited>(rows: &[LimitRow<S>], owner: LimitOwner) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < rows.len() {
        count += (rows[at].limit.owner as u8 == owner as u8) as usize;
        at += 1;
    }
    count
}

/// The columns of a table followed by those of its limits.
const fn with_limits<S: Limited, const N: usize>(
    plain: &[Column],
    rows: &[LimitRow<S>],
    owner: LimitOwner,
) -> [Column; N] {
    let mut all = [text(""); N];
    let (mut count, mut at) = (0, 0);
    while count < plain.len() {
        all[count] = plain[count];
        count += 1;
    }
    while at < rows.len() {
        let limit = &rows[at].limit;
        if limit.owner as u8 == owner as u8 {
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
            int("suspicion"),
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

/// Tables that are not backed up, and why.
pub const TABLES_LEFT_OUT: &[(&str, &str)] = &[
    (
        "migrations",
        "the restored schema is that of the binary; the head of the file has the version of its rows",
    ),
    (
        "pack_migrations",
        "the restored tables are those of the packs in the binary; the head of the file has the versions of its rows",
    ),
    ("workers", "they do not belong to the restored database"),
    ("claims", "their jobs are exported as waiting, as if they had been handed back"),
    ("deleted", "the highest deleted id on SQLite; a restore sets it from the current time"),
    ("backups", "copies of the old database, not of the restored one"),
    ("lane_slots", "derived from the jobs that hold slots"),
];

/// Columns that are not backed up, and why.
pub const COLUMNS_LEFT_OUT: &[(&str, &str, &str)] = &[
    ("entities", "seq", "SQLite's change feed: every restored row is a change"),
    ("entities", "changed", "Postgres' change feed: every restored row is a change"),
    ("ready", "slot", "number of a slot on Postgres; a restore assigns it again"),
    ("queues", "limited_claims", "a counter of claims on Postgres, used only to detect changes"),
    ("rollups", "seq", "SQLite's row number, which nothing refers to"),
];

/// Sequences of numbers that fence or identify something outside the database: tokens, workers, provider calls. A
/// process that outlived the old database may hold numbers issued after the backup. So a restore continues at the
/// current time in microseconds, which no sequence reaches by counting.
pub const ABOVE_NOW: &[(&str, &str)] = &[("claims", "token"), ("workers", "id"), ("reservations", "id")];
