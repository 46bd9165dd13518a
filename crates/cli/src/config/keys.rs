//! All configuration keys: the engine's own and those of the parts.
//!
//! Owns the list that parsing, `config show`, `config init`, error texts and `docs/config.md` follow. Contains no
//! values.

use strsim::damerau_levenshtein;
use windlass_core::input::MAX_TOKENS;
use windlass_core::{KindSpec, QueueSpec};
use windlass_pack::limit;
use windlass_pack::settings::{Form, Section, Setting};

pub(crate) const SERVER: Section = Section::plain("server").about("The worker process.");
pub(crate) const DATABASE: Section = Section::plain("database").about("Where jobs live.");
pub(crate) const QUEUE: Section = Section::named("queues", "<name>", "HIGH").about(
    "One section per queue. HIGH, DEFAULT, SCREENSHOT, LOW and BULK are always there; another name adds a queue.",
);
pub(crate) const KIND: Section = Section::named("kinds", "<KIND>", "SEND_RECEIPT").about(
    "One section per kind of job. A kind this binary does not carry needs a queue; [kinds.\"*\"] holds for all\n\
     # kinds that have no value of their own.",
);
pub(crate) const BUDGET: Section = Section::named("budgets", "<name>", "ai").small().about(
    "One section per budget: money or tokens per month, reserved before they are spent. `windlass budgets` shows them.",
);

/// The prefix of a part's section in the file.
pub(crate) const PACKS: &str = "packs";

/// The keys of this binary, in the order of the documentation.
#[derive(Clone, Debug)]
pub(crate) struct Keys(Vec<Setting>);

impl Default for Keys {
    fn default() -> Keys {
        let limits = [limit::keys::<QueueSpec>(QUEUE), limit::keys::<KindSpec>(KIND)];
        Keys(KEYS.iter().cloned().chain(limits.into_iter().flatten()).collect())
    }
}

impl Keys {
    /// The engine's own keys and those of parts.
    pub(crate) fn with(parts: Vec<Setting>) -> Keys {
        let mut keys = Keys::default();
        keys.0.extend(parts);
        keys
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    pub(crate) fn find(&self, section: Section, name: &str) -> Option<&Setting> {
        self.iter().find(|key| key.section == section && key.name == name)
    }

    pub(crate) fn in_section(&self, section: Section) -> impl Iterator<Item = &Setting> {
        self.iter().filter(move |key| key.section == section)
    }

    /// In the order of their first keys.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        for key in self.iter() {
            if !sections.contains(&key.section) {
                sections.push(key.section);
            }
        }
        sections
    }

    pub(crate) fn section(&self, word: &str) -> Option<Section> {
        self.sections().into_iter().find(|section| section.word == word)
    }
}

/// Paths of the engine's own keys, which no part may use.
pub(crate) fn own_paths() -> Vec<String> {
    Keys::default().iter().map(Setting::path).collect()
}

/// `WINDLASS_SERVER__LEASE`, `WINDLASS_QUEUES__<NAME>__SLA`, for the documentation.
#[cfg(test)]
pub(crate) fn variable(key: &Setting) -> String {
    format!("WINDLASS_{}", key.path().replace('.', "__")).to_uppercase()
}

const fn key(
    section: Section,
    name: &'static str,
    form: Form,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting::new(section, name, form, default, about)
}

const PRIORITY: Form = Form::Count { min: 0, max: 10 };
const ANY_DURATION: Form = Form::Duration { min_ms: 0 };
const SOME_DURATION: Form = Form::Duration { min_ms: 1 };

/// Without the limits, which are in `core::limit`.
const KEYS: &[Setting] = &[
    key(
        SERVER,
        "bind",
        Form::Text,
        "127.0.0.1:8080",
        "Address of the HTTP interface (`serve`, `demo`); port 0 takes a free one",
    ),
    key(
        SERVER,
        "public_url",
        Form::Text,
        "none",
        "Where people reach the server through a proxy, such as `https://jobs.example`; requests for it are let in",
    ),
    key(
        SERVER,
        "allowed_hosts",
        Form::Text,
        "none",
        "Further names in `Host` that are let in, separated by commas; without a port, any port",
    ),
    key(
        SERVER,
        "data",
        Form::Text,
        "./windlass-data",
        "Folder for the SQLite database when no address is given",
    ),
    key(
        SERVER,
        "lease",
        Form::Duration { min_ms: 500 },
        "2m",
        "How long a worker may be silent before others take its jobs",
    ),
    key(SERVER, "grace", ANY_DURATION, "30s", "How long running jobs may continue after a stop"),
    key(
        SERVER,
        "poll",
        Form::Duration { min_ms: 10 },
        "1s",
        "Longest time between two polls; wake-ups come sooner",
    ),
    key(
        SERVER,
        "prefetch",
        Form::Count { min: 1, max: 100_000 },
        "2000",
        "Most jobs leased ahead per queue while jobs are short",
    ),
    key(
        SERVER,
        "quarantine",
        SOME_DURATION,
        "60s",
        "How long a job whose workers keep dying has the process to itself",
    ),
    key(
        DATABASE,
        "url",
        Form::Text,
        "sqlite://<server.data>/windlass.db",
        "`sqlite://PATH` or `postgres://…`; also `DATABASE_URL` and `--database`",
    ),
    key(DATABASE, "schema", Form::Text, "windlass", "Postgres schema that holds the tables"),
    key(DATABASE, "pool", Form::Count { min: 2, max: 1_000 }, "10", "Postgres connections per process"),
    key(
        DATABASE,
        "notify",
        Form::Flag,
        "true",
        "Postgres: LISTEN/NOTIFY between processes; off means polling",
    ),
    key(
        DATABASE,
        "pooler",
        Form::Flag,
        "false",
        "Postgres: the address is PgBouncer's, in either mode; turns LISTEN/NOTIFY off",
    ),
    key(
        DATABASE,
        "acquire_timeout",
        Form::Duration { min_ms: 100 },
        "10s",
        "Postgres: how long a call waits for a free connection",
    ),
    key(
        DATABASE,
        "statement_timeout",
        Form::Duration { min_ms: 100 },
        "30s",
        "How long one statement may run; on SQLite, how long a write waits for other writers in total",
    ),
    key(
        QUEUE,
        "priority",
        PRIORITY,
        "the family's, else 5",
        "Default priority of its jobs, 0 is most urgent",
    ),
    key(
        QUEUE,
        "resource",
        Form::NameOrNone,
        "SCREENSHOT: screenshot, else none",
        "What each job holds while it runs, unless its kind names another resource",
    ),
    key(
        QUEUE,
        "cadence",
        SOME_DURATION,
        "the family's, else 10s",
        "Upper bound on the delay between due and claimed",
    ),
    key(
        QUEUE,
        "sla",
        Form::DurationOrNone { min_ms: 1 },
        "the family's, else 5m",
        "Target time from due to finished for 95 % of jobs",
    ),
    key(QUEUE, "owner", Form::Text, "the family's, else empty", "Team or person to call"),
    key(QUEUE, "colour", Form::Text, "the family's, else grey", "Colour in tables and plots"),
    key(KIND, "queue", Form::Text, "needed for a new kind", "The queue it belongs to; permanent"),
    key(KIND, "priority", PRIORITY, "the queue's", "Default priority of its jobs"),
    key(KIND, "max_attempts", Form::Count { min: 1, max: 1_000 }, "5", "All runs, including the first"),
    key(KIND, "timeout", Form::DurationOrNone { min_ms: 1 }, "30m", "How long one run may take"),
    key(KIND, "backoff_base", ANY_DURATION, "30s", "Wait after the first failed attempt; doubles with each"),
    key(KIND, "backoff_cap", ANY_DURATION, "1h", "No wait between attempts is longer"),
    key(KIND, "resource", Form::NameOrNone, "the queue's", "What each of its jobs holds while it runs"),
    key(
        KIND,
        "at_most_once",
        Form::Flag,
        "false",
        "A job lost with its worker becomes a dead letter instead of running again",
    ),
    key(KIND, "description", Form::Text, "empty", "One line for people"),
    key(
        BUDGET,
        "limit",
        Form::Money,
        "none; this or tokens is needed",
        "Money a month may cost, such as `500.00`",
    ),
    key(
        BUDGET,
        "tokens",
        Form::Count { min: 0, max: MAX_TOKENS },
        "none",
        "Tokens a month may take, input and output together",
    ),
    key(BUDGET, "currency", Form::Text, "USD", "Three letters; cannot change once money was booked"),
    key(
        BUDGET,
        "thresholds",
        Form::Text,
        "75 info, 80 warning, 90 warning, 100 critical",
        "Shares of the limit that raise an alert once a month",
    ),
];

/// The most likely intended candidate; `None` if none is close.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase().replace('-', "_");
    let allowed = (typed.len() / 3).clamp(1, 3);
    candidates
        .map(|candidate| (damerau_levenshtein(&typed, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_key() {
        let keys = Keys::default();
        let server = || keys.in_section(SERVER).map(|key| key.name);
        assert_eq!(nearest("leese", server()), Some("lease"));
        assert_eq!(nearest("pre-fetch", server()), Some("prefetch"));
        assert_eq!(nearest("garce", server()), Some("grace"), "two swapped letters count as one typo");
        assert_eq!(nearest("colour", server()), None);
    }

    /// `docs/config.md` has a row for every key and no others.
    #[test]
    fn the_documentation_lists_exactly_these_keys() {
        let page = include_str!("../../../../docs/config.md");
        let (keys, mapping) = page.split_once("## Keys under other names").unwrap();
        let mut listed: Vec<&str> = keys.lines().filter(|line| line.starts_with("| `")).collect();
        listed.sort_unstable();
        let known = Keys::with(windlass_pack::settings_of(&crate::compose::Parts::new(false, &[]).packs));
        let row = |k: &Setting| {
            format!("| `{}` | {} | {} | `{}` | {} |", k.path(), k.default, k.form, variable(k), k.about)
        };
        let mut expected: Vec<String> = known.iter().map(row).collect();
        expected.sort_unstable();
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
