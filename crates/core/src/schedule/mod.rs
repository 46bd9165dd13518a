//! Schedules: expressions, zones, calendars, and which ticks are due.
//!
//! Decides when a schedule ticks and what a missed tick means. Pure: the caller supplies the time and enqueues the
//! jobs.
//!
//! # Expressions
//!
//! Five fields (minute, hour, day of month, month, day of week) or six with seconds first; macros such as `@hourly`;
//! intervals as `every 90s` or `@every PT1M30S`. Fields take lists, ranges, steps, names in any case (`FRI`, `friday`),
//! `?` for `*`, Sunday as 0 or 7, and `N/step` for `N-max/step`. The day of month also takes `L`, `L-3`, `LW` and
//! `15W`; the day of week also takes `5L` and `5#3`. Where dialects differ, robfig/cron and cronexpr decide:
//!
//! - If both day fields are restricted, a day fires when *either* matches. `*` restricts nothing, `*/2` does.
//! - Sunday may end a range of names (`SAT-SUN`). Other backward ranges, and steps longer than their field, are
//!   refused: they rarely mean what is written.
//! - An expression that can never fire is refused (`0 0 30 2 *`).
//!
//! # Daylight saving time
//!
//! As in Vixie cron and its descendants. An expression with a star in second, minute or hour follows the wall clock: it
//! skips what the clock skips and repeats what it repeats, so `*/15 * * * *` is every quarter of an hour that passes.
//! Any other expression names times of day. One inside the gap fires at the first instant after it; one in the repeated
//! hour fires the first time only. So a nightly job runs once a night, all year. An interval counts elapsed time and is
//! not affected.
//!
//! # Rules
//!
//! A schedule ticks whenever one of its rules does. A rule may be restricted to phases of a calendar (open, after
//! hours, day off). [`Misfire`] decides what happens to ticks that passed while no process was running.

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
    DEFAULT_CATCH_UP, MAX_CATCH_UP, MAX_SCHEDULE_BYTES, Misfire, RuleSpec, SchedulePosition, ScheduleSpec,
    check_free,
};
pub use timing::Timing;
pub use zone::{UnknownZone, Zone};
