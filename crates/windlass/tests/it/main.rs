//! The library as an application uses it, and fault tests with real processes, on both databases.
//!
//! Small counts by default; `WINDLASS_TEST_FULL=1` (`./test --full`) runs the full ones.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod budget;
mod child;
mod clock;
mod crash;
mod crowd;
mod disk;
mod examples;
mod global;
mod index;
mod jobs;
mod kill;
mod lanes;
mod library;
mod migrate;
mod outage;
mod pause;
mod pickup;
mod poison;
mod rate;
mod reader;
mod schedules;
mod workflows;
mod world;

/// The count for this run: `small` normally, `full` with `WINDLASS_TEST_FULL`.
pub(crate) fn count(small: usize, full: usize) -> usize {
    if std::env::var_os("WINDLASS_TEST_FULL").is_some() { full } else { small }
}
