//! The commented file `config init` writes: every key with its default, all commented out.

use super::keys::{self, Section, Shape};

pub(crate) fn template() -> String {
    let mut text = String::from(
        "# Windlass configuration. Every line that is commented out shows the default.\n\
         # Durations: 500ms, 90s, 5m, 1h30m, 7d, or PT0.5S.\n\
         # Each key can also be set by a variable: WINDLASS_SERVER__LEASE=30s; with _FILE at the end the variable\n\
         # names a file that holds the value. Flags win over variables, variables over this file.\n",
    );
    for section in Section::ALL {
        let header = match section {
            Section::Queue => "# [queues.HIGH]".to_owned(),
            Section::Kind => "# [kinds.SEND_RECEIPT]".to_owned(),
            Section::Entity => "# [entities.product]".to_owned(),
            Section::Budget => "# [budgets.ai]".to_owned(),
            _ => format!("[{}]", section.word()),
        };
        text.push_str(&format!("\n{}\n{header}\n", about(section)));
        for key in keys::in_section(section) {
            text.push_str(&format!("# {}\n# {} = {}\n", key.about, key.name, example(key)));
        }
    }
    text
}

fn about(section: Section) -> &'static str {
    match section {
        Section::Server => "# The worker process.",
        Section::Database => "# Where jobs live.",
        Section::Queue => {
            "# One section per queue. HIGH, DEFAULT, SCREENSHOT, LOW and BULK are always there; another name adds a queue."
        }
        Section::Kind => {
            "# One section per kind of job. A kind this binary does not carry needs a queue; [kinds.\"*\"] holds for all\n\
             # kinds that have no value of their own."
        }
        Section::Entity => {
            "# One section per entity type. `document` is always there; PUT /v1/types/{type} adds one at run time."
        }
        Section::Budget => {
            "# One section per budget: money or tokens per month, reserved before they are spent. `windlass budgets` shows them."
        }
        Section::Cleanup => "# How long things are kept.",
        Section::Backup => "# Copies of the database on a schedule; `windlass backup` shows them.",
    }
}

/// A value that can be used as it stands once its line is uncommented.
fn example(key: &keys::Key) -> String {
    let text = match (key.section, key.name) {
        (Section::Database, "url") => "sqlite://./windlass-data/windlass.db",
        (Section::Queue, "priority") => "0",
        (Section::Queue, "concurrency") => "20",
        (Section::Queue, "concurrency_min") => "5",
        (Section::Queue, "concurrency_max") => "40",
        (Section::Queue | Section::Kind, "resource") => "browser",
        (Section::Queue | Section::Kind, "permits") => "3",
        (Section::Kind, "rate") => "500/s",
        (Section::Queue, "cadence") => "5s",
        (Section::Queue, "sla") => "30s",
        (Section::Queue, "owner") => "ops on call",
        (Section::Queue, "colour") => "salmon",
        (Section::Kind, "queue") => "DEFAULT",
        (Section::Kind, "priority") => "5",
        (Section::Kind, "description") => "mails a receipt",
        (Section::Entity, "text") => "title^2, description",
        (Section::Entity, "on_create" | "on_update" | "on_delete") => "sync",
        (Section::Backup, "folder") => "./backups",
        (Section::Backup, "alert_after") => "2d",
        (Section::Budget, "limit") => "500.00",
        (Section::Budget, "tokens") => "50000000",
        _ => key.default,
    };
    match key.shape {
        Shape::Flag | Shape::Count { .. } | Shape::Money => text.to_owned(),
        _ => format!("\"{text}\""),
    }
}
