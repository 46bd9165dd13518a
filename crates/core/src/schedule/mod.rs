//! Schedules: expressions, zones, calendars, and which ticks are due.
//!
//! Owns when a schedule ticks and what a missed tick means. Pure: the time is always given, nothing is enqueued here.
//!
//! # Expressions
//!
//! Five fields (minute, hour, day of month, month, day of week) or six with seconds first; `@hourly` and its kin; intervals
//! as `every 90s` or `@every PT1M30S`. Lists, ranges, steps, names in any case and length (`FRI`, `friday`), `?` for `*`, Sunday
//! as 0 and 7, `N/step` for `N-max/step`, `L`, `L-3`, `LW`, `15W` among the days of the month, `5L` and `5#3` among those of the week.
//! Where dialects differ, robfig/cron and cronexpr decide:
//!
//! - a day fires when *either* day field fits, if both are restricted; `*` restricts nothing, `*/2` does;
//! - Sunday may end a range of names (`SAT-SUN`); any other that runs backwards, and a step longer than its field, are refused: they rarely mean what is written;
//! - what can never fire is refused (`0 0 30 2 *`).
//!
//! # Clocks that are put forward and back
//!
//! As Vixie cron and its heirs do. An expression with a star in second, minute or hour follows the clock on the wall: it skips
//! what the wall skips and repeats what the wall repeats, so `*/15 * * * *` is every quarter of an hour that passes.
//! Any other names times of day: one inside the gap fires at the first instant after it, one inside the repeated
//! hour fires the first time only. So a nightly job runs once a night, all year. An interval counts elapsed time and sees none of it.
//!
//! # Rules
//!
//! A schedule ticks whenever one of its rules does; a rule may be bound to phases of a calendar (open, after hours, day off). What
//! becomes of ticks that nobody was there for is the schedule's [`Misfire`].

mod calendar;
mod cron;
mod kept;
mod plan;
mod spec;
#[cfg(test)]
mod tests;
mod timing;
mod zone;

pub use calendar::{Calendar, CalendarSpec, Calendars, Phase};
pub use plan::{Due, MAX_COUNTED, Plan};
pub use spec::{
    DEFAULT_CATCH_UP, MAX_CATCH_UP, MAX_SCHEDULE_BYTES, Misfire, RuleSpec, ScheduleSpec, Standing, check_free,
};
pub use timing::Timing;
pub use zone::{UnknownZone, Zone};
