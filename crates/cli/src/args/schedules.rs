//! `schedules`.

use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::Time;
use windlass_core::schedule::{Misfire, Phase};

use super::Json;
use super::value::{duration_of, misfire, patience, phase, time_of};

#[derive(Args)]
#[command(after_help = "Examples:\n  windlass schedules\n  \
    windlass schedules put nightly --kind NOOP --cron '30 2 * * *' --zone Europe/Berlin\n  \
    windlass schedules put refresh --file examples/stock_refresh.toml\n  \
    windlass schedules run nightly --wait\n  \
    windlass schedules next '30 2 * * *' --zone Europe/Berlin -n 4\n  \
    windlass schedules next --file examples/stock_refresh.toml -n 20\n  \
    windlass schedules show refresh --from 2026-12-24T00:00:00Z -n 20\n  \
    windlass schedules calendar NYSE --at 2026-11-27T18:00:00Z\n  \
    echo '{\"expr\": \"@daily\", \"zone\": \"Asia/Tokyo\", \"n\": 2}' | windlass schedules next -")]
pub(crate) struct Schedules {
    #[command(subcommand)]
    pub(crate) verb: Option<SchedulesVerb>,
    #[command(flatten)]
    pub(crate) list: Json,
}

#[derive(Subcommand)]
pub(crate) enum SchedulesVerb {
    /// All schedules: next tick, last tick, missed, paused (also without a verb)
    List(Json),
    /// One schedule and its next ticks
    Show(OneSchedule),
    /// Create or replace a schedule; it keeps its last tick
    Put(Box<PutSchedule>),
    /// Delete schedules; their jobs stay
    Delete(ScheduleNames),
    /// Enqueue one job of a schedule now, without affecting its ticks
    Run(RunSchedule),
    /// Stop ticking until resumed
    Pause(ScheduleNames),
    /// Tick again; missed ticks are handled by the misfire policy
    Resume(ScheduleNames),
    /// The next ticks of an expression
    Next(NextTicks),
    /// Whether a calendar is open
    Calendar(CalendarAt),
}

#[derive(Args)]
pub(crate) struct OneSchedule {
    /// Name of the schedule
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Number of next ticks [default: 5]
    #[arg(short, value_name = "N", allow_negative_numbers = true)]
    pub(crate) n: Option<i64>,
    /// Ticks after this time, even if paused [default: upcoming ones]
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    pub(crate) from: Option<Time>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct ScheduleNames {
    /// Names of schedules
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
pub(crate) struct RunSchedule {
    /// Name of the schedule
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Wait until the job is finished, at most SECONDS [default: 60]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", value_parser = patience)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: Json,
}

const OF_A_FILE: [&str; 15] = [
    "kind",
    "cron",
    "every",
    "zone",
    "calendar",
    "during",
    "payload",
    "misfire",
    "catch_up",
    "priority",
    "max_attempts",
    "timeout",
    "unique_key",
    "concurrency_key",
    "tag",
];

#[derive(Args)]
#[command(after_help = "With several rules, or calendars of its own, a schedule is a file:\n\n  \
    kind = \"STOCK_REFRESH\"\n  \
    misfire = \"once\"\n  \
    payload = { market = \"US\" }\n\n  \
    [[rules]]\n  \
    expr = \"*/5 * * * *\"\n  \
    calendar = \"NYSE\"                 # or one of [calendars.NAME], written as for\n  \
    during = [\"open\"]                 # `schedules calendar --file`\n\n\
    It may contain every field of PUT /v1/schedules/{name}.\n\n\
    Ticks that passed while no process was running: skip drops them, once enqueues only\n\
    the latest, all enqueues at most --catch-up of them; the rest is counted as missed.")]
pub(crate) struct PutSchedule {
    /// At most 55 of A-Z a-z 0-9 _ - . :, not beginning with windlass-
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Kind of its jobs; `windlass kinds` lists them
    #[arg(long, value_name = "KIND", required_unless_present = "file")]
    pub(crate) kind: Option<String>,
    /// Five fields, six with seconds first, or a macro such as @daily
    #[arg(long, value_name = "EXPR", conflicts_with = "every")]
    pub(crate) cron: Option<String>,
    /// A fixed interval, counted from the creation of the schedule
    #[arg(long, value_name = "DURATION")]
    pub(crate) every: Option<String>,
    /// IANA name of the time zone [default: the calendar's, else UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Only while this calendar is open: NYSE, or a .toml file, which is stored with the schedule
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) calendar: Option<String>,
    /// Other phases of the calendar: open, after_hours, day_off; several with commas
    #[arg(long, value_name = "PHASE", value_delimiter = ',', requires = "calendar", value_parser = phase)]
    pub(crate) during: Vec<Phase>,
    /// JSON text, @FILE, or - for standard input [default: {}]
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Ticks that passed while no process was running: skip, once or all [default: once]
    #[arg(long, value_name = "POLICY", value_parser = misfire)]
    pub(crate) misfire: Option<Misfire>,
    /// Most ticks caught up at once under all [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) catch_up: Option<u32>,
    /// 0 (most urgent) to 10
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// All runs, including the first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_attempts: Option<i64>,
    /// How long one run may take
    #[arg(long, value_name = "DURATION", value_parser = duration_of, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// A tick that finds a job with this key waiting or running adds none
    #[arg(long, value_name = "KEY")]
    pub(crate) unique_key: Option<String>,
    /// Jobs of a kind with the same key share a lane
    #[arg(long, value_name = "KEY")]
    pub(crate) concurrency_key: Option<String>,
    /// A word to find its jobs by; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Vec<String>,
    /// The whole schedule from a file
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = OF_A_FILE)]
    pub(crate) file: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
#[command(after_help = "An expression has five fields (minute, hour, day of month, month, day of week),\n\
    or six with seconds first, or is @hourly, @daily, @weekly, @monthly, @yearly,\n\
    or an interval: every 90s, @every PT5M.\n\n\
    With - each line of standard input is an object {expr, zone, from, n}; missing\n\
    fields are taken from the options. Each is answered on one line,\n\
    {\"ticks\": […]} or {\"error\": …}; one error makes the exit code 1.")]
pub(crate) struct NextTicks {
    /// The expression, or - for lines of JSON
    #[arg(value_name = "EXPR", required_unless_present = "file")]
    pub(crate) expr: Option<String>,
    /// A schedule in the format of `schedules put --file`; nothing is stored
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["expr", "zone"])]
    pub(crate) file: Option<String>,
    /// IANA name of the time zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) zone: String,
    /// Ticks after this time; intervals count from it [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    pub(crate) from: Option<Time>,
    /// Number of ticks
    #[arg(short, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    pub(crate) n: i64,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args)]
#[command(after_help = "A calendar of your own is a file:\n\n  \
    zone = \"Asia/Tokyo\"\n  \
    closed = [\"01-01\", \"2026-01-02\"]       # every year, or once\n\n  \
    [sessions]\n  \
    mon-fri = [\"09:00-11:30\", \"12:30-15:30\"]\n\n  \
    [half_days]\n  \
    2026-12-30 = [\"09:00-11:30\"]\n\n\
    With - each line of standard input is an object {name, at}, answered on one line,\n\
    {\"open\": …} or {\"error\": …}; one error makes the exit code 1.")]
pub(crate) struct CalendarAt {
    /// NYSE, the path of a .toml file, or - for lines of JSON
    #[arg(value_name = "NAME", required_unless_present = "file")]
    pub(crate) name: Option<String>,
    /// Your own calendar
    #[arg(long, value_name = "FILE.toml", conflicts_with = "name")]
    pub(crate) file: Option<String>,
    /// At this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    pub(crate) at: Option<Time>,
    #[command(flatten)]
    pub(crate) json: Json,
}
