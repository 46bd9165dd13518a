//! Every configuration key there is: name, shape, default and meaning.
//!
//! Owns the one list that reading, `config show`, `config init`, the error texts and `docs/config.md` follow. Never
//! holds a value: a key nobody reads has no place here.

use std::fmt;

use windlass_core::input::MAX_TOKENS;

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Server,
    Database,
    Queue,
    Kind,
    Entity,
    Budget,
    Cleanup,
    Backup,
}

impl Section {
    pub(crate) const ALL: [Section; 8] = [
        Section::Server,
        Section::Database,
        Section::Queue,
        Section::Kind,
        Section::Entity,
        Section::Budget,
        Section::Cleanup,
        Section::Backup,
    ];

    /// The word in the file and in variables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Section::Server => "server",
            Section::Database => "database",
            Section::Queue => "queues",
            Section::Kind => "kinds",
            Section::Entity => "entities",
            Section::Budget => "budgets",
            Section::Cleanup => "cleanup",
            Section::Backup => "backup",
        }
    }

    /// What stands between the section's word and the key, if anything does.
    pub(crate) fn placeholder(self) -> Option<&'static str> {
        match self {
            Section::Queue | Section::Budget => Some("<name>"),
            Section::Kind => Some("<KIND>"),
            Section::Entity => Some("<type>"),
            _ => None,
        }
    }
}

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Flag,
    Count { min: u64, max: u64 },
    CountOrNone { min: u64, max: u64 },
    Money,
    Duration { min_ms: u64 },
    DurationOrNone { min_ms: u64 },
    RateOrNone,
    NameOrNone,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Text => f.write_str("text"),
            Shape::Flag => f.write_str("true or false"),
            Shape::Count { min, max } => write!(f, "number {min}–{max}"),
            Shape::CountOrNone { min, max } => write!(f, "number {min}–{max} or `none`"),
            Shape::Money => f.write_str("sum of money"),
            Shape::Duration { .. } => f.write_str("duration"),
            Shape::DurationOrNone { .. } => f.write_str("duration or `none`"),
            Shape::RateOrNone => f.write_str("rate or `none`"),
            Shape::NameOrNone => f.write_str("name or `none`"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) section: Section,
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// As a person would write it; for queues and kinds in words where it depends on the name.
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

impl Key {
    /// `server.lease`, `queues.<name>.sla`.
    pub(crate) fn path(&self) -> String {
        match self.section.placeholder() {
            Some(hole) => format!("{}.{hole}.{}", self.section.word(), self.name),
            None => format!("{}.{}", self.section.word(), self.name),
        }
    }

    /// `WINDLASS_SERVER__LEASE`, `WINDLASS_QUEUES__<NAME>__SLA`: what the page has to say.
    #[cfg(test)]
    pub(crate) fn variable(&self) -> String {
        let hole = self.section.placeholder().map(|hole| format!("{hole}__")).unwrap_or_default();
        format!("WINDLASS_{}__{hole}{}", self.section.word(), self.name).to_uppercase()
    }
}

const fn key(
    section: Section,
    name: &'static str,
    shape: Shape,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { section, name, shape, default, about }
}

const PRIORITY: Shape = Shape::Count { min: 0, max: 10 };
const ANY_DURATION: Shape = Shape::Duration { min_ms: 0 };
const SOME_DURATION: Shape = Shape::Duration { min_ms: 1 };

use Section::{Backup, Budget, Cleanup, Database, Entity, Kind, Queue, Server};

pub(crate) const KEYS: &[Key] = &[
    key(
        Server,
        "bind",
        Shape::Text,
        "127.0.0.1:8080",
        "Address of the HTTP interface (`serve`, `demo`); port 0 takes a free one",
    ),
    key(
        Server,
        "data",
        Shape::Text,
        "./windlass-data",
        "Folder for the SQLite database when no address is given",
    ),
    key(
        Server,
        "lease",
        Shape::Duration { min_ms: 500 },
        "2m",
        "How long a worker may be silent before others take its jobs",
    ),
    key(Server, "grace", ANY_DURATION, "30s", "How long running jobs may go on after a stop was asked for"),
    key(
        Server,
        "poll",
        Shape::Duration { min_ms: 10 },
        "1s",
        "Longest time between two looks at what is due; wake-ups come sooner",
    ),
    key(
        Server,
        "prefetch",
        Shape::Count { min: 1, max: 100_000 },
        "2000",
        "Most jobs leased ahead per queue while jobs are short",
    ),
    key(
        Server,
        "quarantine",
        SOME_DURATION,
        "30s",
        "How long a job that was running when a worker died keeps the process to itself",
    ),
    key(
        Database,
        "url",
        Shape::Text,
        "sqlite://<server.data>/windlass.db",
        "`sqlite://PATH` or `postgres://…`; also `DATABASE_URL` and `--database`",
    ),
    key(Database, "schema", Shape::Text, "windlass", "Postgres schema that holds the tables"),
    key(Database, "pool", Shape::Count { min: 2, max: 1_000 }, "10", "Postgres connections per process"),
    key(
        Database,
        "notify",
        Shape::Flag,
        "true",
        "Postgres: LISTEN/NOTIFY between processes; off means polling",
    ),
    key(
        Database,
        "pooler",
        Shape::Flag,
        "false",
        "Postgres: the address is PgBouncer's, in either mode; turns LISTEN/NOTIFY off",
    ),
    key(
        Database,
        "acquire_timeout",
        Shape::Duration { min_ms: 100 },
        "10s",
        "Postgres: how long a call waits for a free connection",
    ),
    key(
        Database,
        "statement_timeout",
        Shape::Duration { min_ms: 100 },
        "30s",
        "How long one statement may run; on SQLite, how long a write waits in all for others who write",
    ),
    key(
        Queue,
        "priority",
        PRIORITY,
        "the family's, else 5",
        "Default priority of its jobs, 0 is most urgent",
    ),
    key(
        Queue,
        "concurrency",
        Shape::Count { min: 1, max: 10_000 },
        "the family's, else 10",
        "Jobs of this queue that one process runs at once",
    ),
    key(
        Queue,
        "concurrency_min",
        Shape::Count { min: 1, max: 10_000 },
        "concurrency",
        "With concurrency_max: each process moves its concurrency between the two",
    ),
    key(
        Queue,
        "concurrency_max",
        Shape::Count { min: 1, max: 10_000 },
        "concurrency",
        "Grows to this while the backlog would miss half the SLA and runs do not get slower",
    ),
    key(
        Queue,
        "resource",
        Shape::NameOrNone,
        "SCREENSHOT: screenshot, else none",
        "What each job holds while it runs, unless its kind names something else",
    ),
    key(
        Queue,
        "permits",
        Shape::Count { min: 1, max: 10_000 },
        "SCREENSHOT: 3, else 1",
        "How many of the resource one process has; a job is claimed only with one in hand",
    ),
    key(
        Queue,
        "cadence",
        SOME_DURATION,
        "the family's, else 10s",
        "Upper bound on the delay between due and claimed",
    ),
    key(
        Queue,
        "sla",
        Shape::DurationOrNone { min_ms: 1 },
        "the family's, else 5m",
        "Due-to-finished bound for 95 % of jobs",
    ),
    key(Queue, "owner", Shape::Text, "the family's, else empty", "Whom to call"),
    key(Queue, "colour", Shape::Text, "the family's, else grey", "Colour in tables and plots"),
    key(
        Queue,
        "depth_cap",
        Shape::CountOrNone { min: 1, max: 1_000_000_000 },
        "none",
        "Waiting jobs above which enqueues are refused",
    ),
    key(
        Queue,
        "global_concurrency",
        Shape::CountOrNone { min: 1, max: 1_000_000 },
        "none",
        "Jobs of this queue that run at once over all processes",
    ),
    key(
        Queue,
        "boost_after",
        Shape::DurationOrNone { min_ms: 1 },
        "10m",
        "Jobs due for longer get a quarter of the slots whatever their priority",
    ),
    key(Kind, "queue", Shape::Text, "needed for a new kind", "The queue it belongs to, for good"),
    key(Kind, "priority", PRIORITY, "the queue's", "Default priority of its jobs"),
    key(Kind, "max_attempts", Shape::Count { min: 1, max: 1_000 }, "5", "All runs, the first included"),
    key(Kind, "timeout", Shape::DurationOrNone { min_ms: 1 }, "30m", "How long one run may take"),
    key(Kind, "backoff_base", ANY_DURATION, "30s", "Wait after the first failed attempt; doubles with each"),
    key(Kind, "backoff_cap", ANY_DURATION, "1h", "No wait between attempts is longer"),
    key(
        Kind,
        "key_concurrency",
        Shape::Count { min: 1, max: 10_000 },
        "1",
        "Jobs with one `concurrency_key` that are ready or running at once, over all processes",
    ),
    key(
        Kind,
        "rate",
        Shape::RateOrNone,
        "none",
        "Starts of all processes together, such as `500/s` or `30/m`",
    ),
    key(Kind, "resource", Shape::NameOrNone, "the queue's", "What each of its jobs holds while it runs"),
    key(
        Kind,
        "permits",
        Shape::Count { min: 1, max: 10_000 },
        "what others say of the resource, else 1",
        "How many of the resource one process has",
    ),
    key(Kind, "description", Shape::Text, "empty", "One line for people"),
    key(
        Entity,
        "text",
        Shape::Text,
        "every field that is text",
        "Fields that are searched, such as `title^2, description`",
    ),
    key(Entity, "strategy", Shape::Text, "async", "How its writes are indexed: sync, async or batch"),
    key(Entity, "on_create", Shape::Text, "the type's strategy", "The same for new entities"),
    key(Entity, "on_update", Shape::Text, "the type's strategy", "The same for changed ones"),
    key(Entity, "on_delete", Shape::Text, "the type's strategy", "The same for deleted ones"),
    key(
        Budget,
        "limit",
        Shape::Money,
        "none; this or tokens is needed",
        "Money a month may cost, such as `500.00`",
    ),
    key(
        Budget,
        "tokens",
        Shape::Count { min: 0, max: MAX_TOKENS },
        "none",
        "Tokens a month may take, input and output together",
    ),
    key(Budget, "currency", Shape::Text, "USD", "Three letters; cannot change once money was booked"),
    key(
        Budget,
        "thresholds",
        Shape::Text,
        "75 info, 80 warning, 90 warning, 100 critical",
        "Shares of the limit that raise an alert once a month",
    ),
    key(Cleanup, "finished", ANY_DURATION, "7d", "Age at which completed, cancelled and superseded jobs go"),
    key(Cleanup, "dead_letters", ANY_DURATION, "30d", "Age at which failed jobs and dead letters go"),
    key(Cleanup, "idempotency", ANY_DURATION, "1d", "How long an idempotency key is remembered"),
    key(Cleanup, "rollups", ANY_DURATION, "30d", "Age at which per-minute statistics go"),
    key(
        Backup,
        "folder",
        Shape::Text,
        "none: no copies are made",
        "Folder for copies on a schedule; processes without it make none",
    ),
    key(
        Backup,
        "keep",
        Shape::Count { min: 1, max: 10_000 },
        "7",
        "Copies that stay, the newest; the last verified one always does",
    ),
    key(
        Backup,
        "every",
        Shape::Text,
        "24h",
        "How often a copy is made: a duration, or a cron expression in UTC",
    ),
    key(Backup, "verify", Shape::Flag, "true", "Restore each copy to scratch and compare every table"),
    key(
        Backup,
        "alert_after",
        SOME_DURATION,
        "twice the longest time between two copies",
        "Age of the last verified copy that raises the alarm",
    ),
];

pub(crate) fn find(section: Section, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

pub(crate) fn in_section(section: Section) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section == section)
}

/// The candidate a typo most likely meant; nothing when none is near.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase().replace('-', "_");
    let allowed = (typed.len() / 3).clamp(1, 3);
    candidates
        .map(|candidate| (distance(&typed, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Single-character edits from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_key() {
        let server = || in_section(Section::Server).map(|key| key.name);
        assert_eq!(nearest("leese", server()), Some("lease"));
        assert_eq!(nearest("pre-fetch", server()), Some("prefetch"));
        assert_eq!(nearest("colour", server()), None);
    }

    /// `docs/config.md` has a row for every key and no row for anything else.
    #[test]
    fn the_page_lists_exactly_these_keys() {
        let page = include_str!("../../../../docs/config.md");
        let (keys, mapping) = page.split_once("## Document 002").unwrap();
        let listed: Vec<&str> = keys.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> = KEYS
            .iter()
            .map(|k| {
                format!("| `{}` | {} | {} | `{}` | {} |", k.path(), k.default, k.shape, k.variable(), k.about)
            })
            .collect();
        assert_eq!(listed, expected);
        for old in [
            "base-delay",
            "max-attempts",
            "workers.high",
            "workers.default",
            "workers.screenshot",
            "workers.low",
            "workers.bulk",
            "poll-interval.high",
            "poll-interval.default",
            "poll-interval.screenshot",
            "poll-interval.low",
            "poll-interval.bulk",
            "screenshot-concurrency",
            "ai-tagging.monthly-budget",
            "escalation.pagerduty-key",
            "escalation.slack-webhook",
            "escalation.ops-email",
        ] {
            assert!(mapping.contains(&format!("| `villagecompute.jobs.{old}` |")), "{old}");
        }
    }
}
